#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include <nlohmann/json.hpp>

#include "engine/base/length.h"

namespace dtrain {

/// Reads the fields of one JSON object with their types checked, so that what
/// was not written by dtrain is told by name and never crashes. Throws
/// Error(kFailed). Keeps references: use it where the JSON lives.
class JsonFields {
 public:
  /// `what` names the object in messages: "trial spec".
  JsonFields(const nlohmann::json& object, std::string what);

  /// The field, which must be there.
  const nlohmann::json& At(const char* name) const;

  /// An integer in [least, most].
  std::int64_t Int(
      const char* name, std::int64_t least = 0,
      std::int64_t most = std::numeric_limits<std::int64_t>::max()) const;
  /// A finite number or a string that `JsonNumber` writes.
  double Number(const char* name) const;
  bool Bool(const char* name) const;
  std::string String(const char* name) const;
  /// As `LengthToJson` writes it.
  Length LengthOf(const char* name) const;
  /// A list of such.
  std::vector<Length> Lengths(const char* name) const;

  /// Throws Error(kFailed): the field is not `expected`.
  [[noreturn]] void Fail(const char* name, const std::string& expected) const;

 private:
  Length ToLength(const char* name, const nlohmann::json& field) const;

  const nlohmann::json& object_;
  std::string what_;
};

/// `{"epochs": 10}`.
nlohmann::json LengthToJson(Length length);

}  // namespace dtrain
