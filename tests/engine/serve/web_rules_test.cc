#include "engine/serve/web_rules.h"

#include <gmock/gmock.h>

namespace dtrain {
namespace {

using testing::HasSubstr;

const WebRules kRules = {.token = "0123456789abcdef0123456789abcdef"};

WebRequest Allowed() {
  return {.method = "GET",
          .path = "/api/experiments",
          .hosts = {"localhost:7878"},
          .authorization = "Bearer " + kRules.token};
}

// The status of a refusal; 200 if it is answered.
int CheckStatus(const WebRequest& request, PathClass path = PathClass::kData,
                const WebRules& rules = kRules) {
  const auto refusal = Refusal(request, path, rules);
  return refusal ? refusal->status : 200;
}

TEST(WebRulesTest, AnswersARequestOfThisMachineWithTheToken) {
  EXPECT_EQ(CheckStatus(Allowed()), 200);
}

TEST(WebRulesTest, MisdirectsForeignHosts) {
  WebRequest request = Allowed();
  request.hosts = {"evil.example:7878"};
  EXPECT_EQ(CheckStatus(request), 421);
  request.hosts = {"localhost.evil.example"};
  EXPECT_EQ(CheckStatus(request), 421);
  request.hosts = {};
  EXPECT_EQ(CheckStatus(request), 421);
  request.hosts = {"localhost", "localhost"};
  EXPECT_EQ(CheckStatus(request), 421);
  request.hosts = {"[::1]:9000"};
  EXPECT_EQ(CheckStatus(request), 200);
}

TEST(WebRulesTest, RefusesForeignSites) {
  WebRequest request = Allowed();
  request.origin = "http://evil.example";
  EXPECT_EQ(CheckStatus(request), 403);
  request.origin = "http://localhost:7878";
  EXPECT_EQ(CheckStatus(request), 200);
  request.fetch_site = "cross-site";
  EXPECT_EQ(CheckStatus(request), 403);
  EXPECT_EQ(CheckStatus(request, PathClass::kPage), 403);
  request.fetch_site = "same-site";
  EXPECT_EQ(CheckStatus(request), 403);
  EXPECT_EQ(CheckStatus(request, PathClass::kPage), 200);
}

TEST(WebRulesTest, NeedsTheTokenForDataOnly) {
  WebRequest request = Allowed();
  request.authorization.reset();
  EXPECT_EQ(CheckStatus(request), 401);
  EXPECT_EQ(CheckStatus(request, PathClass::kPage), 200);
  request.authorization = kRules.token;
  EXPECT_EQ(CheckStatus(request), 401);
}

TEST(WebRulesTest, ChecksTheHostBeforeAnythingElse) {
  WebRequest request = Allowed();
  request.hosts = {"evil.example"};
  request.method = "POST";
  request.authorization.reset();
  EXPECT_EQ(CheckStatus(request, PathClass::kUnknown), 421);
}

TEST(WebRulesTest, ChangesNothingWithoutControl) {
  WebRequest request = Allowed();
  request.method = "POST";
  request.content_type = "application/json; charset=utf-8";
  EXPECT_EQ(CheckStatus(request, PathClass::kControl), 405);
  EXPECT_EQ(CheckStatus(request, PathClass::kData), 405);
  WebRules control = kRules;
  control.control = true;
  EXPECT_EQ(CheckStatus(request, PathClass::kControl, control), 200);
  EXPECT_EQ(CheckStatus(request, PathClass::kData, control), 405);
  request.content_type = "text/plain";
  EXPECT_EQ(CheckStatus(request, PathClass::kControl, control), 415);
}

TEST(WebRulesTest, ReadsValuesOfAQuery) {
  EXPECT_EQ(QueryValue("from=3&after=7", "after"), "7");
  EXPECT_EQ(QueryValue("from=", "from"), "");
  EXPECT_EQ(QueryValue("fromm=3", "from"), std::nullopt);
  EXPECT_EQ(QueryValue("", "from"), std::nullopt);
}

TEST(WebRulesTest, TokensHave128BitsAndDiffer) {
  EXPECT_EQ(NewToken().size(), 32);
  EXPECT_NE(NewToken(), NewToken());
}

TEST(WebRulesTest, AllowsNoOtherOrigin) {
  for (const auto& [name, value] : SecurityHeaders()) {
    EXPECT_FALSE(name.starts_with("Access-Control"));
    if (name == "Content-Security-Policy") {
      EXPECT_THAT(value, HasSubstr("default-src 'none'"));
    }
  }
}

}  // namespace
}  // namespace dtrain
