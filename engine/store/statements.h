#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <SQLiteCpp/Column.h>
#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>
#include <nlohmann/json.hpp>

#include "engine/base/clock.h"
#include "engine/base/error.h"
#include "engine/store/rows.h"
#include "engine/wire/trial_spec.h"

// Conversion of C++ values to SQLite's parameters and from its columns.

namespace dtrain {

/// A double as stored in the database: its value, or NULL and a code for a
/// value that SQLite cannot store or sort.
struct SpecialValue {
  explicit SpecialValue(double number)
      : special(std::isnan(number)      ? 1
                : std::isfinite(number) ? 0
                : number > 0            ? 2
                                        : 3) {
    if (special == 0) value = number;
  }
  SpecialValue(std::optional<double> stored, int stored_special)
      : value(stored), special(stored_special) {}

  double Number() const {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (value) return *value;
    if (special == 1) return std::numeric_limits<double>::quiet_NaN();
    return special == 2 ? kInfinity : -kInfinity;
  }

  std::optional<double> value;
  int special;
};

/// Replaces NaN and infinities by 0: for columns that must be numbers and that
/// no decision depends on.
inline double FiniteOrZero(double number) {
  return std::isfinite(number) ? number : 0;
}

/// Returns the stored form of JSON; invalid UTF-8 is replaced.
inline std::string JsonText(const nlohmann::json& json) {
  return json.dump(/*indent=*/-1, ' ', /*ensure_ascii=*/false,
                   nlohmann::json::error_handler_t::replace);
}

/// Parses the text that `JsonText` wrote. Throws Error(kStore) for any other.
inline nlohmann::json JsonFromText(const std::string& text) {
  nlohmann::json json = nlohmann::json::parse(text, /*cb=*/nullptr,
                                              /*allow_exceptions=*/false);
  if (!json.is_discarded()) return json;
  throw Error(ErrorKind::kStore,
              "the store holds text that is not JSON; it is damaged, restore "
              "dtrain.db from a backup");
}

/// Binds a value of any type that the schema has; std::nullopt is NULL.
template <typename T>
void Bind(SQLite::Statement& statement, int index, const T& value) {
  if constexpr (std::is_same_v<T, std::nullopt_t>) {
    statement.bind(index);
  } else if constexpr (requires { value.has_value(); }) {
    value ? Bind(statement, index, *value) : statement.bind(index);
  } else if constexpr (requires { value.count(); }) {
    statement.bind(index, static_cast<std::int64_t>(value.count()));
  } else if constexpr (std::is_integral_v<T>) {
    statement.bind(index, static_cast<std::int64_t>(value));
  } else {
    statement.bind(index, value);
  }
}

/// Binds `values` to the statement's parameters ?1, ?2, …
template <typename... T>
void BindAll(SQLite::Statement& statement, const T&... values) {
  int index = 0;
  (Bind(statement, ++index, values), ...);
}

/// Prepared statements of a writing connection, and a cache of the row ids that
/// every report needs. One thread.
class Statements {
 public:
  explicit Statements(SQLite::Database& database) : database_(database) {}

  /// Returns the statement of `sql`, reset. REQUIRES: a literal; its address is
  /// the key.
  SQLite::Statement& operator()(const char* sql);
  /// Executes the statement of `sql` with `values` bound. Returns the number of
  /// rows changed.
  template <typename... T>
  int Run(const char* sql, const T&... values) {
    SQLite::Statement& statement = (*this)(sql);
    BindAll(statement, values...);
    const int rows = statement.exec();
    statement.reset();
    return rows;
  }
  std::int64_t LastInsertId() const { return database_.getLastInsertRowid(); }

  /// Throws Error(kNotFound) if a change of the experiment changed no `rows`.
  static void RequireExperiment(int rows, std::int64_t experiment);
  /// Returns the row id of a trial. Throws Error(kNotFound).
  std::int64_t TrialKey(TrialId trial);
  /// Returns the row id of a metric's name; adds the name, and its use by this
  /// experiment, if new.
  std::int64_t NameKey(std::int64_t experiment, const std::string& name);

  /// Clears the row ids, after the rollback of a transaction that may have made
  /// them.
  void RolledBack();

 private:
  SQLite::Database& database_;
  std::unordered_map<const char*, std::unique_ptr<SQLite::Statement>> prepared_;
  std::map<TrialId, std::int64_t> trials_;
  std::unordered_map<std::string, std::int64_t> names_;
  std::unordered_set<std::int64_t> experiment_names_;
};

/// Reads one row's columns in order, so that a query and its reader name each
/// column once. Throws SQLite::Exception where there is no row or no column,
/// Error(kStore) for damaged JSON.
class Columns {
 public:
  explicit Columns(SQLite::Statement& statement) : statement_(statement) {}

  std::int64_t Int() { return Next().getInt64(); }
  double Number() { return Next().getDouble(); }
  bool Bool() { return Int() != 0; }
  std::string Text() { return Next().getString(); }
  /// Valid until the statement's next step.
  std::string_view TextView() {
    const SQLite::Column column = Next();
    const char* const text = column.getText();
    return {text, static_cast<std::size_t>(column.getBytes())};
  }
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
  /// Reads a value and, from the next column, its code.
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
