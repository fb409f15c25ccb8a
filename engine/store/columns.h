#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <SQLiteCpp/Column.h>
#include <SQLiteCpp/Statement.h>
#include <nlohmann/json.hpp>

#include "engine/base/clock.h"
#include "engine/store/json_text.h"
#include "engine/store/rows.h"
#include "engine/store/special_value.h"

namespace dtrain {

/// Reads one row's columns in order, so that a query and its reader say each
/// column once. Throws SQLite::Exception where there is no row or no column,
/// Error(kStore) for damaged JSON.
class Columns {
 public:
  explicit Columns(SQLite::Statement& statement) : statement_(statement) {}

  std::int64_t Int() { return Next().getInt64(); }
  double Number() { return Next().getDouble(); }
  bool Bool() { return Int() != 0; }
  std::string Text() { return Next().getString(); }
  nlohmann::json Json() { return JsonFromText(Text()); }
  Timestamp Time() { return Timestamp(Int()); }
  State TheState() { return StateFromName(Text()); }
  std::vector<std::string> Strings() {
    const std::string text = Text();
    std::vector<std::string> strings;
    if (text == "[]") return strings;
    const nlohmann::json array = JsonFromText(text);
    for (const nlohmann::json& element : array) {
      strings.push_back(element.is_string() ? element.get<std::string>()
                                            : element.dump());
    }
    return strings;
  }
  std::optional<Timestamp> MaybeTime() {
    const SQLite::Column column = Next();
    if (column.isNull()) return std::nullopt;
    return Timestamp(column.getInt64());
  }
  std::optional<std::int64_t> MaybeInt() {
    const SQLite::Column column = Next();
    if (column.isNull()) return std::nullopt;
    return column.getInt64();
  }
  std::optional<double> MaybeNumber() {
    const SQLite::Column column = Next();
    if (column.isNull()) return std::nullopt;
    return column.getDouble();
  }
  /// A value and, in the next column, what is special about it.
  double Special() {
    const std::optional<double> value = MaybeNumber();
    return SpecialValue(value, static_cast<int>(Int())).Number();
  }

 private:
  SQLite::Column Next() { return statement_.getColumn(index_++); }

  SQLite::Statement& statement_;
  int index_ = 0;
};

}  // namespace dtrain
