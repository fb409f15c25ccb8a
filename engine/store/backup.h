#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include <SQLiteCpp/Database.h>

namespace dtrain {

/// Whether a copy may take the place of a file that is there.
enum class Overwrite { kNever, kAlways };

/// Copies the database as its last commit left it to `file`, one file without
/// a write-ahead log, for this user alone (0600), checked and synced before it
/// gets its name: it is there whole or not at all. Others may read and write
/// `from` meanwhile. Gives its bytes. Throws Error(kUsage) if `file` is there
/// and may not be overwritten, Error(kFailed) naming `file` if it cannot be
/// written, SQLite::Exception for what is wrong with `from`.
std::int64_t CopyDatabase(SQLite::Database& from,
                          const std::filesystem::path& file,
                          Overwrite overwrite);

/// What PRAGMA integrity_check and foreign_key_check find, a line each (at
/// most some hundred); none where all is well. Throws SQLite::Exception.
std::vector<std::string> DatabaseProblems(SQLite::Database& database);

}  // namespace dtrain
