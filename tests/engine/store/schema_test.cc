#include <SQLiteCpp/Database.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/store/database.h"

namespace dtrain {
namespace {

using testing::HasSubstr;

class SchemaTest : public testing::Test {
 protected:
  SchemaState Check() { return CheckSchema(*database_, "/s/dtrain.db"); }

  std::string Refusal() {
    try {
      Check();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kStore);
      return error.what();
    }
    return "accepted";
  }

  std::unique_ptr<SQLite::Database> database_ = OpenInMemory();
};

TEST_F(SchemaTest, EmptyDatabaseIsMigrated) {
  EXPECT_EQ(Check(), SchemaState::kEmpty);

  Migrate(*database_);

  EXPECT_EQ(Check(), SchemaState::kCurrent);
}

TEST_F(SchemaTest, MigratingTwiceChangesNothing) {
  Migrate(*database_);
  Migrate(*database_);

  EXPECT_EQ(Check(), SchemaState::kCurrent);
}

TEST_F(SchemaTest, DatabaseHasAnApplicationId) {
  Migrate(*database_);

  EXPECT_EQ(database_->execAndGet("PRAGMA application_id").getInt(),
            0x4454524E);
  EXPECT_EQ(database_->execAndGet("PRAGMA user_version").getInt(), 12);
}

TEST_F(SchemaTest, NewerSchemaIsRefused) {
  Migrate(*database_);
  database_->exec("PRAGMA user_version = 999");

  EXPECT_THAT(Refusal(), HasSubstr("store /s: has schema 999"));
}

TEST_F(SchemaTest, ForeignApplicationIsRefused) {
  database_->exec("PRAGMA application_id = 42");

  EXPECT_THAT(Refusal(), HasSubstr("of another application"));
}

TEST_F(SchemaTest, ForeignTablesAreRefused) {
  database_->exec("CREATE TABLE theirs (x)");

  EXPECT_THAT(Refusal(), HasSubstr("of another application"));
}

TEST_F(SchemaTest, EveryTableIsStrict) {
  Migrate(*database_);

  EXPECT_EQ(database_
                ->execAndGet("SELECT count(*) FROM pragma_table_list WHERE "
                             "type = 'table' AND strict = 0 AND name NOT LIKE "
                             "'sqlite_%'")
                .getInt(),
            0);
}

}  // namespace
}  // namespace dtrain
