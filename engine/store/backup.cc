// A copy of a database that other processes may be writing to. The steps:
//
// 1. FILE.tmp is created and locked; what a crash left there is overwritten. 2.
// SQLite's backup copies all pages in one step, hence of one moment. 3. The
// copy leaves WAL mode, so that it is a single file, and is checked. 4. It is
// synced, renamed to FILE, and the name is synced.
//
// FILE is thus absent, or as it was before, or complete.

#include <cerrno>
#include <cstdio>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <SQLiteCpp/Backup.h>
#include <SQLiteCpp/Statement.h>
#include <sqlite3.h>

#include "engine/base/error.h"
#include "engine/os/file_lock.h"
#include "engine/os/system_error.h"
#include "engine/os/unique_fd.h"
#include "engine/store/database.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void Fail(const fs::path& file, const std::string& why) {
  throw Error(ErrorKind::kFailed,
              file.string() + ": cannot write the copy of the database: " +
                  why + "; choose another place, or free some space");
}

[[noreturn]] void FailBySystem(const fs::path& file, int error) {
  Fail(file, ErrnoText(error));
}

[[noreturn]] void RefuseExisting(const fs::path& file) {
  throw Error(ErrorKind::kUsage,
              file.string() +
                  ": already exists and is not overwritten; give another name, "
                  "or remove it first");
}

// The copy while it is written, beside its final place; removed unless it got
// its name. Its writer keeps it locked, so a file that is not locked is left
// over from a crash and is written from scratch.
class TemporaryFile {
 public:
  explicit TemporaryFile(const fs::path& file)
      : path_(file.string() + ".tmp"),
        lock_(UniqueFd(::open(
            path_.c_str(),
            O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600))) {
    if (!lock_) FailBySystem(file, errno);
    if (!lock_.TryLock()) {
      Fail(file, "another process writes " + path_.string());
    }
    // Another process may have named or removed it since it was opened: it must
    // be a regular file of this user, of this name and no other hard link.
    struct stat open {};
    struct stat named {};
    const bool is_own = ::fstat(lock_.fd(), &open) == 0 &&
                        ::lstat(path_.c_str(), &named) == 0 &&
                        open.st_dev == named.st_dev &&
                        open.st_ino == named.st_ino && S_ISREG(open.st_mode) &&
                        open.st_uid == ::geteuid() && open.st_nlink == 1;
    if (!is_own) FailBySystem(file, EEXIST);
    ::unlink((path_.string() + "-journal").c_str());
    if (::ftruncate(lock_.fd(), 0) != 0 || ::fchmod(lock_.fd(), 0600) != 0) {
      FailBySystem(file, errno);
    }
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (named_) return;
    std::error_code ignored;
    fs::remove(path_, ignored);
    fs::remove(path_.string() + "-journal", ignored);
  }

  // The file is durable under its own name when this returns.
  void Name(const fs::path& file, Overwrite overwrite) {
    Sync(file, path_, O_RDONLY);
    const unsigned flags =
        overwrite == Overwrite::kNever ? RENAME_NOREPLACE : 0U;
    if (::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, file.c_str(), flags) !=
        0) {
      if (errno == EEXIST) RefuseExisting(file);
      FailBySystem(file, errno);
    }
    named_ = true;
    const fs::path parent = file.parent_path();
    Sync(file, parent.empty() ? "." : parent, O_RDONLY | O_DIRECTORY);
  }

  const fs::path& path() const { return path_; }

 private:
  static void Sync(const fs::path& file, const fs::path& what, int flags) {
    const UniqueFd open(::open(what.c_str(), flags | O_CLOEXEC));
    if (!open || ::fsync(open.get()) != 0) FailBySystem(file, errno);
  }

  const fs::path path_;
  // Open until SQLite has closed the file: closing it ends SQLite's own locks.
  FileLock lock_;
  bool named_ = false;
};

// Errors of the copy must name the copy, not the store.
void Fill(SQLite::Database& from, const fs::path& path, const fs::path& file) {
  try {
    SQLite::Database copy(path.string(), SQLite::OPEN_READWRITE);
    SQLite::Backup backup(copy, from);
    const int code = backup.executeStep();
    if (code != SQLITE_DONE) Fail(file, sqlite3_errstr(code));
  } catch (const SQLite::Exception& error) {
    Fail(file, error.what());
  }
}

// Makes it one file without a log, and checks it.
void Finish(const fs::path& path, const fs::path& file) {
  try {
    SQLite::Database copy(path.string(), SQLite::OPEN_READWRITE);
    copy.exec("PRAGMA synchronous = FULL; PRAGMA journal_mode = DELETE");
    const auto problems = DatabaseProblems(copy);
    if (!problems.empty()) {
      throw Error(ErrorKind::kStore,
                  file.string() + ": not written: the database is damaged (" +
                      problems.front() + "); run 'dtrain doctor'");
    }
  } catch (const SQLite::Exception& error) {
    Fail(file, error.what());
  }
}

}  // namespace

std::int64_t CopyDatabase(SQLite::Database& from, const fs::path& file,
                          Overwrite overwrite) {
  std::error_code error;
  if (overwrite == Overwrite::kNever &&
      fs::exists(fs::symlink_status(file, error))) {
    RefuseExisting(file);
  }
  TemporaryFile temporary(file);
  Fill(from, temporary.path(), file);
  Finish(temporary.path(), file);
  const auto bytes =
      static_cast<std::int64_t>(fs::file_size(temporary.path(), error));
  temporary.Name(file, overwrite);
  return bytes;
}

std::vector<std::string> DatabaseProblems(SQLite::Database& database) {
  std::vector<std::string> problems;
  SQLite::Statement integrity(database, "PRAGMA integrity_check");
  while (integrity.executeStep()) {
    const std::string line = integrity.getColumn(0).getString();
    if (line != "ok") problems.push_back(line);
  }
  SQLite::Statement keys(database, "PRAGMA foreign_key_check");
  while (keys.executeStep() && problems.size() < 200) {
    problems.push_back("table " + keys.getColumn(0).getString() + ", row " +
                       keys.getColumn(1).getString() +
                       ": names a row of table " +
                       keys.getColumn(2).getString() + " that does not exist");
  }
  return problems;
}

}  // namespace dtrain
