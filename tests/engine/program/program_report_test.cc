#include "engine/program/program_report.h"

#include <array>
#include <cmath>
#include <string>
#include <string_view>

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"

namespace dtrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

ProgramReport Parse(const std::string& line, Unit unit = Unit::kBatches) {
  return ParseProgramReport(line, {.unit = unit, .records_per_epoch = 100});
}

struct BadLine {
  const char* name;
  const char* line;
  const char* problem;
};

class BadReportTest : public testing::TestWithParam<BadLine> {};

TEST_P(BadReportTest, IsRefusedWithTheReason) {
  try {
    Parse(GetParam().line);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kFailed);
    EXPECT_THAT(error.what(), HasSubstr(GetParam().problem));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Lines, BadReportTest,
    testing::Values(
        BadLine{"Garbage", "epoch 1: loss 0.5", "is not JSON"},
        BadLine{"Nothing", "", "is not JSON"},
        BadLine{"Utf8", "{\"type\": \"\xff\"}", "is not JSON"},
        BadLine{"Half", R"({"type": "training")", "is not JSON"},
        BadLine{"List", "[1]", "is not a JSON object"},
        BadLine{"NoType", "{}", "has no 'type'"},
        BadLine{"TypeIsNoText", R"({"type": 1})", "must be a string"},
        BadLine{"UnknownType", R"({"type": "hello"})",
                "unknown type \"hello\""},
        BadLine{"NoBatches", R"({"type": "progress"})", "has no 'batches'"},
        BadLine{"OtherUnit", R"({"type": "progress", "epochs": 1})",
                "has no 'batches'"},
        BadLine{"Negative", R"({"type": "progress", "batches": -1})",
                "from 0 to 10^15, got -1"},
        BadLine{"Huge", R"({"type": "progress", "batches": 1e16})", "10^15"},
        BadLine{"Text", R"({"type": "progress", "batches": "5"})",
                "must be a number"},
        BadLine{"Part", R"({"type": "progress", "batches": 1.5})",
                "must be a whole number, got 1.5"},
        BadLine{"NanBatches", R"({"type": "progress", "batches": NaN})",
                "must be a number"},
        BadLine{"NoMetrics", R"({"type": "training", "batches": 1})",
                "has no 'metrics'"},
        BadLine{"MetricsAreAList",
                R"({"type": "training", "batches": 1, "metrics": [1]})",
                "must be an object of numbers, got a list"},
        BadLine{"MetricIsText",
                R"({"type": "training", "batches": 1, "metrics": {"a": "b"}})",
                "metric 'a' must be a number, got \"b\""},
        BadLine{"MetricIsNull",
                R"({"type": "training", "batches": 1, "metrics": {"a": null}})",
                "metric 'a' must be a number, got null"},
        BadLine{"MetricWithoutName",
                R"({"type": "training", "batches": 1, "metrics": {"": 1}})",
                "the name of a metric"},
        BadLine{"NoPath", R"({"type": "checkpoint", "batches": 1})",
                "has no 'path'"},
        BadLine{"EmptyPath",
                R"({"type": "checkpoint", "batches": 1, "path": ""})",
                "has an empty 'path'"},
        BadLine{"ValidationIsNoObject",
                R"({"type": "checkpoint", "batches": 1, "path": "a",)"
                R"( "validation": 1})",
                "'validation' must be an object of numbers, got 1"},
        BadLine{"NoReason", R"({"type": "end"})", "has no 'reason'"},
        BadLine{"OddReason", R"({"type": "end", "reason": "tired"})",
                "user_stop, invalid_hp, fatal or error"}),
    [](const auto& info) { return info.param.name; });

TEST(ProgramReportTest, RefusesNestedListsAsAReport) {
  EXPECT_THROW(Parse(std::string(500'000, '[')), Error);
  EXPECT_THROW(Parse(std::string(100'000, '[') + std::string(100'000, ']')),
               Error);
}

TEST(ProgramReportTest, ReadsAllKindsOfNumbers) {
  const auto report = std::get<ProgramTraining>(
      Parse(R"({"type": "training", "batches": 100.0, "metrics":)"
            R"( {"a": 1, "b": -2.5e-3}})"));
  EXPECT_EQ(report.point.batches, 100);
  EXPECT_EQ(report.point.count, 100);
  EXPECT_THAT(report.metrics, ElementsAre(Pair("a", 1), Pair("b", -0.0025)));
}

TEST(ProgramReportTest, ReadsPythonsNan) {
  const auto report = std::get<ProgramValidation>(
      Parse(R"({"type": "validation", "batches": 1, "metrics": {"a": NaN, )"
            R"("NaN \" Infinity": -Infinity, "c": "Infinity"}})"));
  ASSERT_EQ(report.metrics.size(), 3u);
  EXPECT_EQ(report.metrics[0].first, "NaN \" Infinity");
  EXPECT_EQ(report.metrics[0].second, -HUGE_VAL);
  EXPECT_TRUE(std::isnan(report.metrics[1].second));
  EXPECT_EQ(report.metrics[2].second, HUGE_VAL);
}

TEST(ProgramReportTest, CountsInTheUnitOfTheSearch) {
  const auto both = std::get<ProgramProgress>(Parse(
      R"({"type": "progress", "batches": 30, "epochs": 1.5})", Unit::kEpochs));
  EXPECT_EQ(both.point.count, 1.5);
  EXPECT_EQ(both.point.batches, 30);
  EXPECT_EQ(both.point.epoch, 1.5);
  const auto one = std::get<ProgramProgress>(
      Parse(R"({"type": "progress", "epochs": 2})", Unit::kEpochs));
  EXPECT_EQ(one.point.batches, 2);
  EXPECT_THROW(Parse(R"({"type": "progress", "epochs": 2.5})", Unit::kEpochs),
               Error);
}

TEST(ProgramReportTest, ReadsTheEpoch) {
  const auto report = std::get<ProgramCheckpoint>(
      Parse(R"({"type": "checkpoint", "records": 250, "path": "a/b"})",
            Unit::kRecords));
  EXPECT_EQ(report.point.count, 250);
  EXPECT_EQ(report.point.epoch, 2.5);
  EXPECT_EQ(report.path, "a/b");
}

TEST(ProgramReportTest, ReadsTheValidationOfACheckpoint) {
  const auto with = std::get<ProgramCheckpoint>(
      Parse(R"({"type": "checkpoint", "batches": 5, "path": "a",)"
            R"( "validation": {"loss": NaN, "acc": 1}})"));
  ASSERT_TRUE(with.validation);
  EXPECT_THAT(*with.validation, testing::SizeIs(2));
  const auto without = std::get<ProgramCheckpoint>(
      Parse(R"({"type": "checkpoint", "batches": 5, "path": "a"})"));
  EXPECT_FALSE(without.validation);
}

TEST(ProgramReportTest, ReadsTheReasonOfTheEnd) {
  const auto end = std::get<ProgramEnd>(
      Parse(R"({"type": "end", "reason": "invalid_hp", "message": "odd"})"));
  EXPECT_EQ(end.reason, EndReason::kInvalidHp);
  EXPECT_EQ(end.message, "odd");
}

TEST(ProgramReportTest, ReadsAFatalEnd) {
  const auto named = std::get<ProgramEnd>(
      Parse(R"({"type": "end", "reason": "fatal", "message": "no data"})"));
  EXPECT_EQ(named.reason, EndReason::kRefused);
  EXPECT_EQ(named.message, "no data");
  const auto unnamed =
      std::get<ProgramEnd>(Parse(R"({"type": "end", "reason": "fatal"})"));
  EXPECT_EQ(unnamed.message, "the program reported a fatal error");
}

using testing::ElementsAre;

class ReportLinesTest : public testing::Test {
 protected:
  ReportLinesTest() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe(ends.data()), 0);
    writing_.reset(ends[1]);
    lines_.emplace(UniqueFd(ends[0]), /*max_line=*/10);
  }

  void Write(std::string_view text) {
    ASSERT_EQ(::write(writing_.get(), text.data(), text.size()),
              static_cast<ssize_t>(text.size()));
  }
  // The lines that there are now; those that were too long in brackets.
  std::vector<std::string> Read() {
    open_ = lines_->Fill();
    std::vector<std::string> texts;
    while (const auto line = lines_->Next()) {
      texts.push_back(line->too_long ? "[" + line->text + "]" : line->text);
    }
    return texts;
  }

  UniqueFd writing_;
  std::optional<ReportLines> lines_;
  bool open_ = false;
};

TEST_F(ReportLinesTest, JoinsPiecesIntoLines) {
  Write("one\ntw");
  EXPECT_THAT(Read(), ElementsAre("one"));
  Write("o\n\nthree\n");
  EXPECT_THAT(Read(), ElementsAre("two", "", "three"));
  EXPECT_TRUE(open_);
}

TEST_F(ReportLinesTest, ReturnsNothingWithoutInput) {
  EXPECT_THAT(Read(), testing::IsEmpty());
  EXPECT_TRUE(open_);
}

TEST_F(ReportLinesTest, LastLineNeedsNoNewline) {
  Write("last");
  EXPECT_THAT(Read(), testing::IsEmpty());
  writing_.reset();
  EXPECT_THAT(Read(), ElementsAre("last"));
  EXPECT_FALSE(open_);
}

TEST_F(ReportLinesTest, DiscardsATooLongLineAndContinues) {
  Write("0123456789a");
  EXPECT_THAT(Read(), testing::IsEmpty());
  Write(std::string(1000, 'b'));
  EXPECT_THAT(Read(), testing::IsEmpty());
  Write("c\nshort\n");
  const auto lines = Read();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_THAT(lines[0], testing::StartsWith("[0123456789a"));
  EXPECT_LE(lines[0].size(), 102u);
  EXPECT_EQ(lines[1], "short");
}

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::Pair;

TEST(ReportRateTest, AllowsABurstAndThenARate) {
  ReportRate rate(Duration(0), /*per_second=*/10, /*burst=*/2);
  EXPECT_TRUE(rate.TryAcquire(Duration(0)));
  EXPECT_TRUE(rate.TryAcquire(Duration(0)));
  EXPECT_FALSE(rate.TryAcquire(Duration(0)));
  EXPECT_FALSE(rate.TryAcquire(milliseconds(50)));
  EXPECT_TRUE(rate.TryAcquire(milliseconds(150)));
}

TEST(ReportRateTest, SavesUpNoMoreThanTheBurst) {
  ReportRate rate(Duration(0), /*per_second=*/10, /*burst=*/1);
  EXPECT_TRUE(rate.TryAcquire(milliseconds(100'000)));
  EXPECT_FALSE(rate.TryAcquire(milliseconds(100'001)));
}

TEST(TrainingMeansTest, AveragesEachMetricOverItsOwnReports) {
  TrainingMeans means;
  EXPECT_TRUE(means.empty());
  means.Add({.point = {.batches = 1}, .metrics = {{"b", 1}, {"a", 10}}});
  means.Add({.point = {.batches = 2}, .metrics = {{"b", 3}}});

  const ProgramTraining mean = means.Drain();

  EXPECT_EQ(mean.point.batches, 2);
  EXPECT_THAT(mean.metrics, ElementsAre(Pair("b", 2), Pair("a", 10)));
  EXPECT_TRUE(means.empty());
}

}  // namespace

}  // namespace dtrain
