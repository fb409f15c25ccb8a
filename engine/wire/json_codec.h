#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/base/clock.h"
#include "engine/base/error.h"
#include "engine/base/length.h"
#include "engine/base/metric_order.h"

// Converts structs to JSON text and back.
//
// A struct lists its fields once, in a static member template:
//
//   struct Acknowledge {
//     static constexpr std::string_view kType = "ack";
//     std::int64_t seq = 0;
//     static void Fields(auto& field, auto& m) { field("seq", m.seq, 1); }
//   };
//
// The encoder and the decoder call it with a visitor. Numbers after a field are
// its smallest and largest value; an integer starts from 0 unless the list says
// otherwise. A field is required unless it is a std::optional, which the text
// leaves out where it is empty. Fields may come in any order.
//
// An enum has a function `EnumNames(Enum)` that returns its names in the order
// of its values. Messages are variants of structs; the field `type` has the
// kType of the alternative.
//
// A struct whose fields must also fit together, or be more than a number in a
// range, has a member `void Check() const`, which the decoder calls once they
// are read. It throws Error(kFailed).

namespace dtrain {

/// JSON as it was parsed. Unlike nlohmann::json it keeps the order of members
/// and names that occur twice, and takes one allocation for each list or object
/// of up to eight items.
struct JsonValue {
  struct Member;
  using List = std::vector<JsonValue>;
  using Object = std::vector<Member>;

  // std::uint64_t only for integers beyond std::int64_t.
  std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double,
               std::string, List, Object>
      data;
};
struct JsonValue::Member {
  std::string name;
  JsonValue value;
};

/// Parses one JSON object, in time and memory linear in the text. Throws
/// Error(kFailed), its text without a prefix: not JSON, not an object, nested
/// deeper than `kMaxJsonLevels`.
JsonValue ParseJsonObject(std::string_view text);

/// A position in a document, for error messages. `strict`: a field that the
/// struct does not list is an error.
struct JsonPlace {
  const JsonPlace* parent = nullptr;
  std::string_view name;
  bool strict = false;
};

/// Throws Error(kFailed): "field 'settings.sink_size' must be `expected`".
[[noreturn]] void FailField(const JsonPlace& place,
                            const std::string& expected);

/// Text from a message, escaped, shortened and quoted for an error message.
std::string Quoted(std::string_view text);

// ---- Values that are not structs.

void AppendJson(std::string& out, std::string_view text);
void AppendJson(std::string& out, std::int64_t value);
void AppendJson(std::string& out, double value);
void AppendJson(std::string& out, bool value);
void AppendJson(std::string& out, Length length);
void AppendJson(std::string& out, Timestamp time);
void AppendJson(std::string& out, const MetricValues& metrics);
void AppendJson(std::string& out,
                const std::map<std::string, std::string>& texts);
void AppendJson(std::string& out, const nlohmann::json& json);

// Each throws Error(kFailed) if `value` is of another type or out of range.
void ReadJson(const JsonPlace& place, JsonValue& value, std::string& text);
void ReadJson(const JsonPlace& place, JsonValue& value, std::int64_t& integer,
              std::int64_t least, std::int64_t most);
/// Also reads "NaN", "Infinity" and "-Infinity".
void ReadJson(const JsonPlace& place, JsonValue& value, double& number);
void ReadJson(const JsonPlace& place, JsonValue& value, double& number,
              double least, double most = std::numeric_limits<double>::max());
void ReadJson(const JsonPlace& place, JsonValue& value, bool& boolean);
void ReadJson(const JsonPlace& place, JsonValue& value, Length& length);
void ReadJson(const JsonPlace& place, JsonValue& value, Timestamp& time);
void ReadJson(const JsonPlace& place, JsonValue& value, MetricValues& metrics);
void ReadJson(const JsonPlace& place, JsonValue& value,
              std::map<std::string, std::string>& texts);
/// Reads any object.
void ReadJson(const JsonPlace& place, JsonValue& value, nlohmann::json& json);
/// Reads one of `names` as its index.
std::size_t ReadName(const JsonPlace& place, const JsonValue& value,
                     std::span<const std::string_view> names);

template <typename T>
struct IsOptional : std::false_type {};
template <typename T>
struct IsOptional<std::optional<T>> : std::true_type {};

/// The visitor that `Described` and error messages use: collects names.
struct FieldNames {
  std::vector<std::string_view> names;

  template <typename T, typename... Limits>
  void operator()(std::string_view name, T&, Limits...) {
    names.push_back(name);
  }
};

template <typename T>
concept Described = requires(FieldNames& names, T& object) {
  T::Fields(names, object);
};

template <typename T>
concept NamedEnum = std::is_enum_v<T> && requires(T value) {
  EnumNames(value);
};

// A double, a bool and a std::int64_t have their own functions.
template <typename T>
concept OtherInteger = std::integral<T> && !std::same_as<T, bool> &&
                       !std::same_as<T, std::int64_t>;

// ---- The encoder.

/// Appends the members of one object.
class FieldWriter {
 public:
  explicit FieldWriter(std::string& out) : out_(out) {}

  template <typename T, typename... Limits>
  void operator()(std::string_view name, const T& value, Limits...) {
    if constexpr (IsOptional<T>::value) {
      if (value) (*this)(name, *value);
    } else {
      out_ += separator_;
      separator_ = ',';
      out_ += '"';
      out_ += name;
      out_ += "\":";
      AppendValue(value);
    }
  }

  void End() {
    if (separator_ == '{') out_ += '{';
    out_ += '}';
  }

 private:
  template <typename T>
  void AppendValue(const T& value) {
    if constexpr (Described<T>) {
      FieldWriter object(out_);
      T::Fields(object, value);
      object.End();
    } else if constexpr (NamedEnum<T>) {
      AppendJson(out_, EnumNames(value)[static_cast<std::size_t>(value)]);
    } else if constexpr (std::same_as<T, std::string>) {
      AppendJson(out_, std::string_view(value));
    } else if constexpr (OtherInteger<T>) {
      AppendJson(out_, static_cast<std::int64_t>(value));
    } else {
      AppendJson(out_, value);
    }
  }
  // A list, but for metrics.
  template <typename T>
  requires(!std::same_as<std::vector<T>, MetricValues>) void AppendValue(
      const std::vector<T>& items) {
    out_ += '[';
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_ += ',';
      AppendValue(items[i]);
    }
    out_ += ']';
  }

  std::string& out_;
  char separator_ = '{';
};

// ---- The decoder.

/// Takes the members of one object. Throws Error(kFailed) with the name of the
/// field that is wrong.
class FieldReader {
 public:
  /// Throws Error(kFailed) if `value` is not an object.
  FieldReader(const JsonPlace& place, JsonValue& value);

  template <typename T, typename... Limits>
  void operator()(std::string_view name, T& target, Limits... limits) {
    const JsonPlace place{&place_, name, place_.strict};
    if constexpr (IsOptional<T>::value) {
      target.reset();
      if (JsonValue* value = Find(name)) {
        Read(place, *value, target.emplace(), limits...);
      }
    } else {
      Read(place, Require(place), target, limits...);
    }
  }

  /// Reads all fields of `object`, checks that there are no others if the place
  /// is strict, and calls its Check, if it has one.
  template <Described T>
  void ReadAll(T& object) {
    T::Fields(*this, object);
    if (place_.strict && found_ != members_->size()) {
      FieldNames expected_names{{"type"}};
      T::Fields(expected_names, object);
      FailSurplus(expected_names.names);
    }
    if constexpr (requires { object.Check(); }) object.Check();
  }

 private:
  // The member, or null.
  JsonValue* Find(std::string_view name);
  JsonValue& Require(const JsonPlace& place);
  [[noreturn]] void FailSurplus(
      std::span<const std::string_view> expected_names) const;

  template <typename T, typename... Limits>
  static void Read(const JsonPlace& place, JsonValue& value, T& target,
                   Limits... limits) {
    if constexpr (Described<T>) {
      FieldReader(place, value).ReadAll(target);
    } else if constexpr (NamedEnum<T>) {
      target = static_cast<T>(ReadName(place, value, EnumNames(target)));
    } else if constexpr (std::integral<T> && !std::same_as<T, bool>) {
      ReadInteger(place, value, target, limits...);
    } else {
      ReadJson(place, value, target, limits...);
    }
  }
  template <typename T>
  requires(!std::same_as<std::vector<T>, MetricValues>) static void Read(
      const JsonPlace& place, JsonValue& value, std::vector<T>& items) {
    auto* list = std::get_if<JsonValue::List>(&value.data);
    if (list == nullptr) FailField(place, "a list");
    items.clear();
    for (JsonValue& item : *list) Read(place, item, items.emplace_back());
  }
  template <typename T>
  static void ReadInteger(const JsonPlace& place, JsonValue& value, T& target,
                          std::int64_t least = 0,
                          std::int64_t most = std::numeric_limits<T>::max()) {
    std::int64_t integer = 0;
    ReadJson(place, value, integer, least, most);
    target = static_cast<T>(integer);
  }

  const JsonPlace place_;
  JsonValue::Object* members_;
  std::size_t next_ = 0;  // the member after the last one found
  std::size_t found_ = 0;
};

// ---- Whole lines.

/// One line of JSON, newline included. Invalid UTF-8 is replaced.
template <Described T>
std::string EncodeLine(const T& object) {
  std::string line;
  FieldWriter fields(line);
  T::Fields(fields, object);
  fields.End();
  line += '\n';
  return line;
}

template <typename... Messages>
std::string EncodeLine(const std::variant<Messages...>& message) {
  return std::visit(
      []<typename T>(const T& alternative) {
        std::string line;
        line.reserve(256);
        FieldWriter fields(line);
        fields("type", T::kType);
        T::Fields(fields, alternative);
        fields.End();
        line += '\n';
        return line;
      },
      message);
}

/// Reads the fields of a `T`, or of one of the alternatives of a variant.
template <Described T>
void DecodeFields(FieldReader& fields, T& object) {
  fields.ReadAll(object);
}

template <typename... Messages>
void DecodeFields(FieldReader& fields, std::variant<Messages...>& message) {
  std::string type;
  fields("type", type);
  const auto read = [&]<typename T>(std::type_identity<T>) {
    if (type != T::kType) return false;
    fields.ReadAll(message.template emplace<T>());
    return true;
  };
  if (!(read(std::type_identity<Messages>()) || ...)) {
    throw Error(ErrorKind::kFailed, "unknown type " + Quoted(type));
  }
}

/// Throws Error(kFailed): "`name`: `error`; does it come from another version
/// of dtrain?".
[[noreturn]] void FailLine(std::string_view name, const Error& error);

/// Reads back a line that `EncodeLine` wrote. `name` describes it in errors:
/// "message from the trial". Throws Error(kFailed); nothing in a line can do
/// worse than that.
template <typename T>
T DecodeLine(std::string_view line, std::string_view name, bool strict) try {
  JsonValue value = ParseJsonObject(line);
  FieldReader fields({.strict = strict}, value);
  T object;
  DecodeFields(fields, object);
  return object;
} catch (const Error& error) {
  FailLine(name, error);
}

}  // namespace dtrain
