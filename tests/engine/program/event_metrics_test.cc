#include "engine/program/event_metrics.h"

#include <fstream>
#include <string>

#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/tfevents.h"
#include "tests/engine/program/found_reports.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string Scalar(const std::string& tag, std::int64_t step, double value) {
  std::string bytes;
  AppendScalar(bytes, tag, step, 1, value);
  return bytes;
}

class EventMetricsTest : public testing::Test {
 protected:
  void Write(const std::string& file, const std::string& bytes) const {
    const fs::path path = directory_.path() / file;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::app | std::ios::binary) << bytes;
  }
  std::vector<std::string> Found() {
    metrics().Poll(now_ += std::chrono::seconds(2));
    return DrainReports(findings_);
  }
  std::vector<std::string> End() {
    metrics().End(/*whole=*/true);
    return DrainReports(findings_);
  }
  EventMetrics& metrics() {
    if (!metrics_) {
      metrics_.emplace(source_, directory_.path(), "acc", 0,
                       /*refuses_zero=*/true, findings_);
    }
    return *metrics_;
  }

  TemporaryDirectory directory_;
  MetricSource source_{.names = {{"acc", "val/acc"}, {"loss", "loss"}}};
  MetricFindings findings_;

 private:
  std::optional<EventMetrics> metrics_;
  Duration now_{0};
};

constexpr char kFile[] = "run/events.out.tfevents.1.host";

TEST_F(EventMetricsTest, ReportsAStepWhenItIsComplete) {
  EXPECT_THAT(Found(), IsEmpty());
  Write(kFile, Scalar("loss", 1, 0.5) + Scalar("other", 1, 3));
  EXPECT_THAT(Found(), IsEmpty());
  Write(kFile, Scalar("val/acc", 1, 0.7) + Scalar("loss", 2, 0.4));
  EXPECT_THAT(Found(), ElementsAre("1 loss=0.50 acc=0.70"));
  EXPECT_THAT(End(), ElementsAre("2 loss=0.40"));
}

TEST_F(EventMetricsTest, MergesSeveralFiles) {
  metrics();
  Write("train/events.out.tfevents.1",
        Scalar("loss", 1, 0.5) + Scalar("loss", 2, 0.4));
  EXPECT_THAT(Found(), IsEmpty());
  Write("val/events.out.tfevents.1",
        Scalar("acc", 1, 0.7) + Scalar("acc", 2, 0.8));
  EXPECT_THAT(Found(), ElementsAre("1 loss=0.50 acc=0.70"));
  EXPECT_EQ(metrics().held(), 2);
  metrics().Settle();
  EXPECT_THAT(DrainReports(findings_), ElementsAre("2 loss=0.40 acc=0.80"));
}

TEST_F(EventMetricsTest, TheLastValueOfAStepCounts) {
  metrics();
  Write(kFile, Scalar("val/acc", 1, 0.1) + Scalar("loss", 1, 5));
  EXPECT_THAT(Found(), IsEmpty());
  Write(kFile, Scalar("val/acc", 1, 0.6) + Scalar("loss", 1, 1) +
                   Scalar("loss", 2, 1));
  EXPECT_THAT(Found(), ElementsAre("1 acc=0.60 loss=1.00"));
  metrics().End(/*whole=*/false);
  EXPECT_THAT(DrainReports(findings_), IsEmpty()) << "it was cut off";
}

TEST_F(EventMetricsTest, TheFirstValueOfAStepCountsIfAskedTo) {
  source_.first_value = true;
  metrics();
  Write(kFile, Scalar("val/acc", 1, 0.1) + Scalar("loss", 1, 5));
  EXPECT_THAT(Found(), ElementsAre("1 acc=0.10 loss=5.00"));
}

TEST_F(EventMetricsTest, TriesAgainWhatItCouldNotOpen) {
  metrics();
  const fs::path path = directory_.path() / "events.out.tfevents.1";
  // A socket cannot be opened, whoever tries.
  ASSERT_EQ(::mknod(path.c_str(), S_IFSOCK | 0600, 0), 0);
  EXPECT_THAT(Found(), IsEmpty());
  fs::remove(path);
  Write(path.filename(), Scalar("val/acc", 1, 0.1) + Scalar("loss", 1, 5));
  EXPECT_THAT(End(), ElementsAre("1 acc=0.10 loss=5.00"));
}

TEST_F(EventMetricsTest, LinksAreNotFollowed) {
  metrics();
  const TemporaryDirectory elsewhere;
  std::ofstream(elsewhere.path() / "events.out.tfevents.9", std::ios::binary)
      << Scalar("val/acc", 1, 9) << Scalar("loss", 1, 9);
  fs::create_symlink(elsewhere.path() / "events.out.tfevents.9",
                     directory_.path() / "events.out.tfevents.9");
  EXPECT_THAT(End(), IsEmpty());
  ASSERT_EQ(findings_.remarks.size(), 1u);
  EXPECT_EQ(findings_.remarks[0].text,
            "events.out.tfevents.9 is a symbolic link, which is not followed; "
            "write the metrics there");
}

TEST_F(EventMetricsTest, LeavesOutTheEventsOfEarlierRuns) {
  Write(kFile, Scalar("val/acc", 1, 0.1));
  EXPECT_THAT(Found(), IsEmpty());
  EXPECT_THAT(metrics().Hint(), HasSubstr("it wrote no event file in "));
  Write(kFile, Scalar("val/acc", 2, 0.2));
  EXPECT_THAT(End(), ElementsAre("2 acc=0.20"));
}

TEST_F(EventMetricsTest, WarnsIfATagIsInSeveralDirectories) {
  metrics();
  Write("a/events.out.tfevents.1", Scalar("loss", 1, 1));
  Found();
  Write("b/events.out.tfevents.1", Scalar("loss", 1, 2));
  Found();
  ASSERT_EQ(findings_.remarks.size(), 1u);
  EXPECT_THAT(findings_.remarks[0].text,
              HasSubstr("'loss' is in several event files, as a/loss and "
                        "b/loss; the first one counts"));
  EXPECT_THAT(End(), ElementsAre("1 loss=1.00"));
}

TEST_F(EventMetricsTest, StopsAtADamagedRecord) {
  metrics();
  std::string bytes = Scalar("val/acc", 1, 1) + Scalar("val/acc", 2, 2);
  bytes.back() ^= 1;
  Write(kFile, bytes);
  EXPECT_THAT(End(), ElementsAre("1 acc=1.00"));
  EXPECT_THAT(findings_.remarks[0].text,
              HasSubstr("wrong checksum; the rest of the file is not read"));
}

TEST_F(EventMetricsTest, AsksWhatAnEpochZeroMeans) {
  metrics();
  Write(kFile, Scalar("val/acc", 0, 1));
  EXPECT_THAT(End(), IsEmpty());
  EXPECT_THAT(findings_.refusal, HasSubstr("metrics.first_step"));
}

TEST_F(EventMetricsTest, SaysWhatIsThere) {
  EXPECT_THAT(metrics().Hint(), HasSubstr("it wrote no event file in "));
  Write(kFile, Scalar("val_acc", 1, 1));
  Found();
  EXPECT_THAT(metrics().Hint(),
              HasSubstr("have no tag 'val/acc'; did you mean 'val_acc'?"));
}

}  // namespace
}  // namespace dtrain
