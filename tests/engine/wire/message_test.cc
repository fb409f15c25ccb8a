#include "engine/wire/message.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain {
namespace {

using testing::ElementsAre;
using testing::Pair;

template <typename T>
T RoundTrip(const T& message) {
  std::string line = Encode(TrialMessage(message));
  EXPECT_EQ(line.back(), '\n');
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  line.pop_back();
  return std::get<T>(DecodeTrialMessage(line));
}

template <typename T>
T RoundTripOfRunner(const T& message) {
  std::string line = Encode(RunnerMessage(message));
  line.pop_back();
  return std::get<T>(DecodeRunnerMessage(line));
}

double RoundTripOfValue(double value) {
  return RoundTrip(TrainingReport{.seq = 1, .metrics = {{"m", value}}})
      .metrics.at(0)
      .second;
}

TEST(MessageTest, CheckpointThatFailed) {
  const CheckpointFailed failed = RoundTrip(
      CheckpointFailed{.batches = 30, .message = "no space", .waits = false});
  EXPECT_EQ(failed.batches, 30);
  EXPECT_EQ(failed.message, "no space");
  EXPECT_FALSE(failed.waits);
  const CheckpointFailed waiting = RoundTrip(
      CheckpointFailed{.batches = 40, .message = "full", .waits = true});
  EXPECT_EQ(waiting.batches, 40);
  EXPECT_EQ(waiting.message, "full");
  EXPECT_TRUE(waiting.waits);
}

TEST(MessageTest, TrainingReportLooksAsDocumented) {
  const TrainingReport report{.seq = 7,
                              .batches = 200,
                              .epoch = 0.5,
                              .metrics = {{"loss", 0.25}, {"acc", 1}},
                              .time = Timestamp(42)};

  EXPECT_EQ(Encode(TrialMessage(report)),
            "{\"type\":\"training\",\"seq\":7,\"batches\":200,\"epoch\":0.5,"
            "\"metrics\":{\"loss\":0.25,\"acc\":1},\"time\":42}\n");
}

TEST(MessageTest, ReportsKeepValuesAndTheirOrder) {
  const auto report = RoundTrip(
      ValidationReport{.seq = 9,
                       .batches = std::numeric_limits<std::int64_t>::max(),
                       .epoch = 1.0 / 3,
                       .metrics = {{"zeta", 0.1}, {"alpha", -3}},
                       .time = Timestamp(1'763'711'444'000'001)});

  EXPECT_EQ(report.seq, 9);
  EXPECT_EQ(report.batches, std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(report.epoch, 1.0 / 3);
  EXPECT_THAT(report.metrics,
              ElementsAre(Pair("zeta", 0.1), Pair("alpha", -3)));
  EXPECT_EQ(report.time, Timestamp(1'763'711'444'000'001));
}

TEST(MessageTest, EveryKindOfDoubleComesBackExactly) {
  using Limits = std::numeric_limits<double>;

  EXPECT_TRUE(std::isnan(RoundTripOfValue(Limits::quiet_NaN())));
  EXPECT_EQ(RoundTripOfValue(Limits::infinity()), Limits::infinity());
  EXPECT_EQ(RoundTripOfValue(-Limits::infinity()), -Limits::infinity());
  EXPECT_EQ(RoundTripOfValue(Limits::max()), Limits::max());
  EXPECT_EQ(RoundTripOfValue(Limits::denorm_min()), Limits::denorm_min());
  EXPECT_EQ(RoundTripOfValue(9007199254740993.0), 9007199254740993.0);
  EXPECT_EQ(RoundTripOfValue(1.8446744073709552e19), 1.8446744073709552e19);
  EXPECT_EQ(RoundTripOfValue(-0.1), -0.1);
  EXPECT_TRUE(std::signbit(RoundTripOfValue(-0.0)));
}

TEST(MessageTest, NamesWithControlsAndQuotesComeBack) {
  const std::string name("a\"b\\c\n\x01\x7f\0é", 11);
  const auto report =
      RoundTrip(TrainingReport{.seq = 1, .metrics = {{name, 1}}});

  EXPECT_EQ(report.metrics.at(0).first, name);
}

TEST(MessageTest, InvalidUtf8IsReplaced) {
  const auto finished = RoundTrip(
      Finished{.reason = EndReason::kError, .message = "bad \xff byte"});

  EXPECT_EQ(finished.message, "bad \xEF\xBF\xBD byte");
}

TEST(MessageTest, ReportsMayListUnreadHyperparameters) {
  const std::vector<std::string> names = {"a", "b.c"};
  EXPECT_EQ(RoundTrip(TrainingReport{.seq = 1, .unread = names}).unread, names);
  EXPECT_EQ(RoundTrip(ValidationReport{.seq = 1, .unread = names}).unread,
            names);
  EXPECT_EQ(RoundTrip(OperationCompleted{.seq = 1, .unread = names}).unread,
            names);
  EXPECT_THAT(Encode(TrainingReport{.seq = 1}),
              testing::Not(testing::HasSubstr("unread")));
}

TEST(MessageTest, UnreadHyperparametersRoundTrip) {
  const std::vector<std::string> names = {"dense1", "net.a, b", "x y"};
  EXPECT_EQ(RoundTrip(Finished{.unread = names}).unread, names);
  EXPECT_TRUE(RoundTrip(Finished{}).unread.empty());
}

TEST(MessageTest, CheckpointKeepsItsFiles) {
  const auto saved = RoundTrip(CheckpointSaved{
      .seq = 3,
      .uuid = "0b5d1b1e-6f4c-4a38-9d6c-3f1a5b2c7d8e",
      .batches = 100,
      .epoch = 2,
      .bytes = 4096,
      .files = {{"model.safetensors", "ab12"}, {"extra/state.json", "cd34"}},
      .time = Timestamp(5)});

  EXPECT_EQ(saved.seq, 3);
  EXPECT_EQ(saved.uuid, "0b5d1b1e-6f4c-4a38-9d6c-3f1a5b2c7d8e");
  EXPECT_EQ(saved.batches, 100);
  EXPECT_EQ(saved.epoch, 2);
  EXPECT_EQ(saved.bytes, 4096);
  EXPECT_EQ(saved.time, Timestamp(5));
  EXPECT_THAT(saved.files, ElementsAre(Pair("extra/state.json", "cd34"),
                                       Pair("model.safetensors", "ab12")));
}

TEST(MessageTest, CompletedOperationKeepsItsLength) {
  const auto completed =
      RoundTrip(OperationCompleted{.seq = 4,
                                   .length = {3, Unit::kEpochs},
                                   .batches = 1875,
                                   .metrics = {{"val_loss", 0.5}},
                                   .early = true,
                                   .why_early = "no better for 3"});

  EXPECT_EQ(completed.seq, 4);
  EXPECT_THAT(completed.metrics, ElementsAre(Pair("val_loss", 0.5)));
  EXPECT_EQ(completed.why_early, "no better for 3");
  EXPECT_EQ(completed.length, (Length{3, Unit::kEpochs}));
  EXPECT_EQ(completed.batches, 1875);
  EXPECT_TRUE(completed.early);
}

TEST(MessageTest, ProfileLooksAsDocumented) {
  const ProfileReport profile{.seq = 5,
                              .batches = 200,
                              .trained = 100,
                              .samples = 6'400,
                              .seconds = {1, 2, 3, 9, 4, 5, 6, 7, 0.5},
                              .minor_faults = 12,
                              .peak_bytes = 4'096,
                              .time = Timestamp(42)};

  EXPECT_EQ(
      Encode(TrialMessage(profile)),
      "{\"type\":\"profile\",\"seq\":5,\"batches\":200,\"trained\":100,"
      "\"samples\":6400,\"data\":1,\"forward\":2,\"backward\":3,"
      "\"exchange\":9,\"optimizer\":4,\"report\":5,\"validation\":6,"
      "\"checkpoint\":7,"
      "\"other\":0.5,\"minor_faults\":12,\"peak_bytes\":4096,\"time\":42}\n");
  EXPECT_EQ(profile.wall_seconds(), 37.5);
}

TEST(MessageTest, ProfileRoundTrips) {
  const auto profile =
      RoundTrip(ProfileReport{.seq = 5,
                              .batches = 200,
                              .trained = 150,
                              .samples = 6'400,
                              .seconds = {0.1, 1.0 / 3, 1e9, 9, 4, 5, 6, 7, 8},
                              .minor_faults = 12,
                              .peak_bytes = 4'096,
                              .gpu_bytes = 1'000'000,
                              .gpu_percent = 100,
                              .time = Timestamp(42)});

  EXPECT_EQ(profile.seq, 5);
  EXPECT_EQ(profile.batches, 200);
  EXPECT_EQ(profile.trained, 150);
  EXPECT_EQ(profile.samples, 6'400);
  EXPECT_EQ(profile.seconds,
            (PhaseSeconds{0.1, 1.0 / 3, 1e9, 9, 4, 5, 6, 7, 8}));
  EXPECT_EQ(profile.minor_faults, 12);
  EXPECT_EQ(profile.peak_bytes, 4'096);
  EXPECT_EQ(profile.gpu_bytes, 1'000'000);
  EXPECT_EQ(profile.gpu_percent, 100);
  EXPECT_EQ(profile.time, Timestamp(42));
  EXPECT_EQ(RoundTrip(ProfileReport{.seq = 1}).gpu_bytes, std::nullopt);
  EXPECT_EQ(RoundTrip(ProfileReport{.seq = 1}).gpu_percent, std::nullopt);
}

TEST(MessageTest, SmallMessagesRoundTrip) {
  EXPECT_NO_THROW(RoundTrip(Ready{}));
  const auto progress = RoundTrip(Progress{1, 2, 3});
  EXPECT_EQ(progress.batches, 1);
  EXPECT_EQ(progress.total, 2);
  EXPECT_EQ(progress.batches_per_epoch, 3);
  EXPECT_EQ(RoundTrip(Finished{EndReason::kCompleted, ""}).reason,
            EndReason::kCompleted);
  EXPECT_EQ(RoundTrip(Finished{EndReason::kStopped, ""}).reason,
            EndReason::kStopped);
  EXPECT_EQ(RoundTrip(Finished{EndReason::kInvalidHp, ""}).reason,
            EndReason::kInvalidHp);
  EXPECT_EQ(RoundTrip(Finished{EndReason::kUserStop, ""}).reason,
            EndReason::kUserStop);
}

TEST(MessageTest, EveryReasonToEndRoundTrips) {
  for (const EndReason reason :
       {EndReason::kCompleted, EndReason::kStopped, EndReason::kInvalidHp,
        EndReason::kUserStop, EndReason::kDamaged, EndReason::kDiskFull,
        EndReason::kNotFound, EndReason::kRefused, EndReason::kError}) {
    const auto finished = RoundTrip(Finished{reason, "why", {"lr"}});
    EXPECT_EQ(finished.reason, reason);
    EXPECT_EQ(finished.message, "why");
    EXPECT_THAT(finished.unread, ElementsAre("lr"));
  }
}

TEST(MessageTest, RunnerMessagesRoundTrip) {
  EXPECT_EQ(RoundTripOfRunner(RunOperation{{5, Unit::kRecords}}).until,
            (Length{5, Unit::kRecords}));
  EXPECT_EQ(RoundTripOfRunner(Acknowledge{12}).seq, 12);
  EXPECT_NO_THROW(RoundTripOfRunner(CloseTrial{}));
  EXPECT_NO_THROW(RoundTripOfRunner(StopTrial{}));
}

}  // namespace
}  // namespace dtrain
