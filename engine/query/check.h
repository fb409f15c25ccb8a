#pragma once

#include <optional>
#include <string>

#include "engine/query/field.h"

namespace dtrain {

/// Result of a requirement.
struct Check {
  std::string text;  // as it was written
  bool met = false;
  std::string actual;  // the values of its names, or why there are none
  // The value of the name, if the requirement is a single comparison; empty: it
  // has none.
  std::optional<FieldValue> value;
};

}  // namespace dtrain
