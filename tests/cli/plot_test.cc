// `dtrain plot` of a store that is there.

#include <fstream>
#include <iterator>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cli_runner.h"
#include "tests/support/sample_store.h"

namespace dtrain {
namespace {

using testing::HasSubstr;

class PlotTest : public testing::Test {
 protected:
  PlotTest() { FillSampleStore(dtrain_.store()); }

  std::string Metric() const {
    return dtrain_.Run({"metrics", "1", "--json"}).Json()["metrics"][0]["name"];
  }

  const CliRunner dtrain_;
};

TEST_F(PlotTest, DrawsTheSearchersMetricOfEveryTrial) {
  const CliResult result = dtrain_.Run({"plot", "1"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("experiment 1"));
  EXPECT_THAT(result.out, HasSubstr(" +----"));
  EXPECT_THAT(result.out, HasSubstr("  A  1.1 "));
  EXPECT_THAT(result.out, HasSubstr("  B  1.2 "));
}

TEST_F(PlotTest, WritesAnSvgFile) {
  const CliResult result = dtrain_.Run(
      {"plot", "1.2", "--metric", Metric(), "--x", "epochs", "--out", "a.svg"});
  EXPECT_EQ(result.code, 0) << result.err;
  std::ifstream file(dtrain_.directory() / "a.svg");
  const std::string svg{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(svg, HasSubstr(">1.2 " + Metric() + "</text>"));
  EXPECT_THAT(svg, HasSubstr(">epochs</text>"));
}

TEST_F(PlotTest, ListsTheAvailableMetrics) {
  const CliResult result = dtrain_.Run({"plot", "1", "--metric", "beauty"});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, HasSubstr("no metric 'beauty'; it has "));
}

TEST_F(PlotTest, RefusesAFileNameWithoutSvg) {
  const CliResult result = dtrain_.Run({"plot", "1", "--out", "a.gif"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("end in .svg"));
}

TEST_F(PlotTest, ReportsAnUnwritableFile) {
  const CliResult result = dtrain_.Run({"plot", "1", "--out", "no/a.svg"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("cannot write 'no/a.svg'"));
}

}  // namespace
}  // namespace dtrain
