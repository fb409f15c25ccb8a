// Reading and writing of messages as JSON, one a line.
//
// Messages are many and small, so parsing builds a tree of vectors (JsonValue)
// instead of nlohmann's maps, with nlohmann's parser as the source of events.
// Depth is limited. Fields are looked up from the place behind the last one
// found, so a message with the fields in the order of its definition is read in
// one pass.
//
// Doubles are written in the shortest form that reads back to the same value.
// NaN and infinities, which JSON lacks, are written as strings, and accepted
// for numbers without a range and for metrics. Text that is not UTF-8 is
// repaired when it is written. Integers that do not fit std::int64_t are kept
// as unsigned ones.
//
// Errors name the field by its path. The definitions of the messages are in
// message.h and trial_spec.h.

#include "engine/wire/json_codec.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/base/text.h"

namespace dtrain {
namespace {

using nlohmann::json;

// Receives the events of nlohmann's parser and builds a JsonValue. A function
// that returns false ends the parsing; error() says why.
class TreeBuilder {
 public:
  using string_t = json::string_t;
  using binary_t = json::binary_t;

  bool null() { return Put(std::monostate()); }
  bool boolean(bool value) { return Put(value); }
  bool number_integer(std::int64_t value) { return Put(value); }
  bool number_unsigned(std::uint64_t value) {
    if (std::in_range<std::int64_t>(value)) {
      return Put(static_cast<std::int64_t>(value));
    }
    return Put(value);
  }
  bool number_float(double value, const string_t&) { return Put(value); }
  bool string(string_t& value) { return Put(std::move(value)); }
  bool binary(binary_t&) { return Fail("unexpected binary data"); }

  bool start_object(std::size_t) { return Open<JsonValue::Object>(); }
  bool key(string_t& name) {
    std::get<JsonValue::Object>(open_[depth_ - 1]->data)
        .push_back({std::move(name), {}});
    return true;
  }
  bool end_object() { return Close(); }
  bool start_array(std::size_t) {
    return depth_ == 0 ? FailRoot() : Open<JsonValue::List>();
  }
  bool end_array() { return Close(); }

  bool parse_error(std::size_t position, const std::string&,
                   const json::exception& error) {
    const std::string at = " at byte " + std::to_string(position);
    // Number 406: well-formed, but beyond a double.
    return Fail(error.id == 406 ? "number out of range" + at : "not JSON" + at);
  }

  const std::string& error() const { return error_; }
  JsonValue& root() { return root_; }

 private:
  template <typename T>
  bool Put(T value) {
    if (depth_ == 0) return FailRoot();
    NextValue().data.template emplace<T>(std::move(value));
    return true;
  }
  template <typename T>
  bool Open() {
    if (depth_ == open_.size()) {
      return Fail("nests deeper than " + std::to_string(open_.size()) +
                  " levels");
    }
    JsonValue& value = depth_ == 0 ? root_ : NextValue();
    value.data.emplace<T>().reserve(8);
    open_[depth_++] = &value;
    return true;
  }
  bool Close() {
    --depth_;
    return true;
  }
  // Place of the next value.
  JsonValue& NextValue() {
    auto& parent = open_[depth_ - 1]->data;
    auto* object = std::get_if<JsonValue::Object>(&parent);
    return object != nullptr ? object->back().value
                             : std::get<JsonValue::List>(parent).emplace_back();
  }
  bool FailRoot() { return Fail("expected a JSON object"); }
  bool Fail(std::string error) {
    error_ = std::move(error);
    return false;
  }

  JsonValue root_;
  // The objects and lists around the current value. They stay where they are: a
  // container gets no new item before the last one is closed.
  std::array<JsonValue*, kMaxJsonLevels> open_;
  std::size_t depth_ = 0;
  std::string error_;
};

void AppendEscape(std::string& out, char c) {
  out += "\\u00" + ToHex(std::as_bytes(std::span(&c, 1)));
}

// True if JSON has `text` as it is: ASCII without controls and escapes.
bool IsPlain(std::string_view text) {
  return std::ranges::all_of(text, [](char c) {
    return static_cast<signed char>(c) >= 0x20 && c != '"' && c != '\\';
  });
}

template <typename Pairs, typename AppendValue>
void AppendMap(std::string& out, const Pairs& pairs,
               const AppendValue& append_value) {
  out += '{';
  bool first = true;
  for (const auto& [name, value] : pairs) {
    if (!first) out += ',';
    first = false;
    AppendJson(out, std::string_view(name));
    out += ':';
    append_value(value);
  }
  out += '}';
}

json ToNlohmann(JsonValue& value);

struct NlohmannConverter {
  json operator()(std::monostate) const { return nullptr; }
  // Non-negative integers have the unsigned type, as if nlohmann had read them.
  json operator()(std::int64_t integer) const {
    if (integer < 0) return integer;
    return static_cast<std::uint64_t>(integer);
  }
  json operator()(JsonValue::List& items) const {
    json list = json::array();
    for (JsonValue& item : items) list.push_back(ToNlohmann(item));
    return list;
  }
  json operator()(JsonValue::Object& members) const {
    json object = json::object();
    for (auto& [name, value] : members) object[name] = ToNlohmann(value);
    return object;
  }
  json operator()(auto& scalar) const { return std::move(scalar); }
};

json ToNlohmann(JsonValue& value) {
  return std::visit(NlohmannConverter(), value.data);
}

[[noreturn]] void FailPlace(const JsonPlace& place, const std::string& what) {
  std::string path(place.name);
  for (auto* outer = place.parent; outer != nullptr; outer = outer->parent) {
    if (!outer->name.empty()) path = std::string(outer->name) + "." + path;
  }
  throw Error(ErrorKind::kFailed, "field '" + path + "' " + what);
}

std::string RangeText(const char* type, const auto& least, const auto& most) {
  return std::string(type) + " from " + least + " to " + most;
}

std::optional<double> NumberIn(const JsonValue& value) {
  if (const auto* number = std::get_if<double>(&value.data)) return *number;
  if (const auto* integer = std::get_if<std::int64_t>(&value.data)) {
    return static_cast<double>(*integer);
  }
  if (const auto* large = std::get_if<std::uint64_t>(&value.data)) {
    return static_cast<double>(*large);
  }
  return std::nullopt;
}

std::optional<double> NumberOrNameIn(const JsonValue& value) {
  if (const auto* text = std::get_if<std::string>(&value.data)) {
    if (*text == "NaN") return std::nan("");
    if (*text == "Infinity") return HUGE_VAL;
    if (*text == "-Infinity") return -HUGE_VAL;
    return std::nullopt;
  }
  return NumberIn(value);
}

}  // namespace

JsonValue ParseJsonObject(std::string_view text) {
  TreeBuilder builder;
  if (!json::sax_parse(text, &builder)) {
    throw Error(ErrorKind::kFailed, builder.error());
  }
  return std::move(builder.root());
}

void FailField(const JsonPlace& place, const std::string& expected) {
  FailPlace(place, "must be " + expected);
}

std::string Quoted(std::string_view text) {
  return "'" + Truncate(EscapeForTerminal(text), 60) + "'";
}

void AppendJson(std::string& out, std::string_view text) {
  out += '"';
  if (IsPlain(text)) {
    out += text;
  } else {
    for (const char c : ToValidUtf8(text)) {
      if (c == '"' || c == '\\') out += '\\';
      if (static_cast<unsigned char>(c) < 0x20) {
        AppendEscape(out, c);
      } else {
        out += c;
      }
    }
  }
  out += '"';
}

void AppendJson(std::string& out, std::int64_t value) {
  std::array<char, 24> text;
  const auto end = std::to_chars(text.begin(), text.end(), value).ptr;
  out.append(text.data(), end);
}

void AppendJson(std::string& out, double value) {
  if (!std::isfinite(value)) {
    AppendJson(out, std::string_view(FormatNumber(value)));
    return;
  }
  std::array<char, 32> text;
  const auto end = std::to_chars(text.begin(), text.end(), value).ptr;
  out.append(text.data(), end);
  // JSON parsers read "-0" as the integer 0, which has no sign.
  if (value == 0 && std::signbit(value)) out += ".0";
}

void AppendJson(std::string& out, bool value) {
  out += value ? "true" : "false";
}

void AppendJson(std::string& out, Length length) {
  out += "{\"";
  out += UnitName(length.unit);
  out += "\":";
  AppendJson(out, length.count);
  out += '}';
}

void AppendJson(std::string& out, Timestamp time) {
  AppendJson(out, static_cast<std::int64_t>(time.count()));
}

void AppendJson(std::string& out, const MetricValues& metrics) {
  AppendMap(out, metrics, [&](double value) { AppendJson(out, value); });
}

void AppendJson(std::string& out,
                const std::map<std::string, std::string>& texts) {
  AppendMap(out, texts, [&](std::string_view text) { AppendJson(out, text); });
}

void AppendJson(std::string& out, const json& value) {
  out += value.dump(-1, ' ', false, json::error_handler_t::replace);
}

void ReadJson(const JsonPlace& place, JsonValue& value, std::string& text) {
  auto* found = std::get_if<std::string>(&value.data);
  if (found == nullptr) FailField(place, "a string");
  text = std::move(*found);
}

void ReadJson(const JsonPlace& place, JsonValue& value, std::int64_t& integer,
              std::int64_t least, std::int64_t most) {
  const auto* found = std::get_if<std::int64_t>(&value.data);
  if (found == nullptr || *found < least || *found > most) {
    FailField(place, RangeText("an integer", std::to_string(least),
                               std::to_string(most)));
  }
  integer = *found;
}

void ReadJson(const JsonPlace& place, JsonValue& value, double& number) {
  const auto found = NumberOrNameIn(value);
  if (!found) FailField(place, "a number");
  number = *found;
}

void ReadJson(const JsonPlace& place, JsonValue& value, double& number,
              double least, double most) {
  const auto found = NumberIn(value);
  if (!found || !(*found >= least && *found <= most)) {
    FailField(place, most == std::numeric_limits<double>::max()
                         ? "a number, at least " + FormatNumber(least)
                         : RangeText("a number", FormatNumber(least),
                                     FormatNumber(most)));
  }
  number = *found;
}

void ReadJson(const JsonPlace& place, JsonValue& value, bool& boolean) {
  const auto* found = std::get_if<bool>(&value.data);
  if (found == nullptr) FailField(place, "true or false");
  boolean = *found;
}

void ReadJson(const JsonPlace& place, JsonValue& value, Length& length) {
  auto* object = std::get_if<JsonValue::Object>(&value.data);
  if (object != nullptr && object->size() == 1) {
    const auto& [name, count] = object->front();
    const auto* number = std::get_if<std::int64_t>(&count.data);
    for (const Unit unit : {Unit::kBatches, Unit::kRecords, Unit::kEpochs}) {
      if (name != UnitName(unit) || number == nullptr || *number < 0) continue;
      length = {*number, unit};
      return;
    }
  }
  FailField(place, "a length such as {\"batches\": 100}");
}

void ReadJson(const JsonPlace& place, JsonValue& value, Timestamp& time) {
  std::int64_t microseconds = 0;
  ReadJson(place, value, microseconds, 0,
           std::numeric_limits<std::int64_t>::max());
  time = Timestamp(microseconds);
}

void ReadJson(const JsonPlace& place, JsonValue& value, MetricValues& metrics) {
  auto* object = std::get_if<JsonValue::Object>(&value.data);
  if (object == nullptr) FailField(place, "an object of numbers");
  metrics.clear();
  metrics.reserve(object->size());
  for (auto& [name, item] : *object) {
    const auto number = NumberOrNameIn(item);
    if (!number) FailField(place, "an object of numbers");
    metrics.emplace_back(std::move(name), *number);
  }
}

void ReadJson(const JsonPlace& place, JsonValue& value,
              std::map<std::string, std::string>& texts) {
  auto* object = std::get_if<JsonValue::Object>(&value.data);
  if (object == nullptr) FailField(place, "an object of strings");
  texts.clear();
  for (auto& [name, item] : *object) {
    auto* text = std::get_if<std::string>(&item.data);
    if (text == nullptr) FailField(place, "an object of strings");
    texts.insert_or_assign(std::move(name), std::move(*text));
  }
}

void ReadJson(const JsonPlace& place, JsonValue& value, json& result) {
  if (!std::holds_alternative<JsonValue::Object>(value.data)) {
    FailField(place, "an object");
  }
  result = ToNlohmann(value);
}

std::size_t ReadName(const JsonPlace& place, const JsonValue& value,
                     std::span<const std::string_view> names) {
  const auto* text = std::get_if<std::string>(&value.data);
  const auto found =
      text == nullptr ? names.end() : std::ranges::find(names, *text);
  if (found == names.end()) {
    const std::vector<std::string> expected_names(names.begin(), names.end());
    FailField(place, "one of " + Join(expected_names, ", "));
  }
  return static_cast<std::size_t>(found - names.begin());
}

FieldReader::FieldReader(const JsonPlace& place, JsonValue& value)
    : place_(place), members_(std::get_if<JsonValue::Object>(&value.data)) {
  if (members_ == nullptr) FailField(place, "an object");
}

JsonValue* FieldReader::Find(std::string_view name) {
  // A sender writes them in the order in which they are read.
  const std::size_t count = members_->size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = next_ + i < count ? next_ + i : next_ + i - count;
    JsonValue::Member& member = (*members_)[at];
    if (member.name != name) continue;
    next_ = at + 1;
    ++found_;
    return &member.value;
  }
  return nullptr;
}

JsonValue& FieldReader::Require(const JsonPlace& place) {
  JsonValue* value = Find(place.name);
  if (value == nullptr) FailPlace(place, "is missing");
  return *value;
}

void FieldReader::FailSurplus(
    std::span<const std::string_view> expected_names) const {
  std::vector<std::string_view> seen;
  for (const auto& [name, value] : *members_) {
    if (std::ranges::find(expected_names, name) == expected_names.end()) {
      throw Error(ErrorKind::kFailed, "unknown field " + Quoted(name));
    }
    if (std::ranges::find(seen, name) != seen.end()) {
      throw Error(ErrorKind::kFailed, "field " + Quoted(name) + " comes twice");
    }
    seen.push_back(name);
  }
  throw Error(ErrorKind::kFailed, "unknown fields");
}

void FailLine(std::string_view name, const Error& error) {
  throw Error(ErrorKind::kFailed,
              std::string(name) + ": " + error.what() +
                  "; does it come from another version of dtrain?");
}

}  // namespace dtrain
