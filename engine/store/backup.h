#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include <SQLiteCpp/Database.h>

namespace dtrain {

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

}  // namespace dtrain
