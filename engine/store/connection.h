#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <sys/types.h>

#include "engine/os/unique_fd.h"
#include "engine/store/database.h"
#include "engine/store/statements.h"
#include "engine/store/store.h"
#include "engine/store/write_lock.h"

namespace dtrain {

/// What a Store is made of; shared by the files that implement it.
struct Store::Connection {
  explicit Connection(StoreLayout where) : layout(std::move(where)) {}

  /// Carries out `body` with SQLite's exceptions translated.
  template <typename Body>
  auto Guard(Body&& body) const {
    return WithStoreErrors(layout, std::forward<Body>(body));
  }

  /// What SQLite calls after each commit.
  static int NoteWalFrames(void* connection, sqlite3*, const char*, int frames);
  /// Gives SQLite's result code. REQUIRES: the write lock.
  int Checkpoint(int mode, int patience_ms);

  /// Remembers which files these are. REQUIRES: the database is open, and the
  /// write lock, so that nobody has made another one.
  void NotePlace();

  StoreLayout layout;
  std::optional<WriteLock> lock;  // none in memory and for readers
  // Of a writer: its directory, wherever that is moved to, and its database.
  UniqueFd root;
  dev_t device = 0;
  ino_t inode = 0;
  std::string uuid;  // as `uuid` read it; empty: it has not yet
  // Destroyed last but for the lock: statements must go before it.
  std::unique_ptr<SQLite::Database> database;
  std::optional<Statements> statements;      // none for readers
  std::optional<std::int64_t> data_version;  // as ChangedByOthers saw it
  bool full_sync = false;                    // as `synchronous` is set now
  bool busy = false;                         // the last try could not begin
  int wal_frames = 0;                        // at the last commit of ours
  int checkpoint_at = 0;  // try when there are so many frames
};

}  // namespace dtrain
