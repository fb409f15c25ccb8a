// The tables are those of Optuna 3 and 4; a database of an older version lacks
// columns, and Optuna itself can upgrade it. Nothing is written: not even a
// lock outlives the one transaction that reads a consistent state.

#include "engine/store/optuna_database.h"

#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Exception.h>
#include <SQLiteCpp/Statement.h>
#include <SQLiteCpp/Transaction.h>
#include <nlohmann/json.hpp>
#include <sqlite3.h>

#include "engine/base/error.h"
#include "engine/base/text.h"

namespace dtrain {
namespace {

constexpr int kPatienceMs = 2000;
constexpr std::int64_t kMaxOptunaRows = 5'000'000;

class OptunaReader {
 public:
  explicit OptunaReader(const std::filesystem::path& file)
      : file_(file),
        database_(file.string(), SQLite::OPEN_READONLY, kPatienceMs) {
    // Views of a hostile file must not run functions with effects.
    database_.exec("PRAGMA trusted_schema = OFF; PRAGMA query_only = ON");
  }

  OptunaStudy Read(const std::string& wanted) {
    const SQLite::Transaction snapshot(database_);
    RequireTables();
    const std::int64_t id = FindStudy(wanted);
    ReadObjectives(id);
    ReadTrials(id);
    ReadParts(id);
    return std::move(study_);
  }

 private:
  [[noreturn]] void Refuse(const std::string& what) const {
    throw Error(ErrorKind::kUsage,
                file_.string() + ": " + what + "; nothing was imported");
  }

  void RequireTables() {
    const std::map<std::string, std::string> columns = {
        {"studies", "study_name"},
        {"study_directions", "objective"},
        {"trials", "number"},
        {"trial_params", "distribution_json"},
        {"trial_values", "value_type"},
        {"trial_intermediate_values", "intermediate_value_type"}};
    std::set<std::string> tables;
    SQLite::Statement query(database_,
                            "SELECT name FROM sqlite_schema WHERE type = "
                            "'table'");
    while (query.executeStep()) tables.insert(query.getColumn(0).getString());
    for (const auto& [table, column] : columns) {
      if (!tables.contains(table)) {
        Refuse(tables.contains("studies") && tables.contains("trials")
                   ? "is of an old version of Optuna; 'optuna storage upgrade "
                     "--storage sqlite:///" +
                         file_.string() + "' upgrades it"
                   : "is a database, but not one of Optuna (no table '" +
                         table + "'); export a CSV from it");
      }
      SQLite::Statement has(
          database_, "SELECT 1 FROM pragma_table_info(?1) WHERE name = ?2");
      has.bind(1, table);
      has.bind(2, column);
      if (has.executeStep()) continue;
      Refuse("is of an old version of Optuna (no column '" + table + "." +
             column + "'); 'optuna storage upgrade --storage sqlite:///" +
             file_.string() + "' upgrades it");
    }
    has_attributes_ = tables.contains("study_system_attributes");
  }

  std::int64_t FindStudy(const std::string& wanted) {
    std::vector<std::string> names;
    std::int64_t id = 0;
    SQLite::Statement query(database_,
                            "SELECT study_id, study_name FROM studies ORDER BY "
                            "study_id LIMIT 10000");
    while (query.executeStep()) {
      names.push_back(ToValidUtf8(query.getColumn(1).getString()));
      if (wanted.empty() || names.back() == wanted) {
        id = query.getColumn(0).getInt64();
        study_.name = names.back();
      }
    }
    if (names.empty()) Refuse("has no study");
    if (wanted.empty() && names.size() > 1) {
      Refuse("has " + std::to_string(names.size()) +
             " studies; choose one with --study: " + JoinFirst(names, 10));
    }
    if (id == 0) {
      const std::string hint = DidYouMean(wanted, names);
      Refuse("--study: there is no study '" + wanted + "'" +
             (hint.empty() ? "; there are " + JoinFirst(names, 10) : hint));
    }
    return id;
  }

  void ReadObjectives(std::int64_t id) {
    SQLite::Statement query(database_,
                            "SELECT direction FROM study_directions WHERE "
                            "study_id = ?1 ORDER BY objective LIMIT 1000");
    query.bind(1, id);
    while (query.executeStep()) {
      study_.directions.push_back(query.getColumn(0).getString());
    }
    if (study_.directions.empty()) Refuse("the study has no objective");
    if (!has_attributes_) return;
    SQLite::Statement names(
        database_,
        "SELECT value_json FROM study_system_attributes WHERE "
        "study_id = ?1 AND key = 'study:metric_names'");
    names.bind(1, id);
    if (!names.executeStep()) return;
    const auto list =
        nlohmann::json::parse(names.getColumn(0).getString(), nullptr, false);
    const bool is_usable =
        list.is_array() && list.size() == study_.directions.size();
    for (const nlohmann::json& name : list) {
      if (!is_usable || !name.is_string()) continue;
      study_.metric_names.push_back(name);
    }
    if (study_.metric_names.size() != study_.directions.size()) {
      study_.metric_names.clear();
    }
  }

  void ReadTrials(std::int64_t id) {
    SQLite::Statement query(
        database_,
        "SELECT trial_id, number, state, datetime_start, datetime_complete "
        "FROM trials WHERE study_id = ?1 ORDER BY number LIMIT 100001");
    query.bind(1, id);
    while (query.executeStep()) {
      places_[query.getColumn(0).getInt64()] = study_.trials.size();
      const auto text = [&](int column) {
        return query.isColumnNull(column)
                   ? std::string()
                   : ToValidUtf8(query.getColumn(column).getString());
      };
      study_.trials.push_back({.number = query.getColumn(1).getInt64(),
                               .state = text(2),
                               .started = text(3),
                               .ended = text(4)});
    }
    if (study_.trials.size() > 100'000) {
      Refuse("has more than 100,000 trials; import a CSV of some of them");
    }
  }

  // Calls `row` for each row of a trial of the study.
  template <typename Row>
  void ForEachPart(const char* sql, std::int64_t id, const Row& row) {
    SQLite::Statement query(database_, sql);
    query.bind(1, id);
    while (query.executeStep()) {
      if (++rows_ > kMaxOptunaRows) {
        Refuse("has more than 5,000,000 values; import a CSV");
      }
      const auto place = places_.find(query.getColumn(0).getInt64());
      if (place != places_.end()) row(query, study_.trials[place->second]);
    }
  }

  static double GetValue(SQLite::Statement& query) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const std::string type = query.getColumn(3).getString();
    if (type == "INF_POS") return kInfinity;
    if (type == "INF_NEG") return -kInfinity;
    if (type == "NAN" || query.isColumnNull(2)) {
      return std::numeric_limits<double>::quiet_NaN();
    }
    return query.getColumn(2).getDouble();
  }

  void ReadParts(std::int64_t id) {
    ForEachPart(
        "SELECT p.trial_id, p.param_name, p.param_value, p.distribution_json "
        "FROM trial_params p JOIN trials t ON t.trial_id = p.trial_id WHERE "
        "t.study_id = ?1 ORDER BY p.trial_id, p.param_name",
        id, [](SQLite::Statement& query, OptunaTrial& trial) {
          const SQLite::Column value = query.getColumn(2);
          const bool is_number = value.isFloat() || value.isInteger();
          trial.parameters.push_back(
              {.name = ToValidUtf8(query.getColumn(1).getString()),
               .value = is_number ? value.getDouble() : std::nan(""),
               .distribution = query.getColumn(3).getString()});
        });
    ForEachPart(
        "SELECT v.trial_id, v.objective, v.value, v.value_type FROM "
        "trial_values v JOIN trials t ON t.trial_id = v.trial_id WHERE "
        "t.study_id = ?1 ORDER BY v.trial_id, v.objective",
        id, [](SQLite::Statement& query, OptunaTrial& trial) {
          trial.values.push_back({.place = query.getColumn(1).getInt64(),
                                  .value = GetValue(query)});
        });
    ForEachPart(
        "SELECT v.trial_id, v.step, v.intermediate_value, "
        "v.intermediate_value_type FROM trial_intermediate_values v JOIN "
        "trials t ON t.trial_id = v.trial_id WHERE t.study_id = ?1 ORDER BY "
        "v.trial_id, v.step",
        id, [](SQLite::Statement& query, OptunaTrial& trial) {
          trial.intermediate.push_back({.place = query.getColumn(1).getInt64(),
                                        .value = GetValue(query)});
        });
  }

  const std::filesystem::path& file_;
  SQLite::Database database_;
  OptunaStudy study_;
  std::map<std::int64_t, std::size_t> places_;  // of trials, by their keys
  bool has_attributes_ = false;
  std::int64_t rows_ = 0;
};

}  // namespace

OptunaStudy ReadOptunaStudy(const std::filesystem::path& file,
                            const std::string& study) {
  try {
    return OptunaReader(file).Read(study);
  } catch (const SQLite::Exception& error) {
    const int code = error.getErrorCode() & 0xff;
    throw Error(
        ErrorKind::kUsage,
        file.string() + ": " +
            (code == SQLITE_BUSY || code == SQLITE_LOCKED
                 ? "is locked by another program; import it again when that "
                   "has ended"
             : code == SQLITE_NOTADB
                 ? std::string("is not a database of SQLite; give the file "
                               "of Optuna's storage")
                 : "cannot be read as a database of SQLite (" +
                       std::string(error.what()) +
                       "); copy it to a directory that you can write to, or "
                       "export a CSV") +
            "; nothing was imported");
  }
}

}  // namespace dtrain
