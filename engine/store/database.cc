#include "engine/store/database.h"

#include <array>
#include <string>
#include <system_error>

#include <sys/statvfs.h>

#include <SQLiteCpp/Backup.h>
#include <sqlite3.h>
#include <stdlib.h>

#include "engine/base/error.h"
#include "engine/os/files.h"
#include "engine/store/runner_probe.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

// A reader that finds no room for SQLite's files fails with one of these.
bool IsForLackOfRoom(const SQLite::Exception& error) {
  const int code = error.getErrorCode();
  return code == SQLITE_IOERR || code == SQLITE_CANTOPEN ||
         code == SQLITE_READONLY || code == SQLITE_FULL;
}

bool IsDiskFull(const fs::path& directory) {
  struct statvfs state {};
  return ::statvfs(directory.c_str(), &state) == 0 &&
         state.f_bavail * state.f_frsize < (std::size_t{64} << 10);
}

void Configure(SQLite::Database& database) {
  sqlite3_db_config(database.getHandle(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1,
                    nullptr);
  database.setBusyTimeout(5000);
  database.exec(
      "PRAGMA foreign_keys = ON;"
      "PRAGMA trusted_schema = OFF;"
      "PRAGMA cell_size_check = ON;"
      "PRAGMA mmap_size = 0;"
      "PRAGMA temp_store = MEMORY;"
      "PRAGMA wal_autocheckpoint = 0;");
}

std::unique_ptr<SQLite::Database> Open(const std::string& name, int flags) {
  auto database = std::make_unique<SQLite::Database>(name, flags);
  Configure(*database);
  return database;
}

// The first read is what takes locks and looks at the file.
std::unique_ptr<SQLite::Database> OpenAndRead(const std::string& name,
                                              int flags) {
  auto database = Open(name, flags);
  database->execAndGet("SELECT count(*) FROM sqlite_schema");
  return database;
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

// Had another process the store open, SQLite's files beside it would be there
// and ours would not have failed: nobody writes while this copies.
std::unique_ptr<SQLite::Database> OpenCopy(const fs::path& path,
                                           const fs::path& wal) {
  // SQLite keeps the files it has open when the directory goes.
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
      return "free some space, then go on with `dtrain resume`";
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
      return "another program holds it; close that one and try again";
    case SQLITE_IOERR:
      return "check the disk, then go on with `dtrain resume`";
    case SQLITE_NOMEM:
      return "free some memory and try again";
    default:
      return "this is a bug of dtrain; please report it";
  }
}

}  // namespace

void ThrowStoreError(const StoreLayout& layout,
                     const SQLite::Exception& error) {
  int code = error.getErrorCode();
  std::string what = error.what();
  // Where SQLite cannot even make its own files, it names no reason.
  if ((code == SQLITE_IOERR || code == SQLITE_CANTOPEN) &&
      IsDiskFull(layout.root())) {
    code = SQLITE_FULL;
    what = sqlite3_errstr(code);
  }
  throw Error(
      code == SQLITE_FULL ? ErrorKind::kDiskFull : ErrorKind::kStore,
      "store " + layout.root().string() + ": " + what + "; " + Remedy(code));
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
    if (!IsForLackOfRoom(error) || HasRunner(layout)) throw;
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

}  // namespace dtrain
