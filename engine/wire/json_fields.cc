#include "engine/wire/json_fields.h"

#include <utility>

#include "engine/base/error.h"
#include "engine/base/json_number.h"

namespace dtrain {

JsonFields::JsonFields(const nlohmann::json& object, std::string what)
    : object_(object), what_(std::move(what)) {
  if (!object_.is_object()) {
    throw Error(ErrorKind::kFailed, what_ + ": expected a JSON object");
  }
}

const nlohmann::json& JsonFields::At(const char* name) const {
  const auto found = object_.find(name);
  if (found == object_.end()) Fail(name, "there");
  return *found;
}

std::int64_t JsonFields::Int(const char* name, std::int64_t least,
                             std::int64_t most) const {
  const nlohmann::json& field = At(name);
  const bool fits = field.is_number_integer() &&
                    (!field.is_number_unsigned() ||
                     field.get<std::uint64_t>() <=
                         static_cast<std::uint64_t>(
                             std::numeric_limits<std::int64_t>::max()));
  const std::int64_t value = fits ? field.get<std::int64_t>() : 0;
  if (!fits || value < least || value > most) {
    Fail(name, "an integer from " + std::to_string(least) + " to " +
                   std::to_string(most));
  }
  return value;
}

double JsonFields::Number(const char* name) const {
  try {
    return NumberFromJson(At(name));
  } catch (const Error&) {
    Fail(name, "a number");
  }
}

bool JsonFields::Bool(const char* name) const {
  const nlohmann::json& field = At(name);
  if (!field.is_boolean()) Fail(name, "true or false");
  return field.get<bool>();
}

std::string JsonFields::String(const char* name) const {
  const nlohmann::json& field = At(name);
  if (!field.is_string()) Fail(name, "a string");
  return field.get<std::string>();
}

Length JsonFields::LengthOf(const char* name) const {
  return ToLength(name, At(name));
}

std::vector<Length> JsonFields::Lengths(const char* name) const {
  const nlohmann::json& field = At(name);
  if (!field.is_array()) Fail(name, "a list of lengths");
  std::vector<Length> lengths;
  for (const nlohmann::json& item : field) {
    lengths.push_back(ToLength(name, item));
  }
  return lengths;
}

Length JsonFields::ToLength(const char* name,
                            const nlohmann::json& field) const {
  if (field.is_object() && field.size() == 1) {
    const JsonFields length(field, what_ + "." + name);
    const std::string& unit = field.begin().key();
    for (const Unit known : {Unit::kBatches, Unit::kRecords, Unit::kEpochs}) {
      if (unit == UnitName(known)) return {length.Int(unit.c_str()), known};
    }
  }
  Fail(name, "a length such as {\"batches\": 100}");
}

void JsonFields::Fail(const char* name, const std::string& expected) const {
  throw Error(ErrorKind::kFailed, what_ + ": field '" + name + "' must be " +
                                      expected +
                                      "; is the sender another version?");
}

nlohmann::json LengthToJson(Length length) {
  return {{std::string(UnitName(length.unit)), length.count}};
}

}  // namespace dtrain
