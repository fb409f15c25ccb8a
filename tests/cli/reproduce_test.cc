// `reproduce`: what it refuses, and how it compares. That it runs a trial
// again is reproduce_run_test.cc.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/store/store.h"
#include "tests/support/cli_runner.h"
#include "tests/support/sample_store.h"

namespace dtrain {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

class ReproduceTest : public testing::Test {
 protected:
  ReproduceTest() { FillSampleStore(dtrain_.store()); }

  void ExpectRefused(std::vector<std::string> arguments, int code,
                     const std::string& message) const {
    arguments.insert(arguments.begin(), "reproduce");
    const CliResult result = dtrain_.Run(arguments);
    EXPECT_EQ(result.code, code) << result.err;
    EXPECT_THAT(result.err, HasSubstr(message));
    EXPECT_EQ(dtrain_.Run({"describe", "4"}).code, 3);
  }
  CliResult Compare(std::vector<std::string> more) const {
    more.insert(more.begin(), "reproduce");
    more.emplace_back("--json");
    return dtrain_.Run(more);
  }

  CliRunner dtrain_;
};

TEST_F(ReproduceTest, RefusesWhatCannotBeReproduced) {
  ExpectRefused({"9.1"}, 3, "no experiment 9");
  ExpectRefused({"1.7"}, 3, "has no trial 1.7");
  ExpectRefused({"1"}, 2, "'1' is an experiment; give one of its trials");
  ExpectRefused({"1.1", "--tolerance", "much"}, 2, "--tolerance: 'much'");
  ExpectRefused({"1.1", "--tolerance", "-1"}, 2, "--tolerance: '-1'");
  ExpectRefused({"1.1", "--against", "1.7"}, 3, "has no trial 1.7");
  ExpectRefused({"1.1"}, 2, "has not trained");
}

TEST_F(ReproduceTest, RefusesATrialThatHasNotEnded) {
  Store store = Store::OpenForWriting(StoreLayout(dtrain_.store()));
  store.Write([](StoreWriter& writer) {
    writer.AddTrial({.id = {2, 1}, .request_id = "r"});
    writer.SetTrialState({2, 1}, State::kRunning, Timestamp(1));
  });
  ExpectRefused({"2.1"}, 2, "trial 2.1 is RUNNING; reproduce it after");
}

TEST_F(ReproduceTest, FindsATrialEqualToItself) {
  const CliResult result = Compare({"1.2", "--against", "1.2"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.Json()["equal"], true);
  EXPECT_EQ(result.Json()["metrics"], 4);  // one is NaN
  EXPECT_THAT(dtrain_.Run({"reproduce", "1.2", "--against", "1.2"}).out,
              HasSubstr("trial 1.2 has the same 4 metrics as 1.2, bit for "
                        "bit\n"));
}

TEST_F(ReproduceTest, SaysWhereTrialsDifferMost) {
  const CliResult result = Compare({"1.1", "--against", "1.2"});
  EXPECT_EQ(result.code, 4);
  const json document = result.Json();
  EXPECT_EQ(document["equal"], false);
  EXPECT_EQ(document["different"], 3);
  EXPECT_EQ(document["missing"], 0);
  EXPECT_DOUBLE_EQ(document["largest_difference"], 2.0 / 3);
  EXPECT_EQ(document["largest_at"]["kind"], "validation");
  EXPECT_EQ(document["largest_at"]["batches"], 100);
  EXPECT_THAT(dtrain_.Run({"reproduce", "1.1", "--against", "1.2"}).out,
              AllOf(HasSubstr("trial 1.2 differs from 1.1 in 3 of 3 metrics"),
                    HasSubstr("of validation "), HasSubstr(" at batch 100: ")));
}

TEST_F(ReproduceTest, AllowsWhatIsTolerated) {
  EXPECT_EQ(Compare({"1.1", "--against", "1.2", "--tolerance", "0.6"}).code, 4);
  EXPECT_EQ(Compare({"1.1", "--against", "1.2", "--tolerance", "0.7"}).code, 0);
}

TEST_F(ReproduceTest, AllowsNothingThatIsMissing) {
  const CliResult result =
      Compare({"1.2", "--against", "1.1", "--tolerance", "0.7"});
  EXPECT_EQ(result.code, 4);
  EXPECT_EQ(result.Json()["missing"], 1);
}

}  // namespace
}  // namespace dtrain
