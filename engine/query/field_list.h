#pragma once

#include <string_view>
#include <vector>

#include "engine/query/field.h"

namespace dtrain {

/// A key of --sort.
struct SortKey {
  FieldName field;
  bool descending = false;  // written with a minus sign before it
};

/// Parses `-val_accuracy,hp.lr`. A name that is known as it stands, such as a
/// metric `-x`, has no minus sign. Throws Error as Filter::Parse does.
std::vector<SortKey> ParseSortKeys(std::string_view text,
                                   const QueryContext& context);

/// Parses `id,hp.*,min(loss)`. `expand` returns the fields that a name ending
/// in `.*` stands for; such names are not resolved. Throws Error as
/// Filter::Parse does, and for a column that comes twice.
std::vector<FieldName> ParseColumns(
    std::string_view text, const QueryContext& context,
    const std::function<std::vector<FieldName>(const std::string&)>& expand);

}  // namespace dtrain
