#pragma once

#include <filesystem>

namespace SQLite {
class Database;
}

namespace dtrain {

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

}  // namespace dtrain
