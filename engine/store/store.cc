// Many processes write to one store: runners, and commands such as `pause`.
// SQLite lets one of them write and the others wait inside of it, without
// fairness and for an unknown time. So a writer first takes the write lock, a
// flock beside the database, which the event loop of a runner only tries: it
// keeps its records until the next try. Under the lock SQLite is free at once.
//
// The database is in WAL mode: a commit appends to the write-ahead log, and a
// checkpoint moves the log into the database. SQLite's automatic checkpoints
// are off: they would run within a commit, or without the write lock when a
// process closes the database. MaybeCheckpointWal does it from the event loop
// when the log has grown by kFramesToCheckpoint: passively, which waits for no
// reader, or with a short wait once readers have kept the log growing for long.

#include "engine/store/store.h"

#include <cassert>
#include <chrono>
#include <filesystem>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>

#include <SQLiteCpp/Statement.h>
#include <sqlite3.h>

#include "engine/base/error.h"
#include "engine/base/rng.h"
#include "engine/store/database.h"
#include "engine/store/file_system.h"
#include "engine/store/file_tree.h"

namespace dtrain {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int kFramesToInsist = 16 * 2000;      // 128 MiB
constexpr int kFramesWorthMovingAtTheEnd = 32;  // a reader reads them again

bool IsInMemory(const StoreLayout& layout) {
  return layout.root() == ":memory:";
}

std::unique_ptr<SQLite::Database> NewInMemory() {
  auto database = OpenInMemory();
  Migrate(*database);
  return database;
}

// Returns null for a store that another process is just creating.
std::unique_ptr<SQLite::Database> OpenForQueries(const StoreLayout& layout) {
  std::error_code error;
  const auto size = std::filesystem::file_size(layout.Database(), error);
  // SQLite will report a file that cannot be examined.
  const bool has_content =
      error ? error != std::errc::no_such_file_or_directory : size > 0;
  if (IsInMemory(layout) || !has_content) return nullptr;
  auto database = OpenReadOnly(layout);
  switch (CheckSchema(*database, layout.Database())) {
    case SchemaState::kEmpty:
      return nullptr;
    case SchemaState::kCurrent:
      return database;
    case SchemaState::kOlder:
      break;
  }
  try {
    Store::OpenForWriting(layout);
  } catch (const Error&) {
    // A full or read-only disk, or another user's store.
    auto copy = CopyToMemory(*database);
    Migrate(*copy);
    return copy;
  }
  return OpenReadOnly(layout);
}

}  // namespace

Store::Store(std::unique_ptr<Connection> connection)
    : connection_(std::move(connection)) {}

Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&&) noexcept = default;

Store::~Store() {
  if (!connection_ || !connection_->lock) return;
  if (connection_->wal_frames < kFramesWorthMovingAtTheEnd) return;
  // The next reader would have to read the WAL, so empty it if no process uses
  // it. If this fails, nothing is lost.
  if (!connection_->lock->TryAcquire()) return;
  connection_->Checkpoint(SQLITE_CHECKPOINT_TRUNCATE, /*patience_ms=*/0);
  connection_->lock->Release();
}

Store Store::OpenForWriting(const StoreLayout& layout,
                            NetworkWrites on_network) {
  // SQLite's locks and shared memory work on one machine only. Writers on two
  // machines damage the database without an error.
  if (on_network == NetworkWrites::kRefused) {
    const FileSystem system = FindFileSystem(layout.root());
    if (system.kind == FileSystem::Kind::kNetworked) {
      throw Error(ErrorKind::kStore,
                  "store " + layout.root().string() + ": is on " + system.name +
                      ", where writers on two machines damage a database; "
                      "choose a local disk with --store, or, if only this "
                      "machine writes to it, give --allow-network-fs");
    }
  }
  auto connection = std::make_unique<Connection>(layout);
  Connection& made = *connection;
  if (IsInMemory(layout)) {
    made.database = made.Guard(NewInMemory);
  } else {
    MakeDurableDirectories(layout.root());
    made.lock.emplace(layout.WriteLock());
    made.lock->Acquire();
    made.Guard([&] {
      MakePrivateFile(layout.Database());
      made.database = OpenReadWrite(layout.Database());
      SQLite::Database& database = *made.database;
      const SchemaState state = CheckSchema(database, layout.Database());
      if (database.execAndGet("PRAGMA journal_mode").getString() != "wal") {
        database.exec("PRAGMA journal_mode = WAL");
      }
      if (state == SchemaState::kOlder) {
        // A copy, with which the user can return to the older program.
        const std::string version =
            database.execAndGet("PRAGMA user_version").getString();
        try {
          CopyDatabase(database,
                       layout.Database().string() + ".v" + version + ".bak",
                       Overwrite::kAlways);
        } catch (const Error& error) {
          // The user did not ask for a copy: report it as a failed migration.
          throw Error(
              ErrorKind::kStore,
              "store " + layout.root().string() +
                  ": was written by an older dtrain and cannot be migrated: " +
                  error.what());
        }
      }
      if (state != SchemaState::kCurrent) Migrate(database);
    });
    made.RecordIdentity();
    made.lock->Release();
    sqlite3_wal_hook(made.database->getHandle(), Connection::OnWalCommit,
                     &made);
    made.Guard([&] { made.database->exec("PRAGMA synchronous = NORMAL"); });
  }
  made.checkpoint_at = kFramesToCheckpoint;
  made.statements.emplace(*made.database);
  return Store(std::move(connection));
}

Store Store::OpenForReading(const StoreLayout& layout) {
  auto connection = std::make_unique<Connection>(layout);
  connection->Guard([&] {
    connection->database = OpenForQueries(layout);
    connection->was_missing = connection->database == nullptr;
    if (connection->was_missing) connection->database = NewInMemory();
  });
  return Store(std::move(connection));
}

bool Store::TryWrite(const std::function<void(StoreWriter&)>& body,
                     bool durable) {
  assert(connection_->statements && "opened for reading");
  connection_->busy = false;
  if (connection_->lock && !connection_->lock->TryAcquire()) return false;
  struct Unlock {
    ~Unlock() {
      if (lock) lock->Release();
    }
    std::optional<WriteLock>& lock;
  } const unlock{connection_->lock};
  try {
    connection_->Guard([&] { Transact(body, durable); });
  } catch (...) {
    // Keys that were looked up within the transaction may be of rows that do
    // not exist now.
    connection_->statements->RolledBack();
    throw;
  }
  return !connection_->busy;
}

void Store::Transact(const std::function<void(StoreWriter&)>& body,
                     bool durable) {
  SQLite::Database& database = *connection_->database;
  if (durable != connection_->full_sync) {
    // Without it a commit is consistent after a power cut, but may be missing.
    database.exec(durable ? "PRAGMA synchronous = FULL"
                          : "PRAGMA synchronous = NORMAL");
    connection_->full_sync = durable;
  }
  // With the write lock held the database is free, unless a reader is just
  // repairing the WAL after a crash, or another program writes to it.
  database.setBusyTimeout(0);
  // IMMEDIATE, since a transaction that begins as a reader could fail later,
  // when it first writes.
  const int begun = database.tryExec("BEGIN IMMEDIATE");
  database.setBusyTimeout(5000);
  if (begun == SQLITE_BUSY) {
    connection_->busy = true;
    return;
  }
  if (begun != SQLITE_OK) throw SQLite::Exception(database.getHandle(), begun);
  struct Rollback {
    ~Rollback() {
      if (!sqlite3_get_autocommit(database.getHandle())) {
        database.tryExec("ROLLBACK");
      }
    }
    SQLite::Database& database;
  } const rollback{database};
  StoreWriter writer(*connection_->statements);
  body(writer);
  database.exec("COMMIT");
}

void Store::Write(const std::function<void(StoreWriter&)>& body, bool durable) {
  const auto deadline = steady_clock::now() + std::chrono::seconds(30);
  while (!TryWrite(body, durable)) {
    if (steady_clock::now() >= deadline) {
      throw Error(ErrorKind::kStore,
                  "store " + layout().root().string() +
                      ": could not be written to for 30 s, held by " +
                      (connection_->busy
                           ? DatabaseHolder(layout().Database())
                                 .value_or("a program that cannot be seen from "
                                           "here")
                           : connection_->lock->Holder()) +
                      "; check that process, then try again");
    }
    std::this_thread::sleep_for(milliseconds(1));
  }
}

void Store::MaybeCheckpointWal() {
  Connection& connection = *connection_;
  if (!connection.lock || connection.wal_frames < connection.checkpoint_at) {
    return;
  }
  if (!connection.lock->TryAcquire()) return;
  // A passive checkpoint does not wait. If readers have kept the WAL from
  // restarting for very long, wait shortly for them.
  const bool insist = connection.wal_frames >= kFramesToInsist;
  const int code = insist ? connection.Checkpoint(SQLITE_CHECKPOINT_RESTART, 50)
                          : connection.Checkpoint(SQLITE_CHECKPOINT_PASSIVE, 0);
  connection.lock->Release();
  // While the WAL keeps growing, the next try comes later.
  connection.checkpoint_at = connection.wal_frames + kFramesToCheckpoint;
  if (code != SQLITE_OK && code != SQLITE_BUSY) {
    connection.Guard([&] {
      throw SQLite::Exception(connection.database->getHandle(), code);
    });
  }
}

std::int64_t Store::DataVersion() const {
  return connection_->Guard([&] {
    return connection_->database->execAndGet("PRAGMA data_version").getInt64();
  });
}

bool Store::ChangedByOthers() {
  const std::int64_t now = DataVersion();
  return std::exchange(connection_->data_version, now) != now;
}

bool Store::WasMissing() const { return connection_->was_missing; }

bool Store::IsCopy() const {
  const char* file =
      sqlite3_db_filename(connection_->database->getHandle(), "main");
  const auto database = connection_->layout.Database();
  std::error_code missing;
  return !WasMissing() && !IsInMemory(connection_->layout) &&
         std::filesystem::exists(database, missing) &&
         (file == nullptr ||
          !std::filesystem::equivalent(file, database, missing));
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

const StoreLayout& Store::layout() const { return connection_->layout; }

// The inode tells the database from another one at its path. The directory was
// opened with O_PATH, so that its new path can be read from /proc.
std::string Store::MovedReason() const {
  const Connection& connection = *connection_;
  if (!connection.root) return "";
  struct stat status {};
  const bool there = ::stat(connection.layout.Database().c_str(), &status) == 0;
  if (there && status.st_dev == connection.device &&
      status.st_ino == connection.inode) {
    return "";
  }
  const std::string was = connection.layout.root().string();
  const std::string start =
      "store " + was + ": was " +
      (there ? "replaced by another one" : "moved or removed") +
      " while an experiment runs from it";
  std::error_code error;
  const auto now = std::filesystem::read_symlink(
      "/proc/self/fd/" + std::to_string(connection.root.get()), error);
  struct stat moved {};
  const bool found = !error &&
                     ::stat((now / "dtrain.db").c_str(), &moved) == 0 &&
                     moved.st_ino == connection.inode;
  if (!found) return start + "; put it back, or a backup of it";
  return start + "; it is " + now.string() +
         " now: move it back, or name it with --store " + now.string();
}

const std::string& Store::uuid() const {
  std::string& uuid = connection_->uuid;
  if (uuid.empty()) {
    uuid = connection_->Guard([&] {
      return connection_->database->execAndGet("SELECT uuid FROM store")
          .getString();
    });
  }
  // It becomes part of paths that are written to and removed.
  if (IsUuid(uuid)) return uuid;
  throw Error(ErrorKind::kStore,
              "store " + layout().root().string() +
                  ": has no UUID in its database; restore a backup of it");
}

std::vector<std::string> Store::Storages() const {
  return connection_->Guard([&] {
    SQLite::Statement query(*connection_->database,
                            "SELECT path FROM storages ORDER BY path");
    std::vector<std::string> paths;
    while (query.executeStep()) paths.push_back(query.getColumn(0).getString());
    return paths;
  });
}

std::filesystem::path Store::StorageRoot(const std::string& storage) const {
  return std::filesystem::path(storage) / uuid();
}

std::filesystem::path Store::CheckpointDirectory(
    TrialId trial, const std::string& storage) const {
  if (storage.empty()) return layout().Checkpoints(trial);
  return StorageRoot(storage) / std::to_string(trial.experiment) /
         std::to_string(trial.number);
}

std::filesystem::path Store::CheckpointPath(
    const CheckpointRow& checkpoint) const {
  return CheckpointDirectory(checkpoint.trial, checkpoint.storage) /
         checkpoint.uuid;
}

std::string SqliteVersion() { return sqlite3_libversion(); }

}  // namespace dtrain
