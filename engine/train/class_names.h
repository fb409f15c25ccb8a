#pragma once

#include <string>
#include <vector>

#include "engine/base/api.h"

namespace dtrain {

/// A trial whose model's classes have names: a second base of its class, beside
/// Trial. Checkpoints record the names for `dtrain predict`.
class DTRAIN_API NamedClasses {
 public:
  virtual ~NamedClasses() = default;

  /// The names by the classes' index; empty if the data have none.
  virtual std::vector<std::string> ClassNames() const = 0;
};

/// The names of the classes of `trial`, a Trial; empty if they have none.
template <typename Trial>
std::vector<std::string> ClassNamesOf(const Trial& trial) {
  const auto* named = dynamic_cast<const NamedClasses*>(&trial);
  return named == nullptr ? std::vector<std::string>() : named->ClassNames();
}

}  // namespace dtrain
