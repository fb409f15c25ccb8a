// Limits of the system that a run meets: descriptors, processes, memory, the
// size of a file.

#include <gmock/gmock.h>

#include "tests/support/fault_run.h"

namespace dtrain {
namespace {

using nlohmann::json;
using testing::AnyOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class LimitsTest : public FaultRun {
 protected:
  CliResult CreateUnder(const std::string& limit,
                        const std::string& yaml) const {
    dtrain_.Write("fault.yaml", yaml);
    return Shell("chmod 777 .; exec " + limit + " dtrain create fault.yaml");
  }
  // One line that says why, nothing of C++, and nobody left behind.
  void ExpectCleanEnd(const CliResult& result, const std::string& why) const {
    EXPECT_GT(result.code, 0);
    EXPECT_LT(result.code, 128) << "died of a signal";
    EXPECT_THAT(result.err, HasSubstr(why));
    EXPECT_THAT(result.err, HasSubstr("dtrain: error: "));
    EXPECT_THAT(Processes(), IsEmpty());
  }
  // No trial is to blame, so none has failed.
  void ExpectPausedForWantOfIt(const CliResult& result) const {
    EXPECT_EQ(result.code, 6);
    EXPECT_EQ(State(), "PAUSED");
    EXPECT_EQ(Trial().at("restarts"), 0);
  }
  static const char* Nobody() {
    return "setpriv --reuid=65534 --regid=65534 --clear-groups ";
  }
};

TEST_F(LimitsTest, TooFewDescriptorsForTheSlots) {
  const CliResult result =
      CreateUnder("prlimit --nofile=12", FaultYaml("", 40));
  ExpectCleanEnd(result, "Too many open files");
  ExpectResumes();
}

TEST_F(LimitsTest, TooFewDescriptorsForATrial) {
  const CliResult result =
      CreateUnder("prlimit --nofile=22", FaultYaml("", 40));
  ExpectCleanEnd(result, "Too many open files");
  ExpectPausedForWantOfIt(result);
  ExpectResumes();
}

TEST_F(LimitsTest, FewDescriptorsAreEnough) {
  EXPECT_EQ(CreateUnder("prlimit --nofile=40", FaultYaml("", 40)).code, 0);
}

TEST_F(LimitsTest, NoMoreProcesses) {
  if (geteuid() != 0) GTEST_SKIP() << "only root may become another user";
  const CliResult result = CreateUnder(
      std::string(Nobody()) + "prlimit --nproc=1", FaultYaml("", 40));
  ExpectCleanEnd(result, "Resource temporarily unavailable");
  ExpectPausedForWantOfIt(result);
}

TEST_F(LimitsTest, TooLittleMemoryForTheTrialHost) {
  const CliResult result =
      CreateUnder("prlimit --as=200000000", FaultYaml("", 40));
  ExpectCleanEnd(result, "cannot start trial 1.1");
  ExpectPausedForWantOfIt(result);
  ExpectResumes();
}

TEST_F(LimitsTest, TrialThatRunsOutOfMemoryFailsWithoutABacktrace) {
  const CliResult result =
      CreateUnder("prlimit --as=8000000000", FaultYaml("rss_mb: 8000", 40));
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(Trial().at("state"), "ERROR");
  EXPECT_THAT(Trial().at("reason").get<std::string>(),
              AnyOf(HasSubstr("bad_alloc"), HasSubstr("memory")));
  EXPECT_THAT(result.err, Not(HasSubstr("terminate called")));
}

TEST_F(LimitsTest, FilesTooSmallForTheStore) {
  const CliResult result =
      CreateUnder("prlimit --fsize=20000", FaultYaml("", 40));
  EXPECT_EQ(result.code, 5) << result.err;
  EXPECT_EQ(Run({"list", "--json"}).Json().at("experiments"), json::array());
}

TEST_F(LimitsTest, FilesTooSmallForACheckpoint) {
  const CliResult result =
      CreateUnder("prlimit --fsize=900000", FaultYaml("ckpt_mb: 1", 40));
  ExpectCleanEnd(result, "File too large");
  EXPECT_EQ(Run({"checkpoints", "1", "--json"}).Json().at("checkpoints"),
            json::array());
  EXPECT_EQ(Shell("find store -name '*.tmp'").out, "");
}

}  // namespace
}  // namespace dtrain
