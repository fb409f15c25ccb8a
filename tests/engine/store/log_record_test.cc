#include "engine/store/log_record.h"

#include <gtest/gtest.h>

#include "engine/base/error.h"

namespace dtrain {
namespace {

TEST(LogLevelTest, NamesComeBack) {
  EXPECT_EQ(LogLevelName(LogLevel::kWarning), "warning");
  EXPECT_EQ(LogLevelFromName("debug"), LogLevel::kDebug);
  EXPECT_EQ(LogLevelFromName("error"), LogLevel::kError);
  EXPECT_THROW(LogLevelFromName("loud"), Error);
}

}  // namespace
}  // namespace dtrain
