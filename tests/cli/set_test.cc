// set: the name, the description and the slots of an experiment.

#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/text.h"
#include "tests/support/cli_runner.h"
#include "tests/support/sample_store.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

// Trials that say that they began, and end when a file with their number is
// there.
constexpr char kWaitingScript[] =
    "#!/bin/sh\n"
    "n=${1#*.}\n"
    "touch \"$HOME/began.$n\"\n"
    "until [ -e \"$HOME/end.$n\" ]; do sleep 0.02; done\n"
    "printf '{\"type\":\"validation\",\"batches\":10,\"metrics\":{\"loss\":1}}"
    "\\n' >&3\n";

constexpr char kYaml[] =
    "entrypoint: ./two.sh {trial}\n"
    "resources: {slots: 'cpu:2'}\n"
    "hyperparameters: {x: {type: categorical, vals: [1, 2, 3]}}\n"
    "searcher: {name: grid, metric: loss}\n";

class SetTest : public testing::Test {
 protected:
  SetTest() {
    FillSampleStore(dtrain_.store());
    fs::permissions(dtrain_.Write("two.sh", kWaitingScript),
                    fs::perms::owner_all);
    dtrain_.Write("two.yaml", kYaml);
  }

  CliResult Run(const std::string& words) const {
    return dtrain_.Run(Split(words, ' '));
  }
  void ExpectRefused(const std::string& words, const std::string& why) const {
    const CliResult result = Run(words);
    EXPECT_EQ(result.code, 2) << words;
    EXPECT_THAT(result.err, HasSubstr(why)) << words;
  }
  json Described(const std::string& id) const {
    return Run("describe " + id + " --json").Json();
  }

  const CliRunner dtrain_;
};

TEST_F(SetTest, RenamesAnExperiment) {
  EXPECT_THAT(dtrain_.Run({"set", "name", "1", "a new name"}).err,
              HasSubstr("experiment 1: name is now 'a new name'"));
  EXPECT_EQ(Described("1")["name"], "a new name");
  EXPECT_EQ(dtrain_.Run({"describe", "a new name", "--json"}).Json()["id"], 1);
  EXPECT_THAT(Run("config 1").out, HasSubstr("name: a new name"));
  ExpectRefused("set name 1 ", "set name: ");
  EXPECT_EQ(Run("set name 9 x").code, 3);
}

TEST_F(SetTest, ChangesTheDescription) {
  EXPECT_EQ(Run("set description 1 better --json").Json()["description"],
            "better");
  EXPECT_EQ(Described("1")["description"], "better");
}

TEST_F(SetTest, ChangesTheSlotsOfAPausedExperiment) {
  EXPECT_EQ(Run("create two.yaml --paused").code, 0);
  const CliResult result = Run("set max-slots 4 2");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("applies when the experiment is resumed"));
  EXPECT_EQ(Described("4")["config"]["resources"]["max_slots"], 2);
  EXPECT_EQ(Run("set max-slots 4 none --json").Json()["max_slots"], nullptr);
  ExpectRefused("set max-slots 4 0", "expected an integer from 1");
  ExpectRefused("set max-slots 4 many", "set max-slots: ");
  const CliResult ended = Run("set max-slots 1 2");
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.err, HasSubstr("is COMPLETED and uses no more slots"));
}

TEST_F(SetTest, ChangesTheSlotsOfARunningExperiment) {
  const std::string waits =
      "wait_for() { i=0; until eval \"$1\"; do i=$((i+1)); "
      "[ $i -lt 6000 ] || exit 9; sleep 0.02; done; }; ";
  const CliResult result = dtrain_.RunProgram(
      {"sh", "-c",
       waits + "dtrain create two.yaml -d; "
               "wait_for '[ -e began.1 ] && [ -e began.2 ]'; "
               "dtrain set max-slots 4 1; "
               "wait_for 'grep -q \"at most 1 slot\" "
               "store/experiments/4/runner.log'; "
               "touch end.1; "
               "wait_for 'dtrain trials 4 --csv | grep -q ^4.1,COMPLETED'; "
               // Time in which the third would begin.
               "for i in 1 2 3 4 5 6 7 8 9 10; do dtrain trials 4; done; "
               "[ ! -e began.3 ] || touch early; "
               "dtrain set max-slots 4 none; "
               "wait_for '[ -e began.3 ]'; "
               "touch end.2 end.3; dtrain -q wait 4"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_FALSE(fs::exists(dtrain_.directory() / "early"));
}

}  // namespace
}  // namespace dtrain
