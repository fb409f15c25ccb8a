#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace dtrain {

/// A trial of a study of Optuna, as the database has it.
struct OptunaTrial {
  struct Parameter {
    std::string name;
    double value = 0;          // of a category: its index; NaN: it is no number
    std::string distribution;  // JSON
  };
  struct Value {
    std::int64_t place = 0;  // objective, or step
    double value = 0;
  };

  std::int64_t number = 0;  // from 0
  std::string state;        // COMPLETE, PRUNED, FAIL, RUNNING or WAITING
  std::string started;      // in the local time of its machine, or empty
  std::string ended;
  std::vector<Parameter> parameters;
  std::vector<Value> values;        // by objective
  std::vector<Value> intermediate;  // by step
};

struct OptunaStudy {
  std::string name;
  std::vector<std::string> directions;    // MINIMIZE, MAXIMIZE or NOT_SET
  std::vector<std::string> metric_names;  // empty: not named
  std::vector<OptunaTrial> trials;        // by number
};

/// Reads a study of a database of Optuna (tables of optuna.storages.RDBStorage,
/// optuna/storages/_rdb/models.py) with SQLite, read-only. `study`: its name;
/// empty: the only one. Throws Error(kUsage) with file, cause and remedy if it
/// is not such a database, is locked, or has no such study.
OptunaStudy ReadOptunaStudy(const std::filesystem::path& file,
                            const std::string& study);

}  // namespace dtrain
