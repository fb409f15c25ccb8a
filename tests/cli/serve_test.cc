// The command line of `dtrain serve`; its HTTP is tested by
// tests/serve/serve_test.py.

#include <gmock/gmock.h>

#include "cli/commands.h"
#include "tests/support/cli_runner.h"

namespace dtrain {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;
using testing::Not;

class ServeTest : public testing::Test {
 protected:
  // Runs `dtrain serve` until it serves, then interrupts it.
  CliResult Serve(std::vector<std::string> arguments,
                  const CliCall& call = {.signal_when = "serving store"}) {
    arguments.insert(arguments.begin(), "serve");
    return dtrain_.Run(arguments, call);
  }

  CliRunner dtrain_;
};

TEST_F(ServeTest, PrintsTheAddressAndEndsOnASignal) {
  const CliResult result = Serve({"--port", "0"});
  EXPECT_EQ(result.code, 130) << result.err;
  EXPECT_THAT(result.out,
              MatchesRegex("http://127\\.0\\.0\\.1:[0-9]+/#token=[0-9a-f]+\n"));
  EXPECT_THAT(result.err, HasSubstr("read-only; Ctrl-C ends it"));
}

TEST_F(ServeTest, ListensForThisMachineOnly) {
  for (const char* place : {"0.0.0.0:7878", "192.168.0.7:7878", ":::7878"}) {
    const CliResult result = Serve({"--port", place}, {});
    EXPECT_EQ(result.code, kExitUsage);
    EXPECT_THAT(result.err, HasSubstr("ssh -L 7878:127.0.0.1:7878"));
    EXPECT_THAT(result.out, IsEmpty());
  }
  for (const char* place : {"x", "70000", "", "-1", "1.5", "localhost:"}) {
    EXPECT_EQ(Serve({"--port", place}, {}).code, kExitUsage) << place;
  }
}

TEST_F(ServeTest, ReportsAPortInUse) {
  const CliResult result = dtrain_.RunProgram(
      {"bash", "-c",
       "dtrain serve --port 0 > address & for i in {1..600}; do sleep 0.1; "
       "[ -s address ] && break; done; port=$(grep -o ':[0-9]*/' address | "
       "tr -d :/); dtrain serve --port $port; code=$?; kill $!; exit $code"});
  EXPECT_EQ(result.code, kExitResources) << result.err;
  EXPECT_THAT(result.err, HasSubstr("127.0.0.1:"));
}

TEST_F(ServeTest, AUnixSocketIsRemovedAtTheEnd) {
  const CliResult result = Serve({"--socket", "page.sock"});
  EXPECT_EQ(result.code, 130) << result.err;
  EXPECT_THAT(result.err, HasSubstr("page.sock THIS-MACHINE"));
  EXPECT_FALSE(std::filesystem::exists(dtrain_.directory() / "page.sock"));
}

TEST_F(ServeTest, SaysIfThePageMayControl) {
  EXPECT_THAT(Serve({"--port", "0", "--control"}).err,
              HasSubstr("with --control"));
}

TEST_F(ServeTest, OpensTheAddressInABrowser) {
  std::filesystem::create_directory(dtrain_.directory() / "bin");
  dtrain_.Write("bin/xdg-open", "#!/bin/sh\necho \"$1\" > opened\n");
  const CliResult result = dtrain_.RunProgram(
      {"bash", "-c",
       "chmod +x bin/xdg-open; PATH=$PWD/bin:$PATH dtrain serve --port 0 "
       "--open > address & for i in {1..600}; do sleep 0.1; [ -s opened ] && "
       "break; done; kill $!; cmp address opened"});
  EXPECT_EQ(result.code, 0) << result.err;
}

TEST_F(ServeTest, WarnsIfThereIsNoBrowser) {
  const CliResult result = dtrain_.RunProgram(
      {"bash", "-c",
       "dtrain=$(command -v dtrain); PATH=/nowhere $dtrain serve --port 0 "
       "--open 2>err & for i in {1..600}; do sleep 0.1; grep -q xdg-open err "
       "&& break; done; kill $!; wait $!; code=$?; cat err >&2; exit $code"});
  EXPECT_EQ(result.code, 143) << result.err;
  EXPECT_THAT(result.err, HasSubstr("no xdg-open"));
  EXPECT_THAT(result.err, Not(HasSubstr("error:")));
}

}  // namespace
}  // namespace dtrain
