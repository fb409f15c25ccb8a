// `dtrain tensorboard` through the binary. tests/tensorboard/read_back.py reads
// its files with the real package.

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cli_runner.h"

namespace dtrain {
namespace {

using testing::HasSubstr;

class TensorboardTest : public testing::Test {
 protected:
  // A trial that reports its second validation once there is a file `go`.
  TensorboardTest() {
    dtrain_.Write(
        "train.sh",
        "report() { echo '{\"type\": \"validation\", \"batches\": '$1', "
        "\"metrics\": {\"loss\": 1}}' >&3; }\n"
        "report 1\n"
        "until [ -e \"$GO\" ]; do sleep 0.02; done\n"
        "report 2\n");
    dtrain_.Write("program.yaml",
                  "name: program\nentrypoint: [sh, train.sh]\n"
                  "searcher: {name: single, metric: loss, max_length: 2}\n"
                  "min_validation_period: 1\nmax_restarts: 0\n"
                  "resources: {slots: cpu}\n");
  }

  // Runs a script while the trial waits.
  CliResult Run(const std::string& script) const {
    return dtrain_.RunProgram({"sh", "-c", R"sh(
set=environment.environment_variables.GO=$PWD/go
dtrain create program.yaml -d -q --set $set >/dev/null
until [ "$(dtrain metrics 1 --csv | wc -l)" = 2 ]; do sleep 0.02; done
)sh" + script});
  }

  CliRunner dtrain_;
};

TEST_F(TensorboardTest, FollowsAnExperimentUntilItsEnd) {
  const CliResult result = Run(R"sh(
dtrain tensorboard 1 --follow & follower=$!
until [ -e tensorboard/dtrain-export.json ]; do sleep 0.02; done
touch go
wait $follower; echo "follower $?"
dtrain tensorboard 1
)sh");
  EXPECT_EQ(result.out, "follower 0\n") << result.err;
  EXPECT_THAT(result.err, HasSubstr("wrote 1 value of 1 trial to"));
  EXPECT_THAT(result.err, HasSubstr("wrote 0 values of 0 trials"));
}

// A killed export has written more to a trial's file than it recorded.
TEST_F(TensorboardTest, RemovesWhatAKilledExportWrote) {
  const CliResult result = Run(R"sh(
dtrain tensorboard 1
head -c 5000 /dev/urandom | tee -a tensorboard/1.1/events* >/dev/null
touch go
dtrain wait 1
dtrain tensorboard 1
dtrain tensorboard 1 --out whole
cmp tensorboard/1.1/events* whole/1.1/events* && echo equal
)sh");
  EXPECT_EQ(result.out, "equal\n") << result.err;
}

}  // namespace
}  // namespace dtrain
