// --disk-wait of each command that runs trials, on a disk that is full: a
// program whose checkpoints do not fit there, and that would wait ten minutes.

#include <filesystem>

#include <gtest/gtest.h>

#include "tests/support/cli_runner.h"
#include "tests/support/mounting.h"

namespace dtrain {
namespace {

TEST(DiskWaitTest, PausesEveryCommandThatRunsTrials) {
  const CliRunner dtrain;
  SKIP_WHERE_MOUNTING_IS_FORBIDDEN(dtrain);
  std::filesystem::create_directory(dtrain.directory() / "program");
  dtrain.Write("program/train.sh",
               "bytes=100; [ -e $HOME/full ] && bytes=3000000\n"
               "for i in 1 2 3 4 5 6 7 8; do\n"
               "  c=$HOME/$i; mkdir -p $c\n"
               "  head -c $bytes /dev/zero >$c/model\n"
               "  echo '{\"type\": \"checkpoint\", \"batches\": '$i', "
               "\"path\": \"'$c'\"}' >&3\n"
               "  echo '{\"type\": \"validation\", \"batches\": '$i', "
               "\"metrics\": {\"loss\": 1}}' >&3\n"
               "  sleep 0.1\n"
               "done\n");
  dtrain.Write("program/program.yaml",
               "entrypoint: [bash, train.sh]\n"
               "searcher: {name: single, metric: loss, max_length: 8}\n"
               "max_restarts: 0\nresources: {slots: cpu}\n");
  const CliResult result = RunInOwnMounts(dtrain, R"(
mkdir disk && mount -t tmpfs -o size=24m tmpfs disk
export DTRAIN_STORE=$PWD/disk/store
dtrain -q create program/program.yaml >&2 || exit
dd if=/dev/zero of=disk/ballast bs=1k count=$(($(df -k --output=avail disk | tail -1) - 1500)) 2>/dev/null
touch full
for command in 'create program/program.yaml' 'resume 2' 'continue 1.1' 'reproduce 1.1'; do
  dtrain -q $command --disk-wait 200ms >&2; echo "$command $?"
done
)");
  EXPECT_EQ(result.out,
            "create program/program.yaml 5\nresume 2 5\ncontinue 1.1 5\n"
            "reproduce 1.1 5\n")
      << result.err;
}

}  // namespace
}  // namespace dtrain
