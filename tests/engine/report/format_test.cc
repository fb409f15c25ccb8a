#include "engine/report/format.h"

#include <array>
#include <cstdlib>
#include <ctime>
#include <limits>

#include <gtest/gtest.h>

#include "engine/base/text.h"

namespace dtrain {
namespace {

using nlohmann::json;

TEST(FormatTest, ShortensMetrics) {
  EXPECT_EQ(FormatMetric(0.98412345), "0.984123");
  EXPECT_EQ(FormatMetric(3), "3");
  EXPECT_EQ(FormatMetric(1234567), "1234567");
  EXPECT_EQ(FormatMetric(0.99999951), "0.9999995");
  EXPECT_EQ(FormatMetric(std::numeric_limits<double>::quiet_NaN()), "NaN");
  EXPECT_EQ(FormatMetric(-std::numeric_limits<double>::infinity()),
            "-Infinity");
}

TEST(FormatTest, Shows100PercentOnlyAtTheEnd) {
  EXPECT_EQ(FormatPercent(0), "0%");
  EXPECT_EQ(FormatPercent(0.29), "29%");
  EXPECT_EQ(FormatPercent(0.999), "99%");
  EXPECT_EQ(FormatPercent(1), "100%");
}

TEST(FormatTest, WritesTimesToTheSecond) {
  EXPECT_EQ(FormatTime(Timestamp(1'000'000)), "1970-01-01T00:00:01Z");
  EXPECT_EQ(FormatTime(std::nullopt), "-");
}

TEST(FormatTest, ShowsTimesAsPeopleSayThem) {
  ASSERT_EQ(setenv("TZ", "UTC-2", /*replace=*/1), 0);
  tzset();
  const auto shown = [](const char* time) {
    return FormatLocalTime(*ParseTimestamp(time),
                           *ParseTimestamp("2026-11-25T12:00:00Z"));
  };
  EXPECT_EQ(shown("2026-11-25T11:59:30Z"), "just now");
  EXPECT_EQ(shown("2026-11-25T11:00:01Z"), "59 min ago");
  EXPECT_EQ(shown("2026-11-25T11:00:00Z"), "today 13:00");
  EXPECT_EQ(shown("2026-11-24T22:00:00Z"), "today 00:00");
  EXPECT_EQ(shown("2026-11-24T21:59:59Z"), "yesterday 23:59");
  EXPECT_EQ(shown("2026-11-05T06:07:00Z"), "Nov  5 08:07");
  EXPECT_EQ(shown("2025-11-25T12:00:00Z"), "2025-11-25 14:00");
  EXPECT_EQ(shown("2026-11-26T12:00:00Z"), "2026-11-26 14:00");
  EXPECT_EQ(shown("1969-12-31T23:59:59.5Z"), "1970-01-01 01:59");
  unsetenv("TZ");
  tzset();
}

TEST(FormatTest, QuotesTextsThatYamlReadsAsAnotherType) {
  for (const char* text : {"1", "-1.5", "+1e3", "1_000", "0x1F", "true", "Null",
                           "~", "-.inf", ".nan"}) {
    EXPECT_EQ(FormatValue(text), '"' + std::string(text) + '"');
  }
  EXPECT_EQ(FormatValue("adam"), "adam");
  EXPECT_EQ(FormatValue("1.2.3"), "1.2.3");
  EXPECT_EQ(FormatValue("nan"), "nan");
  EXPECT_EQ(FormatValue(1), "1");
  EXPECT_EQ(FormatValue(true), "true");
  EXPECT_EQ(FormatHparams({{"version", "1.10"}, {"lr", 1.1}}),
            "lr=1.1 version=\"1.10\"");
}

TEST(FormatTest, ShortensHparamsButNoIntegers) {
  EXPECT_EQ(FormatBriefly(0.123456), "0.1235");
  EXPECT_EQ(FormatBriefly(1234567), "1234567");
  EXPECT_EQ(FormatBriefly(1234567.0), "1234567");
  EXPECT_EQ(FormatBriefly(0.99999), "0.99999");
}

TEST(FormatTest, JoinsNestedHparamsByDots) {
  const json hparams = {
      {"lr", 0.01}, {"name", "two words"}, {"optimizer", {{"beta", 0.9}}}};
  EXPECT_EQ(FormatHparams(hparams),
            "lr=0.01 name=\"two words\" optimizer.beta=0.9");
  EXPECT_EQ(FormatHparams(json::object()), "");
}

TEST(FormatTest, KeepsOnlySearchedHparams) {
  const json space = {{"batch", 32},
                      {"lr", {{"type", "log"}, {"minval", -4}, {"maxval", -1}}},
                      {"net", {{"depth", {{"type", "int"}}}, {"width", 8}}},
                      {"fixed", {{"type", "const"}, {"val", 1}}}};
  const json hparams = {{"batch", 32},
                        {"lr", 0.01},
                        {"net", {{"depth", 3}, {"width", 8}}},
                        {"fixed", 1}};
  EXPECT_EQ(SearchedHparams(space, hparams),
            json({{"lr", 0.01}, {"net", {{"depth", 3}}}}));
}

TEST(FormatTest, KeepsAllHparamsIfNoneWasSearched) {
  const json hparams = {{"batch", 32}};
  EXPECT_EQ(SearchedHparams(hparams, hparams), hparams);
}

TEST(FormatTest, CountsSecondsUpToNowWhileRunning) {
  const ExperimentRow row{.state = State::kRunning,
                          .started = Timestamp(1'000'000)};
  EXPECT_DOUBLE_EQ(ElapsedSeconds(row, Timestamp(3'500'000)), 2.5);
}

TEST(FormatTest, UsesRecordedSecondsAfterTheEnd) {
  const ExperimentRow row{
      .state = State::kCompleted, .started = Timestamp(0), .seconds = 7};
  EXPECT_DOUBLE_EQ(ElapsedSeconds(row, Timestamp(99'000'000)), 7);
  const ExperimentRow none{.state = State::kPaused, .started = Timestamp(0)};
  EXPECT_DOUBLE_EQ(ElapsedSeconds(none, Timestamp(99'000'000)), 0);
}

TEST(FormatTest, ClockJumpsGiveNoNegativeDuration) {
  const TrialRow row{.state = State::kRunning, .started = Timestamp(9)};
  EXPECT_DOUBLE_EQ(ElapsedSeconds(row, Timestamp(0)), 0);
}

TEST(FormatTest, DistinguishesSearchedHyperparametersFromConstants) {
  const nlohmann::json space = {
      {"lr", {{"type", "log"}}},
      {"net", {{"act", "relu"}, {"units", {{"type", "int"}}}}},
      {"batch", 32}};
  const nlohmann::json hparams = {{"lr", 0.012345678},
                                  {"net", {{"act", "relu"}, {"units", 8}}},
                                  {"batch", 32}};
  EXPECT_EQ(FormatHparamsBriefly(SearchedHparams(space, hparams)),
            "lr=0.01235 net.units=8");
  EXPECT_EQ(FormatHparamsBriefly(ConstantHparams(space, hparams)),
            "batch=32 net.act=relu");
}

TEST(SparklineTest, DrawsValuesBetweenLeastAndGreatest) {
  EXPECT_EQ(Sparkline(std::array{0.0, 1.0, 2.0, 7.0}, 16, true), "▁▂▃█");
  EXPECT_EQ(Sparkline(std::array{3.0, 2.0, 1.0, 0.0}, 16, false), "^-._");
}

TEST(SparklineTest, AveragesAdjacentValuesToTheWidth) {
  const std::array values = {0.0, 2.0, 3.0, 5.0, 6.0, 8.0, 7.0};
  EXPECT_EQ(Sparkline(values, 3, true), "▁▅█");
  EXPECT_EQ(Sparkline(values, 0, true), "");
}

TEST(SparklineTest, DrawsInTheRangeOfSeveralCurves) {
  CurveRange range;
  range.Add(std::array{0.0, std::nan("")});
  range.Add(std::array{8.0, 4.0});
  EXPECT_EQ(Sparkline(std::array{0.0, 0.9}, 16, true, range), "▁▁");
  EXPECT_EQ(Sparkline(std::array{4.0, 8.0, 9.0}, 16, true, range), "▅██");
  EXPECT_EQ(Sparkline(std::array{std::nan("")}, 16, true, range), "");
}

TEST(SparklineTest, LeavesGapsWhereValuesAreNotFinite) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(Sparkline(std::array{0.0, nan, infinity, 1.0}, 16, true), "▁  █");
  EXPECT_EQ(Sparkline(std::array{nan, -infinity}, 16, true), "");
  EXPECT_EQ(Sparkline(std::array{0.0, nan, 8.0, 8.0}, 2, true), "▁█");
}

TEST(SparklineTest, DrawsAConstantInTheMiddle) {
  EXPECT_EQ(Sparkline(std::array{0.1, 0.1, 0.1}, 16, true), "▅▅▅");
  EXPECT_EQ(Sparkline(std::array{0.1, 0.1}, 16, false), "--");
  EXPECT_EQ(Sparkline({}, 16, true), "");
  // A sum of three is not three times as much.
  EXPECT_EQ(Sparkline(std::array{0.1, 0.1, 0.1, 0.1}, 2, true), "▅▅");
  EXPECT_EQ(Sparkline(std::array{0.7, 0.7, 0.7, 0.7, 0.7}, 2, true), "▅▅");
}

TEST(FormatTest, SlotsOfOneKindShareTheirName) {
  EXPECT_EQ(SlotsText(""), "");
  EXPECT_EQ(SlotsText("cpu:3"), "cpu:3");
  EXPECT_EQ(SlotsText("gpu:0,gpu:10,node2/gpu:0,node2/gpu:1"),
            "gpu:0,10 node2/gpu:0,1");
}

TEST(SparklineTest, SurvivesValuesWhoseRangeOverflows) {
  const double most = std::numeric_limits<double>::max();
  EXPECT_EQ(Sparkline(std::array{-most, most, most, most}, 3, true), "▁██");
  EXPECT_EQ(Sparkline(std::array{most, most}, 1, true), "▅");
}

}  // namespace
}  // namespace dtrain
