// Clocks that are wrong, and clocks that jump: faketime, only the wall clock.

#include <gmock/gmock.h>

#include "tests/support/fault_run.h"

namespace dtrain {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

class ClockJumpTest : public FaultRun,
                      public testing::WithParamInterface<const char*> {
 protected:
  // `script` with the wall clock shifted by the file `clock`, read again at
  // each look; it says "+0" at first.
  CliResult WithFalseClock(const std::string& script) const {
    return Shell(
        "for f in /usr/lib/*/faketime/libfaketime.so.1; do [ -e $f ] || exit "
        "77; done; export FAKETIME_TIMESTAMP_FILE=$PWD/clock "
        "FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1; [ -e clock ] || "
        "echo +0 >clock; false_dtrain() { LD_PRELOAD=$f dtrain \"$@\"; }; " +
        script);
  }
  void ExpectSoundTimes() const {
    const json experiment = Run({"describe", "1", "--json"}).Json();
    EXPECT_EQ(experiment.at("state"), "COMPLETED");
    EXPECT_GT(experiment.at("duration"), 0);
    EXPECT_LT(experiment.at("duration"), 100);
    EXPECT_GT(Trial().at("duration"), 0);
    EXPECT_LT(Trial().at("duration"), 100);
    EXPECT_EQ(Trial().at("restarts"), 0);
  }

  static constexpr int kNoFaketime = 77;
};

TEST_P(ClockJumpTest, JumpInARunChangesNothingButTimes) {
  dtrain_.Write("fault.yaml",
                FaultYaml("step_ms: 10", 150, "hang_timeout: 5s\n"));
  const CliResult result = WithFalseClock(
      "false_dtrain create fault.yaml 2>err & until grep -q 'batch 40' err; do "
      "sleep 0.02; done; echo '" +
      std::string(GetParam()) +
      "' >clock; dtrain list --json >list; wait $!; echo code $?");
  if (result.code == kNoFaketime) GTEST_SKIP() << "faketime is not there";

  EXPECT_THAT(result.out, HasSubstr("code 0\n"));
  ExpectSoundTimes();
  EXPECT_EQ(Values("training", "loss").size(), 15);
  EXPECT_THAT(Shell("cat list").out, Not(HasSubstr("\"duration\": -")));
}

// A list that is looked at on the day before must not count backwards.
TEST_P(ClockJumpTest, ResumesAfterAClockJump) {
  dtrain_.Write("fault.yaml", FaultYaml("step_ms: 10", 150));
  const CliResult result = WithFalseClock(
      "echo '" + std::string(GetParam()) +
      "' >clock; false_dtrain create fault.yaml -q --timeout 600ms; echo "
      "paused $?; dtrain list --json; echo +0 >clock; false_dtrain resume 1 "
      "-q; echo resumed $?; dtrain list --json");
  if (result.code == kNoFaketime) GTEST_SKIP() << "faketime is not there";

  EXPECT_THAT(result.out, HasSubstr("paused 124\n"));
  EXPECT_THAT(result.out, HasSubstr("resumed 0\n"));
  EXPECT_THAT(result.out, Not(HasSubstr("\"duration\": -")));
  ExpectSoundTimes();
}

INSTANTIATE_TEST_SUITE_P(Jumps, ClockJumpTest,
                         testing::Values("+86400", "-86400",
                                         "@2038-01-19 03:14:06"));

}  // namespace
}  // namespace dtrain
