// The page of `dtrain serve` without a browser: its answers to requests, on the
// sample store.

#include "engine/app/live_page.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/serve/web_server.h"
#include "tests/support/sample_store.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

class LivePageTest : public testing::Test {
 protected:
  LivePageTest() { FillSampleStore(layout_.root()); }

  WebReply Ask(const std::string& path, const std::string& query = "",
               const std::string& body = "") {
    WebRequest request{.method = body.empty() ? "GET" : "POST",
                       .path = path,
                       .query = query,
                       .hosts = {"localhost"},
                       .authorization = "Bearer secret",
                       .content_type = body.empty() ? "" : "application/json",
                       .body = body};
    const auto reply = page_->Answer(server_, /*exchange=*/1, request);
    EXPECT_TRUE(reply.has_value());
    return reply.value_or(WebReply{.status = 0});
  }
  void Open(bool control) {
    page_.emplace(layout_, WebRules{.token = "secret", .control = control},
                  globals_);
  }

  const TemporaryDirectory directory_;
  const StoreLayout layout_{directory_.path() / "store"};
  const GlobalOptions globals_{.color = ColorChoice::kNever,
                               .write_notice = IgnoreNotice};
  WebServer server_{ListenOnSocket(directory_.path() / "socket"),
                    [](std::uint64_t, const WebRequest&) {
                      return std::optional(WebReply());
                    }};
  std::optional<LivePage> page_;
};

TEST_F(LivePageTest, AnswersByThePath) {
  Open(/*control=*/false);
  struct Row {
    const char* path;
    const char* query;
    int status;
  };
  for (const Row& row :
       {Row{"/", "", 200}, Row{"/api/experiments", "", 200},
        Row{"/api/experiment/1", "", 200}, Row{"/api/experiment/99", "", 404},
        Row{"/api/experiment/1/metrics", "", 200},
        Row{"/api/experiment/1/metrics", "from=1:2", 400},
        Row{"/api/experiment/1/metrics", "from=0:7:0", 400},
        Row{"/api/experiment/1/changes", "", 400},
        Row{"/api/experiment/1/changes", "since=1&known=x", 400},
        Row{"/api/experiment/1/other", "", 404},
        Row{"/api/experiment/0", "", 404}, Row{"/api/experiment/1x", "", 404},
        Row{"/nowhere", "", 404}}) {
    EXPECT_EQ(Ask(row.path, row.query).status, row.status) << row.path;
  }
}

TEST_F(LivePageTest, ListsTheExperimentsAsTheyAreNow) {
  Open(/*control=*/false);
  const auto names = [this] {
    std::vector<std::string> found;
    const json list = json::parse(Ask("/api/experiments").body);
    for (const json& row : list.at("experiments")) {
      found.push_back(row.at("name").get<std::string>());
    }
    std::ranges::sort(found);
    return found;
  };
  const auto before = names();
  EXPECT_THAT(before, testing::Contains("alpha"));
  AddAccuracySearch(layout_.root());
  const auto after = names();
  EXPECT_EQ(after.size(), before.size() + 1);
  EXPECT_THAT(after, testing::Contains("delta"));
}

TEST_F(LivePageTest, AStreamBeginsWithAllExperiments) {
  Open(/*control=*/false);
  const WebReply reply = Ask("/api/events");
  EXPECT_TRUE(reply.stream);
  EXPECT_EQ(reply.type, "text/event-stream");
  EXPECT_THAT(reply.body, StartsWith("data: {"));
  EXPECT_THAT(reply.body, HasSubstr("\"alpha\""));
}

TEST_F(LivePageTest, ControlRefusesWhatItDoesNotUnderstand) {
  Open(/*control=*/true);
  struct Row {
    const char* body;
    const char* error;
  };
  for (const Row& row :
       {Row{R"([1])", "expected an object with 'action'"},
        Row{R"({"action": "delete", "experiment": 1})", "action: expected"},
        Row{R"({"action": 3, "experiment": 1})", "action: expected a string"},
        Row{R"({"action": "kill"})", "experiment: expected a number"},
        Row{R"({"action": "kill", "experiment": 0})", "expected a number"},
        Row{R"({"action": "pause", "experiment": 1, "trial": 2})",
            "trial: only kill, note and star take a trial"},
        Row{R"({"action": "note", "experiment": 1, "text": "a\u0000"})",
            "text: has a NUL character"}}) {
    const WebReply reply = Ask("/api/control", "", row.body);
    EXPECT_EQ(reply.status, 400) << row.body;
    EXPECT_THAT(reply.body, HasSubstr(row.error)) << row.body;
  }
  Open(/*control=*/false);
  EXPECT_NE(
      Ask("/api/control", "", R"({"action": "kill", "experiment": 1})").status,
      200);
}

}  // namespace
}  // namespace dtrain
