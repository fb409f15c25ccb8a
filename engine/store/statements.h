#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>

#include "engine/wire/trial_spec.h"

namespace dtrain {

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

/// What one connection keeps for its writing: statements, prepared once, and
/// the row ids that every report needs. One thread.
class Statements {
 public:
  explicit Statements(SQLite::Database& database) : database_(database) {}

  /// The statement of `sql`, a literal (it is known by its address), reset.
  SQLite::Statement& operator()(const char* sql);
  /// Carries it out and gives the number of rows changed.
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
  /// The row id of a trial. Throws Error(kNotFound).
  std::int64_t TrialKey(TrialId trial);
  /// The row id of a metric's name, which is added where it is new, for this
  /// experiment too.
  std::int64_t NameKey(std::int64_t experiment, const std::string& name);

  /// Forgets the row ids: a transaction that may have made them is undone.
  void RolledBack();

 private:
  SQLite::Database& database_;
  std::unordered_map<const char*, std::unique_ptr<SQLite::Statement>> prepared_;
  std::map<TrialId, std::int64_t> trials_;
  std::unordered_map<std::string, std::int64_t> names_;
  std::unordered_set<std::int64_t> experiment_names_;
};

}  // namespace dtrain
