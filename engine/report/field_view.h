#pragma once

#include <nlohmann/json.hpp>

#include "engine/query/field.h"
#include "engine/report/terminal.h"

namespace dtrain {

/// The column that --columns names.
Column FieldColumn(const FieldName& field, FieldKind kind);

/// The value of a field in a table. `local`: a time for people is in the local
/// time zone and near `now` relative to it.
Cell FieldCell(const FieldValue& value, FieldKind kind, bool local,
               Timestamp now);

/// The value of a field in JSON; null if there is none.
nlohmann::json FieldJson(const FieldValue& value);

}  // namespace dtrain
