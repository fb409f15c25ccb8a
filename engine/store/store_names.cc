// A reader of a database with a write-ahead log creates and changes SQLite's
// files beside it. A store whose log is empty is therefore read as immutable,
// without any lock; a commit at the same moment can at worst make the names
// incomplete. Only if the log has commits, which happens while a runner works,
// SQLite opens it as usual.

#include "engine/store/store_names.h"

#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>

#include "engine/base/error.h"
#include "engine/store/database.h"
#include "engine/store/statements.h"

namespace dtrain {
namespace {

// More than anyone reads in a list of completions.
constexpr std::int64_t kMaxNames = 1000;

// Calls `row` for each row; stops silently at an error.
template <typename Row, typename... Values>
void ForEach(const SQLite::Database& database, const char* sql, const Row& row,
             const Values&... values) {
  try {
    SQLite::Statement query(database, sql);
    BindAll(query, values...);
    while (query.executeStep()) {
      Columns columns(query);
      row(columns);
    }
  } catch (const SQLite::Exception&) {
  } catch (const Error&) {
  }
}

// Reads the columns id, about.
template <typename... Values>
std::vector<StoreName> ReadNames(const SQLite::Database& database,
                                 const char* sql, const Values&... values) {
  std::vector<StoreName> names;
  ForEach(
      database, sql,
      [&](Columns& columns) {
        names.push_back({.id = columns.Text(), .about = columns.Text()});
      },
      values..., kMaxNames);
  return names;
}

}  // namespace

StoreNames::StoreNames(std::unique_ptr<SQLite::Database> database)
    : database_(std::move(database)) {}
StoreNames::StoreNames(StoreNames&&) noexcept = default;
StoreNames::~StoreNames() = default;

std::optional<StoreNames> StoreNames::Open(const StoreLayout& layout) {
  const std::filesystem::path path = layout.Database();
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return std::nullopt;
  const auto wal = std::filesystem::file_size(path.string() + "-wal", error);
  const bool has_commits = !error && wal > 0;
  try {
    auto database = std::make_unique<SQLite::Database>(
        has_commits ? path.string() : ImmutableUri(path),
        SQLite::OPEN_READONLY | (has_commits ? 0 : SQLite::OPEN_URI));
    database->setBusyTimeout(0);
    return StoreNames(std::move(database));
  } catch (const SQLite::Exception&) {
    return std::nullopt;
  }
}

std::vector<StoreName> StoreNames::Experiments(
    const std::string& prefix) const {
  return ReadNames(*database_,
                   "SELECT CAST(id AS TEXT), name || ', ' || state "
                   "FROM experiments WHERE substr(id, 1, length(?1)) = ?1 "
                   "ORDER BY id DESC LIMIT ?2",
                   prefix);
}

std::vector<StoreName> StoreNames::Trials(std::int64_t experiment,
                                          const std::string& prefix) const {
  return ReadNames(*database_,
                   "SELECT experiment || '.' || number, CASE WHEN state = "
                   "'ERROR' AND reason LIKE ?3 || '%' THEN 'INVALID' ELSE "
                   "state END FROM trials "
                   "WHERE experiment = ?1 AND substr(number, 1, length(?2)) = "
                   "?2 ORDER BY number LIMIT ?4",
                   experiment, prefix, std::string(kInvalidReason));
}

std::vector<StoreName> StoreNames::Checkpoints(
    const std::string& prefix) const {
  return ReadNames(
      *database_,
      "SELECT uuid, 'trial ' || experiment || '.' || number || "
      "', saved ' || strftime('%Y-%m-%d %H:%M', c.time / "
      "1000000, 'unixepoch', 'localtime') FROM checkpoints c "
      "JOIN trials t ON t.id = c.trial WHERE c.state = 'COMPLETED' AND "
      "substr(uuid, 1, length(?1)) = ?1 "
      "ORDER BY c.id DESC LIMIT ?2",
      prefix);
}

std::vector<std::string> StoreNames::Metrics(
    std::optional<std::int64_t> experiment) const {
  std::vector<std::string> names;
  ForEach(
      *database_,
      "SELECT name FROM metric_names WHERE ?1 IS NULL OR id IN (SELECT name "
      "FROM experiment_metrics WHERE experiment = ?1) ORDER BY name",
      [&](Columns& columns) { names.push_back(columns.Text()); }, experiment);
  return names;
}

std::vector<std::string> StoreNames::Labels() const {
  std::set<std::string> labels;
  ForEach(*database_, "SELECT DISTINCT labels FROM experiments",
          [&](Columns& columns) {
            for (std::string& label : columns.Strings()) {
              labels.insert(std::move(label));
            }
          });
  return {labels.begin(), labels.end()};
}

nlohmann::json StoreNames::Configuration(
    std::optional<std::int64_t> experiment) const {
  nlohmann::json config;
  ForEach(
      *database_,
      "SELECT config FROM experiment_details WHERE experiment = coalesce(?1, "
      "(SELECT max(experiment) FROM experiment_details))",
      [&](Columns& columns) { config = columns.Json(); }, experiment);
  return config;
}

}  // namespace dtrain
