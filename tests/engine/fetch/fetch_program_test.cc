// The two processes of a fetch; DataTest and DataMirrorTest of tests/cli fetch
// through them.
#include "engine/fetch/fetch_program.h"

#include <chrono>
#include <csignal>

#include "engine/base/error.h"
#include "tests/engine/fetch/fetch_support.h"
#include "tests/support/http_server.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::ThrowsMessage;

class FetchProgramTest : public testing::Test {
 protected:
  FetchProgramTest() { std::signal(SIGPIPE, SIG_IGN); }
  ~FetchProgramTest() override { std::signal(SIGPIPE, SIG_DFL); }

  FetchOptions Options(const fs::path& place) const {
    return {.places = {place}, .from = "file:///no/such/mirror"};
  }

  const TemporaryDirectory directory_;
};

TEST_F(FetchProgramTest, ThrowsTheErrorOfTheProgram) {
  try {
    FetchInProgram(MadeUpSet().set, Options(directory_.path()));
    FAIL() << "the program does not know the set";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("unknown data set 'made-up'"));
  }
}

TEST_F(FetchProgramTest, StopsTheProgram) {
  const HttpServer server([](const HttpRequest&) {
    return HttpAnswer{.body = std::string(50'000, 'x'),
                      .length = 9'912'422,
                      .trickle = std::chrono::milliseconds(20)};
  });
  bool arrived = false;
  FetchOptions options = Options(directory_.path());
  options.from = server.address();
  options.progress = [&](const FetchProgress& progress) {
    arrived = progress.bytes > 0;
  };
  options.stop = [&] { return arrived; };
  EXPECT_EQ(FetchInProgram(FindDataSet("mnist"), options).end,
            FetchResult::End::kStopped);
  EXPECT_TRUE(fs::exists(directory_.path() / ".mnist.partial"));
}

// Without a shell between them, a path needs no quoting.
TEST_F(FetchProgramTest, PassesPathsUnchanged) {
  EXPECT_THAT(
      [&] {
        FetchInProgram(FindDataSet("mnist"),
                       Options(directory_.path() / "a 'b\" $c"));
      },
      ThrowsMessage<Error>(HasSubstr("file:///no/such/mirror")));
  EXPECT_TRUE(fs::exists(directory_.path() / "a 'b\" $c"));
}

}  // namespace
}  // namespace dtrain
