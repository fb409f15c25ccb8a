// What is neither a row nor a run: requests, checks and copies of the database.

#include <utility>

#include <SQLiteCpp/Statement.h>

#include "engine/store/backup.h"
#include "engine/store/database.h"
#include "engine/store/statements.h"
#include "engine/store/store.h"

namespace dtrain {
namespace {

RequestKind RequestKindFromName(const std::string& name) {
  for (const RequestKind kind : {RequestKind::kPause, RequestKind::kCancel}) {
    if (RequestName(kind) == name) return kind;
  }
  return RequestKind::kKill;
}

RequestRow RequestOf(SQLite::Statement& statement) {
  Columns columns(statement);
  return {.id = columns.Int(),
          .experiment = columns.Int(),
          .trial = columns.MaybeInt(),
          .kind = RequestKindFromName(columns.Text()),
          .created = columns.Time()};
}

}  // namespace

std::vector<RequestRow> Store::OpenRequests(std::int64_t experiment) const {
  return connection_->Guard([&] {
    SQLite::Statement query(*connection_->database,
                            "SELECT id, experiment, trial, kind, created FROM "
                            "requests WHERE experiment = ?1 AND done = 0 "
                            "ORDER BY id");
    BindAll(query, experiment);
    std::vector<RequestRow> rows;
    while (query.executeStep()) rows.push_back(RequestOf(query));
    return rows;
  });
}

std::int64_t Store::LastExperimentId() const {
  return connection_->Guard([&] {
    // Kept by AUTOINCREMENT, so that it counts what was deleted too.
    return connection_->database
        ->execAndGet(
            "SELECT coalesce(max(seq), 0) FROM sqlite_sequence "
            "WHERE name = 'experiments'")
        .getInt64();
  });
}

bool Store::ChangedByOthers() {
  const std::int64_t now = DataVersion();
  return std::exchange(connection_->data_version, now) != now;
}

std::vector<std::string> Store::Problems() const {
  return connection_->Guard(
      [&] { return DatabaseProblems(*connection_->database); });
}

std::int64_t Store::BackUp(const std::filesystem::path& file) const {
  return connection_->Guard([&] {
    return CopyDatabase(*connection_->database, file, Overwrite::kNever);
  });
}

}  // namespace dtrain
