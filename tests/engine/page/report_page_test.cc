#include "engine/page/report_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/page/bundle.h"

namespace dtrain {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(EscapeHtmlTest, EscapesWhatHasAMeaning) {
  EXPECT_EQ(EscapeHtml("</script><img src=\"x\"> & co"),
            "&lt;/script&gt;&lt;img src=&quot;x&quot;&gt; &amp; co");
  EXPECT_EQ(EscapeHtml(std::string("a\0b\xFF", 4)),
            "a\xEF\xBF\xBD"
            "b\xEF\xBF\xBD");
}

class ReportHtmlTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!HasPage()) GTEST_SKIP() << "this build has no page";
  }
};

TEST_F(ReportHtmlTest, ContainsTheDataAndEscapesTheTitle) {
  const std::string bundle = Bundle().Finish({{"a", "</script>"}});
  const std::string html = ReportHtml({.title = "<b>@data@"}, bundle);
  EXPECT_THAT(html, HasSubstr(Base64(Gzip(bundle))));
  EXPECT_THAT(html, HasSubstr("<title>&lt;b&gt;@data@</title>"));
  EXPECT_THAT(html, Not(HasSubstr("<b>")));
}

TEST_F(ReportHtmlTest, AllowsItsOwnScriptAndNothingElse) {
  const std::string html = ReportHtml({.title = "t"}, "");
  EXPECT_THAT(html, HasSubstr("content=\"default-src 'none'; script-src "
                              "'sha256-"));
  EXPECT_THAT(html, Not(HasSubstr("unsafe")));
  EXPECT_THAT(html, Not(HasSubstr(" src=")));
  EXPECT_THAT(html, HasSubstr("Redistribution and use in source and binary"));
}

TEST_F(ReportHtmlTest, JoinsTheModulesWithoutTheirImports) {
  const std::string script = kPage_script;
  EXPECT_THAT(script, Not(HasSubstr("\nimport ")));
  EXPECT_THAT(script, Not(HasSubstr("\nexport ")));
  EXPECT_THAT(script, Not(HasSubstr("</script")));
}

}  // namespace
}  // namespace dtrain
