#pragma once

#include <filesystem>

namespace SQLite {
class Database;
}

namespace dtrain {

/// What a database file turned out to be.
enum class SchemaState {
  kEmpty,  // nothing in it yet
  kOlder,  // to be migrated before it is written to
  kCurrent,
};

/// Looks at whose database this is, without changing it. Throws Error(kStore)
/// for one of another application or of a newer dtrain; SQLite::Exception for
/// what is no database.
SchemaState CheckSchema(SQLite::Database& database,
                        const std::filesystem::path& path);

/// Brings an empty or older database to the schema of this program, in one
/// transaction. REQUIRES: the write lock, and that CheckSchema passed.
void Migrate(SQLite::Database& database);

}  // namespace dtrain
