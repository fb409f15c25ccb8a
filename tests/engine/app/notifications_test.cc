#include "engine/app/notifications.h"

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/text.h"
#include "engine/config/experiment_config.h"
#include "engine/os/files.h"
#include "engine/os/sha256.h"
#include "engine/store/rows.h"
#include "tests/support/http_server.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr DeliveryLimits kShort{.attempt = std::chrono::seconds(20),
                                .pause = milliseconds(1)};

NotificationRow Message(const std::string& target) {
  return {.uuid = "0b1c",
          .event = "completed",
          .target = target,
          .body = {{"id", "0b1c"},
                   {"event", "completed"},
                   {"text", "experiment 1 'a<b>&c' is COMPLETED"}}};
}

// Each server and what becomes of a message to it.
struct ServerCase {
  std::string name;
  std::vector<std::string> statuses;  // of its answers; the last one repeats
  std::vector<std::string> headers;
  std::int64_t attempts = 1;
  std::string error;
};

class DeliverToServerTest : public testing::TestWithParam<ServerCase> {};

TEST_P(DeliverToServerTest, AttemptsAsTheAnswersAllow) {
  std::atomic<std::size_t> count = 0;
  HttpServer server([&](const HttpRequest&) {
    const auto& statuses = GetParam().statuses;
    const std::size_t at = std::min(count++, statuses.size() - 1);
    return HttpAnswer{.status = statuses[at], .headers = GetParam().headers};
  });
  NotificationRow row = Message("url");

  Deliver({.url = server.address() + "/hook?key=1"}, row, kShort);

  EXPECT_EQ(row.error, GetParam().error);
  EXPECT_EQ(row.attempts, GetParam().attempts);
  EXPECT_TRUE(row.ended.has_value());
  EXPECT_EQ(std::ssize(server.Requests()), GetParam().attempts);
}

INSTANTIATE_TEST_SUITE_P(
    Servers, DeliverToServerTest,
    testing::Values(
        ServerCase{"accepts", {"200 OK"}},
        ServerCase{"accepts_without_content", {"204 No Content"}},
        ServerCase{"recovers", {"500 Internal Server Error", "200 OK"}, {}, 2},
        ServerCase{"stays_broken",
                   {"503 Service Unavailable"},
                   {},
                   3,
                   "the server answers 503"},
        ServerCase{
            "asks_for_patience", {"429 Too Many Requests", "200 OK"}, {}, 2},
        ServerCase{
            "refuses", {"404 Not Found"}, {}, 1, "the server answers 404"},
        ServerCase{"redirects",
                   {"302 Found", "200 OK"},
                   {"Location: /elsewhere"},
                   1,
                   "the server answers 302, a redirect, which is not "
                   "followed"}),
    [](const auto& info) { return info.param.name; });

TEST(DeliverTest, GivesUpAServerThatNeverAnswers) {
  HttpServer server([](const HttpRequest&) {
    return HttpAnswer{.length = 100, .stall = std::chrono::minutes(5)};
  });
  NotificationRow row = Message("url");

  Deliver({.url = server.address()}, row,
          {.attempt = milliseconds(50), .pause = milliseconds(1)});

  EXPECT_EQ(row.attempts, 3);
  EXPECT_THAT(row.error, HasSubstr("timed out"));
}

TEST(DeliverTest, SignsTimeAndBody) {
  HttpServer server([](const HttpRequest&) { return HttpAnswer{}; });
  ::setenv("DTRAIN_TEST_SECRET", "Jefe", 1);
  ::setenv("DTRAIN_TEST_URL", (server.address() + "/x").c_str(), 1);
  NotificationRow row = Message("url");

  Deliver({.url_env = "DTRAIN_TEST_URL", .secret_env = "DTRAIN_TEST_SECRET"},
          row, kShort);

  ASSERT_EQ(server.Requests().size(), 1u);
  const HttpRequest request = server.Requests().front();
  EXPECT_EQ(request.path, "/x");
  EXPECT_EQ(request.Header("X-Dtrain-Id"), "0b1c");
  EXPECT_EQ(request.Header("Content-Type"), "application/json");
  EXPECT_EQ(nlohmann::json::parse(request.body), row.body);
  const auto signature = [&](const std::string& key, const std::string& body) {
    const std::string bytes =
        HmacSha256(key, {request.Header("X-Dtrain-Timestamp"), ".", body});
    return "sha256=" + ToHex(std::as_bytes(std::span(bytes)));
  };
  const std::string sent = request.Header("X-Dtrain-Signature");
  EXPECT_EQ(sent, signature("Jefe", request.body));
  EXPECT_NE(sent, signature("jefe", request.body));
  EXPECT_NE(sent, signature("Jefe", request.body + " "));
}

TEST(DeliverTest, WritesTextForSlack) {
  HttpServer server([](const HttpRequest&) { return HttpAnswer{}; });
  NotificationRow row = Message("url");

  Deliver({.url = server.address(), .slack = true}, row, kShort);

  EXPECT_EQ(server.Requests().front().body,
            R"({"text":"experiment 1 'a&lt;b&gt;&amp;c' is COMPLETED"})");
  EXPECT_EQ(server.Requests().front().Header("X-Dtrain-Signature"), "");
}

TEST(DeliverTest, DoesNotSendWithoutItsVariables) {
  NotificationRow row = Message("url");

  Deliver({.url_env = "DTRAIN_TEST_UNSET"}, row, kShort);

  EXPECT_EQ(row.error, "environment variable DTRAIN_TEST_UNSET is not set");
  EXPECT_EQ(row.attempts, 1);
}

TEST(DeliverTest, SendsToNothingButTheWeb) {
  const TemporaryDirectory directory;
  std::ofstream(directory.path() / "file") << "x";
  ::setenv("DTRAIN_TEST_URL",
           ("file://" + (directory.path() / "file").string()).c_str(), 1);
  NotificationRow row = Message("url");

  Deliver({.url_env = "DTRAIN_TEST_URL"}, row, kShort);

  EXPECT_EQ(row.error, "is not an address of http or https");
}

// Each command and what becomes of a message to it.
struct CommandCase {
  std::string name;
  std::string script;
  std::int64_t attempts = 1;
  std::string error;
};

class DeliverToCommandTest : public testing::TestWithParam<CommandCase> {};

TEST_P(DeliverToCommandTest, AttemptsUntilItSucceeds) {
  const TemporaryDirectory directory;
  const std::string calls = (directory.path() / "calls").string();
  NotificationRow row = Message("command");

  Deliver({.command = {"sh", "-c", GetParam().script, "sh", calls}}, row,
          kShort);

  EXPECT_EQ(row.error, GetParam().error);
  EXPECT_EQ(row.attempts, GetParam().attempts);
}

INSTANTIATE_TEST_SUITE_P(
    Commands, DeliverToCommandTest,
    testing::Values(CommandCase{"reads_json", R"(grep -q '"id":"0b1c"')"},
                    CommandCase{"ignores_it", "exit 0"},
                    CommandCase{"recovers",
                                R"(echo >> "$1"; test $(wc -l < "$1") = 2)", 2},
                    CommandCase{"fails", "echo no route >&2; exit 3", 3,
                                "exited with code 3: no route"},
                    CommandCase{"is_killed", "kill -9 $$", 3,
                                "killed by signal 9 (SIGKILL)"}),
    [](const auto& info) { return info.param.name; });

TEST(DeliverTest, CommandFindsTheSignatureInItsEnvironment) {
  const TemporaryDirectory directory;
  const std::string file = (directory.path() / "signature").string();
  ::setenv("DTRAIN_TEST_SECRET", "Jefe", 1);
  NotificationRow row = Message("command");

  Deliver({.command = {"sh", "-c",
                       "read -r body; printf \"$DTRAIN_NOTIFY_TIMESTAMP\\n"
                       "$DTRAIN_NOTIFY_SIGNATURE\" > \"$0\"",
                       file},
           .secret_env = "DTRAIN_TEST_SECRET"},
          row, kShort);

  std::ifstream in(file);
  std::string time, signature;
  in >> time >> signature;
  const std::string bytes = HmacSha256("Jefe", {time, ".", row.body.dump()});
  EXPECT_EQ(signature, "sha256=" + ToHex(std::as_bytes(std::span(bytes))));
}

TEST(DeliverTest, CommandIsKilledAtItsLimit) {
  NotificationRow row = Message("command");

  Deliver({.command = {"sleep", "1000"}}, row,
          {.attempt = milliseconds(20), .attempts = 1});

  EXPECT_THAT(row.error, HasSubstr("was killed after"));
}

TEST(DeliverTest, WordsAreNotRunByAShell) {
  const TemporaryDirectory directory;
  const std::string file = (directory.path() / "made").string();
  NotificationRow row = Message("command");

  Deliver({.command = {"true; touch " + file}}, row,
          {.attempts = 1, .pause = milliseconds(1)});

  EXPECT_EQ(row.error, "cannot be started: No such file or directory");
  EXPECT_FALSE(std::filesystem::exists(file));
}

}  // namespace
}  // namespace dtrain
