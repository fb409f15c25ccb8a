// Experiments, trials and checkpoints as arguments name them: the sample store
// has the experiments 1 alpha, 2 with control characters, 3 gamma, and 4 delta.

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/store/store.h"
#include "tests/support/cli_runner.h"
#include "tests/support/sample_store.h"

namespace dtrain {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class TargetsTest : public testing::Test {
 protected:
  TargetsTest() {
    FillSampleStore(dtrain_.store());
    AddAccuracySearch(dtrain_.store());
  }

  json Run(std::vector<std::string> arguments) const {
    arguments.push_back("--json");
    const CliResult result = dtrain_.Run(arguments);
    EXPECT_EQ(result.code, 0) << result.err;
    return result.Json();
  }

  void ExpectRefused(const std::vector<std::string>& arguments, int code,
                     const std::string& error) const {
    const CliResult result = dtrain_.Run(arguments);
    EXPECT_EQ(result.code, code) << result.err;
    EXPECT_THAT(result.err, HasSubstr(error));
  }

  // The experiments to which `label` adds a label.
  std::vector<int> Labelled(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "label");
    arguments.insert(arguments.end(), {"--add", "x"});
    std::vector<int> ids;
    const json document = Run(arguments);
    for (const json& one : document["experiments"]) {
      ids.push_back(one["experiment"]);
    }
    return ids;
  }

  const CliRunner dtrain_;
};

TEST_F(TargetsTest, NamesExperimentsByWordsAndNames) {
  EXPECT_EQ(Run({"describe", "last"})["id"], 4);
  EXPECT_EQ(Run({"describe", "alpha"})["id"], 1);
  EXPECT_EQ(Run({"trials", "alpha"})["trials"].size(), 2);
  EXPECT_EQ(Run({"describe", "last.2"})["trial"], "4.2");
  EXPECT_EQ(Run({"describe", "alpha.2"})["trial"], "1.2");
  EXPECT_EQ(Run({"best", "last"})["best"][0]["trial"], "4.2");
  EXPECT_EQ(Run({"compare", "alpha", "last", "--baseline", "last"})["baseline"],
            "4");
}

TEST_F(TargetsTest, NamesSeveralExperimentsByARange) {
  EXPECT_EQ(Labelled({"3-99", "alpha", "3"}), (std::vector{3, 4, 1}));
  EXPECT_EQ(Run({"compare", "1-4"})["targets"].size(), 4);
  ExpectRefused({"compare", "1-3", "2"}, 2, "'2' is named twice");
}

TEST_F(TargetsTest, SaysWhichExperimentIsDeleted) {
  const CliResult result = dtrain_.Run({"delete", "last", "--yes"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("experiment 4 is deleted"));
  EXPECT_EQ(Run({"describe", "last"})["id"], 3);
}

TEST_F(TargetsTest, TakesThePlaceOfACheckpoint) {
  const StoreLayout layout(dtrain_.store());
  const auto best = AddCheckpoint(layout, {4, 1}, 50, 'b');
  const auto latest = AddCheckpoint(layout, {4, 1}, 100, 'd');
  EXPECT_EQ(Run({"checkpoint", "show", "4.1"})["uuid"], best);
  EXPECT_EQ(Run({"checkpoint", "show", "last.1", "--latest"})["uuid"], latest);
  EXPECT_EQ(Run({"checkpoint", "show", "alpha"})["trial"], "1.2");
  EXPECT_EQ(Run({"checkpoint", "verify", "delta"})["checkpoints"].size(), 2);
  ExpectRefused({"checkpoint", "show", "4.2"}, 3,
                "trial 4.2 has no checkpoint; 'dtrain checkpoints 4' lists");
  ExpectRefused({"checkpoint", "show", best.substr(0, 8), "--latest"}, 2,
                "--latest: requires a trial");
  ExpectRefused({"checkpoint", "delete", "4.1"}, 2,
                "'4.1' is trial 4.1, but this command takes only checkpoint "
                "IDs; 'dtrain checkpoints 4.1' lists them");
  ExpectRefused({"checkpoint", "show", "gama"}, 3, "did you mean 'gamma'?");
  ExpectRefused({"checkpoint", "delete", "gama"}, 3,
                "checkpoint 'gama' is not in store");
}

}  // namespace
}  // namespace dtrain
