#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Exception.h>

#include "engine/os/unique_fd.h"
#include "engine/store/layout.h"
#include "engine/store/statements.h"
#include "engine/store/store.h"
#include "engine/store/write_lock.h"

namespace dtrain {

/// Translates an error of SQLite: throws Error(kStore) or Error(kDiskFull) with
/// the store, the problem and the remedy, in one line.
[[noreturn]] void ThrowStoreError(const StoreLayout& layout,
                                  const SQLite::Exception& error);

/// Runs `body` with SQLite's exceptions translated.
template <typename Body>
auto WithStoreErrors(const StoreLayout& layout, Body&& body) {
  try {
    return body();
  } catch (const SQLite::Exception& error) {
    ThrowStoreError(layout, error);
  }
}

/// Opens the database file for writing, with automatic checkpoints off and a
/// timeout of five seconds for readers' locks. Throws SQLite::Exception.
std::unique_ptr<SQLite::Database> OpenReadWrite(
    const std::filesystem::path& path);

/// Opens the database file for reading. If a full disk or a read-only medium
/// forbids the files that SQLite needs beside it, and no runner of the store
/// may change it, reads the file as immutable, or a copy of it with its
/// write-ahead log, so that no commit is missed. Throws SQLite::Exception.
std::unique_ptr<SQLite::Database> OpenReadOnly(const StoreLayout& layout);

/// Returns the name by which SQLite opens the file without a lock or a file
/// beside it. REQUIRES: the flag OPEN_URI, and no changes meanwhile.
std::string ImmutableUri(const std::filesystem::path& path);

/// Copies `from` to a database that lives as long as the connection returned.
std::unique_ptr<SQLite::Database> CopyToMemory(SQLite::Database& from);

/// Opens an empty database that lives as long as the connection.
std::unique_ptr<SQLite::Database> OpenInMemory();

/// True if any experiment of the store has a runner on this host: a process
/// that holds an experiment's runner lock and may write at any time. Takes no
/// lock itself.
bool HasRunner(const StoreLayout& layout);

// ---- The schema: schema.cc.

/// State of a database file's schema.
enum class SchemaState {
  kEmpty,  // nothing in it yet
  kOlder,  // to be migrated before it is written to
  kCurrent,
};

/// Checks the application and version of the database without changing it.
/// Throws Error(kStore) for another application or a newer dtrain,
/// SQLite::Exception if the file is not a database.
SchemaState CheckSchema(SQLite::Database& database,
                        const std::filesystem::path& path);

/// Brings an empty or older database to the schema of this program, in one
/// transaction. REQUIRES: the write lock, and that CheckSchema passed.
void Migrate(SQLite::Database& database);

// ---- Copies and checks of the whole database: backup.cc.

/// Permission to replace an existing file.
enum class Overwrite { kNever, kAlways };

/// Copies the database, as of its last commit, to `file`: one file without a
/// write-ahead log, for this user alone (0600), checked and synced before it
/// gets its name, so it appears whole or not at all. Other processes may read
/// and write `from` meanwhile. Returns its size in bytes. Throws Error(kUsage)
/// if `file` exists and may not be overwritten, Error(kFailed) naming `file` if
/// it cannot be written, SQLite::Exception for problems of `from`.
std::int64_t CopyDatabase(SQLite::Database& from,
                          const std::filesystem::path& file,
                          Overwrite overwrite);

/// Returns the findings of PRAGMA integrity_check and foreign_key_check, a line
/// each, some hundreds at most. Throws SQLite::Exception.
std::vector<std::string> DatabaseProblems(SQLite::Database& database);

// ---- The connection of a Store.

/// Size of a write-ahead log, in frames, that is worth a checkpoint: 8 MiB.
inline constexpr int kFramesToCheckpoint = 2000;

/// State of a Store, shared by the sources that implement it (store.cc and
/// store_queries.cc).
struct Store::Connection {
  explicit Connection(StoreLayout where) : layout(std::move(where)) {}

  /// Runs `body` with SQLite's exceptions translated.
  template <typename Body>
  auto Guard(Body&& body) const {
    return WithStoreErrors(layout, std::forward<Body>(body));
  }

  /// SQLite's hook for commits to the write-ahead log: counts its frames.
  static int OnWalCommit(void* connection, sqlite3*, const char*, int frames);
  /// Moves the write-ahead log into the database. Returns SQLite's result code.
  /// REQUIRES: the write lock.
  int Checkpoint(int mode, int patience_ms);

  /// Remembers the identity of the store's files. REQUIRES: the database is
  /// open, and the write lock, so that no process can have replaced it.
  void RecordIdentity();

  StoreLayout layout;
  std::optional<WriteLock> lock;  // none in memory and for readers
  // For a writer: its directory, wherever that is moved to, and its database.
  UniqueFd root;
  dev_t device = 0;
  ino_t inode = 0;
  std::string uuid;  // empty until Store::uuid has read it
  // Statements must be destroyed before it.
  std::unique_ptr<SQLite::Database> database;
  std::optional<Statements> statements;      // none for readers
  std::optional<std::int64_t> data_version;  // at the last ChangedByOthers
  bool was_missing = false;                  // see Store::WasMissing
  bool full_sync = false;                    // current setting
  bool busy = false;                         // the last BEGIN failed
  int wal_frames = 0;                        // after our last commit
  int checkpoint_at = 0;                     // frames for the next checkpoint
};

}  // namespace dtrain
