// Readers open the database read-only, but SQLite still needs its two files
// beside it: the write-ahead log and the shared memory with its index. On a
// full disk or a read-only medium it cannot create them. If no runner may
// change the database meanwhile, OpenReadOnly then reads it as immutable, which
// ignores the log, or, if there is a log with commits, reads copies of both in
// a temporary directory.
//
// Every connection is configured alike (Configure): a store may come from
// elsewhere, hence no trusted schema and checked cells; a mapped file would
// turn an error of the disk into SIGBUS; automatic checkpoints are off
// (store.cc). Errors of SQLite become errors of dtrain here, with what a user
// can do about each code.

#include "engine/store/database.h"

#include <array>
#include <filesystem>
#include <string>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <SQLiteCpp/Backup.h>
#include <sqlite3.h>
#include <stdlib.h>

#include "engine/base/error.h"
#include "engine/os/file_lock.h"
#include "engine/os/files.h"
#include "engine/os/unique_fd.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

std::unique_ptr<SQLite::Database> Open(const std::string& name, int flags) {
  // One thread uses a connection, so SQLite need not lock it for each value.
  auto database =
      std::make_unique<SQLite::Database>(name, flags | SQLite::OPEN_NOMUTEX);
  sqlite3_db_config(database->getHandle(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1,
                    nullptr);
  database->setBusyTimeout(5000);
  database->exec(
      "PRAGMA foreign_keys = ON;"
      "PRAGMA trusted_schema = OFF;"
      "PRAGMA cell_size_check = ON;"
      "PRAGMA mmap_size = 0;"
      "PRAGMA temp_store = MEMORY;"
      "PRAGMA wal_autocheckpoint = 0;");
  return database;
}

// SQLite opens and locks the file only at the first read.
std::unique_ptr<SQLite::Database> OpenAndRead(const std::string& name,
                                              int flags) {
  auto database = Open(name, flags);
  database->execAndGet("SELECT count(*) FROM sqlite_schema");
  return database;
}

// No process writes during the copy: if another one had the store open,
// SQLite's files beside it would exist and opening it would not have failed.
std::unique_ptr<SQLite::Database> OpenCopy(const fs::path& path,
                                           const fs::path& wal) {
  // SQLite keeps its open files when the directory is removed.
  const ScratchDirectory scratch;
  const fs::path copy = scratch.path() / "dtrain.db";
  std::error_code error;
  if (scratch.path().empty() || !fs::copy_file(path, copy, error) ||
      !fs::copy_file(wal, copy.string() + "-wal", error)) {
    return nullptr;
  }
  return OpenAndRead(copy, SQLite::OPEN_READWRITE);
}

std::string Remedy(int code) {
  switch (code) {
    case SQLITE_FULL:
      return "free some space, then run `dtrain resume`";
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
      return "check its permissions, or choose another with --store";
    case SQLITE_NOTADB:
      return "choose another with --store, or restore it from a backup";
    case SQLITE_CORRUPT:
      return "keep a copy of the directory, then run sqlite3's .recover on "
             "dtrain.db or restore a backup";
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return "another program has locked it; close that one and try again";
    case SQLITE_IOERR:
      return "check the disk, then run `dtrain resume`";
    case SQLITE_NOMEM:
      return "free some memory and try again";
    default:
      return "this is a bug of dtrain; please report it";
  }
}

}  // namespace

void ThrowStoreError(const StoreLayout& layout,
                     const SQLite::Exception& error) {
  int code = error.getErrorCode() & 0xff;  // without its extension
  std::string what = error.what();
  // SQLite names no reason if it cannot create its own files.
  struct statvfs state {};
  if ((code == SQLITE_IOERR || code == SQLITE_CANTOPEN) &&
      ::statvfs(layout.root().c_str(), &state) == 0 &&
      state.f_bavail * state.f_frsize < (std::size_t{64} << 10)) {
    code = SQLITE_FULL;
    what = sqlite3_errstr(code);
  }
  throw Error(
      code == SQLITE_FULL ? ErrorKind::kDiskFull : ErrorKind::kStore,
      "store " + layout.root().string() + ": " + what + "; " + Remedy(code));
}

std::string ImmutableUri(const fs::path& path) {
  std::string uri = "file:";
  for (const char c : path.string()) {
    if (c == '%' || c == '?' || c == '#') {
      std::array<char, 4> escape{};
      std::snprintf(escape.data(), escape.size(), "%%%02x", c);
      uri += escape.data();
    } else {
      uri += c;
    }
  }
  return uri + "?immutable=1";
}

std::unique_ptr<SQLite::Database> OpenReadWrite(const fs::path& path) {
  auto database = Open(path, SQLite::OPEN_READWRITE);
  database->exec(
      "PRAGMA journal_size_limit = 16777216;"
      "PRAGMA cache_size = -8192;");
  return database;
}

std::unique_ptr<SQLite::Database> OpenReadOnly(const StoreLayout& layout) {
  const fs::path path = layout.Database();
  try {
    return OpenAndRead(path, SQLite::OPEN_READONLY);
  } catch (const SQLite::Exception& error) {
    // The errors of a reader that has no space for SQLite's own files.
    const int code = error.getErrorCode();
    const bool lacks_room = code == SQLITE_IOERR || code == SQLITE_CANTOPEN ||
                            code == SQLITE_READONLY || code == SQLITE_FULL;
    if (!lacks_room || HasRunner(layout)) throw;
    const fs::path wal = path.string() + "-wal";
    std::error_code none;
    const bool has_wal = fs::file_size(wal, none) > 0 && !none;
    auto database = has_wal
                        ? OpenCopy(path, wal)
                        : OpenAndRead(ImmutableUri(path),
                                      SQLite::OPEN_READONLY | SQLite::OPEN_URI);
    if (!database) throw;
    return database;
  }
}

std::unique_ptr<SQLite::Database> CopyToMemory(SQLite::Database& from) {
  auto copy = OpenInMemory();
  SQLite::Backup backup(*copy, from);
  const int code = backup.executeStep();
  if (code != SQLITE_DONE) {
    throw SQLite::Exception("cannot copy the database", code);
  }
  return copy;
}

std::unique_ptr<SQLite::Database> OpenInMemory() {
  return Open(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
}

bool HasRunner(const StoreLayout& layout) {
  std::error_code error;
  std::filesystem::directory_iterator entry(layout.Experiments(), error);
  for (const std::filesystem::directory_iterator end; !error && entry != end;
       entry.increment(error)) {
    const FileLock lock(UniqueFd(::open((entry->path() / "runner.lock").c_str(),
                                        O_RDONLY | O_CLOEXEC | O_NOFOLLOW)));
    if (lock && lock.IsRecordLocked()) return true;
  }
  return false;
}

int Store::Connection::OnWalCommit(void* connection, sqlite3*, const char*,
                                   int frames) {
  auto& self = *static_cast<Connection*>(connection);
  // Fewer frames than before: SQLite has restarted the WAL.
  if (frames < self.wal_frames) self.checkpoint_at = kFramesToCheckpoint;
  self.wal_frames = frames;
  return SQLITE_OK;
}

int Store::Connection::Checkpoint(int mode, int patience_ms) {
  database->setBusyTimeout(patience_ms);
  const int code = sqlite3_wal_checkpoint_v2(database->getHandle(), nullptr,
                                             mode, nullptr, nullptr);
  database->setBusyTimeout(5000);
  return code;
}

// Does not open the database: closing it would drop SQLite's locks.
void Store::Connection::RecordIdentity() {
  struct stat status {};
  if (::stat(layout.Database().c_str(), &status) != 0) return;
  device = status.st_dev;
  inode = status.st_ino;
  root.reset(::open(layout.root().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
}

}  // namespace dtrain
