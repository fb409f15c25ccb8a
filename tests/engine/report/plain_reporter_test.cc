#include "engine/report/plain_reporter.h"

#include <sstream>

#include <gtest/gtest.h>

namespace dtrain {
namespace {

class PlainReporterTest : public testing::Test {
 protected:
  std::string Say(Verbosity verbosity) {
    std::ostringstream out;
    PlainReporter reporter(out, {}, verbosity);
    reporter.OnTraining({1, 1}, {.batches = 5});
    reporter.OnValidation({1, 1}, {.batches = 9, .metrics = {{"loss", 1}}},
                          /*best=*/false);
    reporter.OnNotice(LogLevel::kWarning, "one\nline");
    reporter.OnTrialEnded({.id = {1, 1}, .state = State::kError}, {"why"});
    return out.str();
  }
};

TEST_F(PlainReporterTest, SaysALineForEachEvent) {
  EXPECT_EQ(Say(Verbosity::kNormal),
            "1.1 validation at batch 9 (epoch 0): loss 1\n"
            "dtrain: warning: one\\x0aline\n"
            "1.1 failed\n"
            "1.1 | why\n");
}

TEST_F(PlainReporterTest, SaysOnlyFailuresWhereItIsQuiet) {
  EXPECT_EQ(Say(Verbosity::kQuiet), "1.1 failed\n1.1 | why\n");
}

TEST_F(PlainReporterTest, SaysTrainingReportsWhereItIsVerbose) {
  EXPECT_TRUE(Say(Verbosity::kVerbose)
                  .starts_with("1.1 training at batch 5 (epoch 0): \n"));
}

}  // namespace
}  // namespace dtrain
