#include "engine/wire/message_fields.h"

#include <cmath>
#include <limits>
#include <utility>

#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/base/text.h"

namespace dtrain {
namespace {

constexpr std::array<std::string_view, MessageFields::kCount> kNames = {
    "type",       "uuid",      "reason",      "message",
    "unread",     "seq",       "batches",     "bytes",
    "total",      "trained",   "samples",     "minor_faults",
    "peak_bytes", "gpu_bytes", "gpu_percent", "batches_per_epoch",
    "time",       "epoch",     "early",       "length",
    "metrics",    "seconds",   "files"};

bool IsString(Field field) { return field <= Field::kUnread; }

bool IsInteger(Field field) {
  return field >= Field::kSeq && field <= Field::kTime;
}

bool IsObject(Field field) { return field >= Field::kLength; }

std::string_view Expectation(Field field) {
  if (IsString(field)) return "a string";
  if (IsInteger(field)) return "an integer from 0 to 9223372036854775807";
  if (field == Field::kEpoch) return "a number, at least 0";
  if (field == Field::kEarly) return "true or false";
  if (field == Field::kLength) return "a length such as {\"batches\": 100}";
  if (field == Field::kMetrics || field == Field::kSeconds) {
    return "an object of numbers";
  }
  return "an object of strings";
}

// What nlohmann's parser calls as it reads. Every function gives false, and
// leaves a message, where the line goes wrong; that ends the parsing. An array
// or an object too deep is wrong at once, so nothing nests.
class FieldHandler {
 public:
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  explicit FieldHandler(MessageFields& fields) : fields_(fields) {}

  bool null() { return Unexpected(); }

  bool boolean(bool value) {
    if (depth_ != 1 || field_ != Field::kEarly) return Unexpected();
    fields_.early = value;
    return Mark();
  }

  bool number_integer(std::int64_t value) {
    return value < 0 ? Number(static_cast<double>(value)) : Integer(value);
  }

  bool number_unsigned(std::uint64_t value) {
    constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
    if (value <= static_cast<std::uint64_t>(kMost)) {
      return Integer(static_cast<std::int64_t>(value));
    }
    return Number(static_cast<double>(value));
  }

  bool number_float(double value, const string_t&) { return Number(value); }

  bool string(string_t& value) {
    if (depth_ == 1 && IsString(field_)) {
      fields_.strings[static_cast<int>(field_)] = std::move(value);
      return Mark();
    }
    if (depth_ == 2 && field_ == Field::kFiles) {
      fields_.files.insert_or_assign(std::move(key_), std::move(value));
      return true;
    }
    if (depth_ != 2 || field_ != Field::kMetrics) return Unexpected();
    if (value == "NaN") return Number(std::nan(""));
    if (value == "Infinity") return Number(HUGE_VAL);
    if (value == "-Infinity") return Number(-HUGE_VAL);
    return Unexpected();
  }

  bool binary(binary_t&) { return Unexpected(); }

  bool start_object(std::size_t) {
    if (depth_ == 1 && !(IsObject(field_) && Mark())) return Unexpected();
    if (depth_ == 2) return Unexpected();
    ++depth_;
    return true;
  }

  bool key(string_t& name) {
    if (depth_ == 2) {
      key_ = std::move(name);
      return true;
    }
    for (std::size_t i = 0; i < kNames.size(); ++i) {
      if (name != kNames[i]) continue;
      field_ = static_cast<Field>(i);
      if (!fields_.present[i]) return true;
      return Fail("field '" + name + "' comes twice");
    }
    return Fail("unknown field '" + Truncate(EscapeForTerminal(name), 40) +
                "'");
  }

  bool end_object() {
    --depth_;
    const bool empty_length =
        depth_ == 1 && field_ == Field::kLength && !has_count_;
    return empty_length ? Unexpected() : true;
  }

  bool start_array(std::size_t) { return Unexpected(); }
  bool end_array() { return Unexpected(); }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception& error) {
    // 406 is a number too large for a double, which is well-formed JSON.
    if (error.id == 406) return Unexpected();
    return Fail("not JSON at byte " + std::to_string(position));
  }

  const std::string& error() const { return error_; }

 private:
  bool Integer(std::int64_t value) {
    if (depth_ == 1 && IsInteger(field_)) {
      fields_.integers[static_cast<int>(field_)] = value;
      return Mark();
    }
    if (depth_ == 2 && field_ == Field::kLength) return Count(value);
    return Number(static_cast<double>(value));
  }

  bool Number(double value) {
    if (depth_ == 2 && field_ == Field::kMetrics) {
      fields_.metrics.emplace_back(std::move(key_), value);
      return true;
    }
    if (depth_ == 2 && field_ == Field::kSeconds) {
      fields_.seconds.emplace_back(std::move(key_), value);
      return true;
    }
    if (depth_ != 1 || field_ != Field::kEpoch || value < 0) {
      return Unexpected();
    }
    fields_.epoch = value;
    return Mark();
  }

  bool Count(std::int64_t count) {
    for (const Unit unit : {Unit::kBatches, Unit::kRecords, Unit::kEpochs}) {
      if (key_ != UnitName(unit) || has_count_) continue;
      fields_.length = {count, unit};
      has_count_ = true;
      return true;
    }
    return Unexpected();
  }

  bool Mark() {
    fields_.present[static_cast<int>(field_)] = true;
    return true;
  }

  bool Unexpected() {
    if (depth_ == 0) return Fail("expected a JSON object");
    return Fail("field '" + std::string(FieldName(field_)) + "' must be " +
                std::string(Expectation(field_)));
  }

  bool Fail(std::string error) {
    error_ = std::move(error);
    return false;
  }

  MessageFields& fields_;
  int depth_ = 0;
  Field field_ = Field::kType;  // at depth 1, the one being read
  std::string key_;             // at depth 2
  bool has_count_ = false;
  std::string error_;
};

}  // namespace

std::string_view FieldName(Field field) {
  return kNames[static_cast<std::size_t>(field)];
}

MessageFields MessageFields::Parse(std::string_view line) {
  MessageFields fields;
  FieldHandler handler(fields);
  if (!nlohmann::json::sax_parse(line, &handler)) {
    throw Error(ErrorKind::kFailed, handler.error());
  }
  return fields;
}

}  // namespace dtrain
