// report: its files and messages. tests/page/page_test.py reads the page
// itself.

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cli_runner.h"
#include "tests/support/mounting.h"
#include "tests/support/sample_store.h"

namespace dtrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class ReportTest : public testing::Test {
 protected:
  void SetUp() override {
    FillSampleStore(dtrain_.store());
    AddAccuracySearch(dtrain_.store());
  }

  std::string Path(const std::string& name) const {
    return (dtrain_.directory() / name).string();
  }

  static std::string Read(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return std::move(text).str();
  }

  CliRunner dtrain_;
};

TEST_F(ReportTest, LeavesOutTrialsThatDoNotMatch) {
  const CliResult result =
      dtrain_.Run({"report", "4", "--md", "--filter", "number != 2"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out,
              HasSubstr("| filter | 2 of 3 trials match number != 2;"));
  EXPECT_THAT(result.out, HasSubstr("| best | 0.6 in trial 4.3 "));
  EXPECT_THAT(result.out, Not(HasSubstr("4.2")));
}

TEST_F(ReportTest, WritesOneFileOfSeveralExperiments) {
  if (!DTRAIN_HAS_PAGE) GTEST_SKIP() << "this build has no page";
  const CliResult result =
      dtrain_.Run({"report", "1", "4", "--html", Path("r.html")});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("metric values; open it in a browser"));
  EXPECT_EQ(result.out, "");
  const std::string html = Read(Path("r.html"));
  EXPECT_THAT(html, HasSubstr("<title>dtrain: experiments 1, 4</title>"));
  EXPECT_THAT(html, HasSubstr("<td>4.2</td><td>0.9</td><td>0</td>"));
}

TEST_F(ReportTest, EscapesHostileNames) {
  if (!DTRAIN_HAS_PAGE) GTEST_SKIP() << "this build has no page";
  const CliResult result =
      dtrain_.Run({"report", "2", "--html", Path("r.html")});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(Read(Path("r.html")), Not(HasSubstr("\x1b")));
}

TEST_F(ReportTest, ReplacesNoFileUnasked) {
  if (!DTRAIN_HAS_PAGE) GTEST_SKIP() << "this build has no page";
  std::ofstream(Path("r.html")) << "mine";
  const CliResult refused =
      dtrain_.Run({"report", "1", "--html", Path("r.html")});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--force"));
  EXPECT_EQ(Read(Path("r.html")), "mine");
  EXPECT_EQ(
      dtrain_.Run({"report", "1", "--html", Path("r.html"), "--force"}).code,
      0);
  EXPECT_THAT(Read(Path("r.html")), HasSubstr("<!DOCTYPE html>"));
}

TEST_F(ReportTest, PrintsMarkdown) {
  const CliResult result = dtrain_.Run({"report", "4", "--md"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("## Experiment 4: "),
                    HasSubstr("| best | 0.9 in trial 4.2 at batch 50"),
                    HasSubstr("| 4.2 | 0.9 | 0 | COMPLETED |")));
}

TEST_F(ReportTest, RedactsTheMarkdownToo) {
  ASSERT_EQ(dtrain_.Run({"note", "4", "kept in /srv/models"}).code, 0);
  EXPECT_THAT(dtrain_.Run({"report", "4", "--md"}).out,
              HasSubstr("kept in /srv/models"));
  EXPECT_THAT(
      dtrain_.Run({"report", "4", "--md", "--redact"}).out,
      AllOf(HasSubstr("kept in \\[removed\\]"), Not(HasSubstr("/srv/models"))));
}

TEST_F(ReportTest, NeedsAnExperimentAndAForm) {
  const CliResult without = dtrain_.Run({"report", "1"});
  EXPECT_EQ(without.code, 2);
  EXPECT_THAT(without.err, HasSubstr("expected --html FILE"));
  const CliResult unknown = dtrain_.Run({"report", "99", "--md"});
  EXPECT_EQ(unknown.code, 3);
  EXPECT_THAT(unknown.err, HasSubstr("99"));
  const CliResult trial = dtrain_.Run({"report", "1.2", "--md"});
  EXPECT_EQ(trial.code, 2);
}

TEST_F(ReportTest, WritesThePageToStdout) {
  if (!DTRAIN_HAS_PAGE) GTEST_SKIP() << "this build has no page";
  const CliResult result = dtrain_.Run({"report", "1", "--html", "-"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(result.out.starts_with("<!DOCTYPE html>"));
  EXPECT_EQ(result.err, "");
  const CliResult both = dtrain_.Run({"report", "1", "--html", "-", "--md"});
  EXPECT_EQ(both.code, 2);
  EXPECT_THAT(both.err, HasSubstr("both write to stdout"));
}

TEST_F(ReportTest, EndsQuietlyIfTheReaderOfAPipeIsGone) {
  if (!DTRAIN_HAS_PAGE) GTEST_SKIP() << "this build has no page";
  const CliResult result =
      dtrain_.RunProgram({"bash", "-c",
                          "dtrain report 1 --html - | head -c 9; dtrain report "
                          "1 --md | head -n 0; "
                          "dtrain report 1 --html - >/dev/full; echo full $?"});
  EXPECT_EQ(result.out, "<!DOCTYPEfull 1\n");
  EXPECT_THAT(result.err, testing::MatchesRegex(
                              "dtrain: error: stdout: cannot write[^\n]*\n"));
}

TEST_F(ReportTest, LeavesNothingOnAFullDisk) {
  if (!DTRAIN_HAS_PAGE) GTEST_SKIP() << "this build has no page";
  SKIP_WHERE_MOUNTING_IS_FORBIDDEN(dtrain_);
  const CliResult result = RunInOwnMounts(
      dtrain_,
      "mkdir disk; mount -t tmpfs -o size=128k tmpfs disk; dtrain report 1 "
      "--html disk/r.html; echo end $?; ls disk");
  EXPECT_EQ(result.out, "end 1\n");
  EXPECT_THAT(result.err, HasSubstr("No space left on device; free some"));
}

TEST_F(ReportTest, ReadsAReadOnlyStoreOfAnOlderSchema) {
  if (!DTRAIN_HAS_PAGE) GTEST_SKIP() << "this build has no page";
  SKIP_WHERE_MOUNTING_IS_FORBIDDEN(dtrain_);
  const CliResult result = RunInOwnMounts(
      dtrain_,
      "mkdir disk && mount -t tmpfs tmpfs disk && mkdir -m 700 disk/store && "
      "sqlite3 disk/store/dtrain.db <" DTRAIN_GOLDEN_DIR
      "/store_version1.sql && mount -o remount,ro disk && dtrain --store "
      "disk/store report 1 --html r.html; echo end $?");
  EXPECT_THAT(result.out, HasSubstr("end 0")) << result.err;
  EXPECT_THAT(result.err, HasSubstr("wrote r.html"));
}

TEST_F(ReportTest, LeavesNothingBehindAfterAnError) {
  if (!DTRAIN_HAS_PAGE) GTEST_SKIP() << "this build has no page";
  const CliResult result =
      dtrain_.Run({"report", "1", "--html", Path("no/r.html")});
  EXPECT_NE(result.code, 0);
  EXPECT_THAT(result.err, HasSubstr("--html: cannot write"));
  EXPECT_EQ(dtrain_.Run({"report", "1", "99", "--html", Path("x.html")}).code,
            3);
  EXPECT_FALSE(std::filesystem::exists(Path("x.html")));
}

}  // namespace
}  // namespace dtrain
