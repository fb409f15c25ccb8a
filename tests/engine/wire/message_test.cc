#include "engine/wire/message.h"

#include <cmath>
#include <limits>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"

namespace dtrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;
using testing::StartsWith;

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

TEST(MessageTest, FailedCheckpointRoundTrips) {
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

TEST(MessageTest, EveryKindOfDoubleRoundTrips) {
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

TEST(MessageTest, NamesWithControlsAndQuotesRoundTrip) {
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

struct BadLine {
  const char* name;
  std::string line;
  std::string complaint;
};

std::string Repeated(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

const std::string kReport = "{\"type\":\"training\",\"seq\":1,\"batches\":1,";
const std::string kCompletedWith =
    "{\"type\":\"completed\",\"seq\":1,\"length\":";
const std::string kCompleted =
    kCompletedWith + "{\"batches\":1},\"batches\":1,";
const std::string kSaved =
    "{\"type\":\"checkpoint\",\"seq\":1,\"batches\":1,\"epoch\":0,\"bytes\":1,"
    "\"time\":0,";
const std::string kProfile =
    "{\"type\":\"profile\",\"seq\":1,\"batches\":9,\"samples\":1,"
    "\"minor_faults\":0,\"peak_bytes\":0,\"time\":0,";
const std::string kSevenPhases =
    "\"data\":0,\"forward\":0,\"backward\":0,\"exchange\":0,\"optimizer\":0,"
    "\"report\":0,"
    "\"validation\":0,";
const std::string kSeconds = kSevenPhases + "\"checkpoint\":0,\"other\":0";
const std::string kUuid = "\"uuid\":\"0b5d1b1e-6f4c-4a38-9d6c-3f1a5b2c7d8e\",";

class BadTrialMessageTest : public testing::TestWithParam<BadLine> {};

TEST_P(BadTrialMessageTest, IsRefusedInOneLine) {
  try {
    DecodeTrialMessage(GetParam().line);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kFailed);
    EXPECT_THAT(error.what(), StartsWith("message from the trial: "));
    EXPECT_THAT(error.what(), HasSubstr(GetParam().complaint));
    EXPECT_THAT(error.what(), Not(HasSubstr("\n")));
    EXPECT_LT(std::string(error.what()).size(), 250u);
  }
}

const BadLine kBadLines[] = {
    {"Empty", "", "not JSON at byte"},
    {"NotJson", "hello", "not JSON at byte 1"},
    {"Nul", std::string(3, '\0'), "not JSON"},
    {"HalfALine", R"({"type":"training","se)", "not JSON"},
    {"TrailingText", R"({"type":"ready"} x)", "not JSON"},
    {"TwoDocuments", R"({"type":"ready"}{"type":"ready"})", "not JSON"},
    {"Scalar", "12", "expected a JSON object"},
    {"String", "\"ready\"", "expected a JSON object"},
    {"Array", "[]", "expected a JSON object"},
    {"Null", "null", "expected a JSON object"},
    {"NoType", "{}", "field 'type' is missing"},
    {"UnknownType", R"({"type":"dance"})", "unknown type 'dance'"},
    {"TypeOfRunner", R"({"type":"close"})", "unknown type 'close'"},
    {"EscapesInType", R"({"type":"\u001b[31m"})", "'\\x1b[31m'"},
    {"LongType", R"({"type":")" + std::string(100'000, 'x') + R"("})",
     "unknown type"},
    {"TypeIsNumber", R"({"type":1})", "field 'type' must be a string"},
    {"UnknownField", R"({"type":"ready","colour":1})", "'colour'"},
    {"TwiceTheSame", R"({"type":"ready","type":"ready"})", "comes twice"},
    {"MissingEpoch", kReport + R"("metrics":{},"time":0})",
     "field 'epoch' is missing"},
    {"MissingMetrics", kReport + R"("epoch":0,"time":0})", "'metrics'"},
    {"MetricsAreAList", kReport + R"("epoch":0,"metrics":[1],"time":0})",
     "an object of numbers"},
    {"MetricIsText", kReport + R"("epoch":0,"metrics":{"a":"b"},"time":0})",
     "an object of numbers"},
    {"MetricIsNull", kReport + R"("epoch":0,"metrics":{"a":null},"time":0})",
     "an object of numbers"},
    {"MetricIsNested", kReport + R"("epoch":0,"metrics":{"a":{}},"time":0})",
     "an object of numbers"},
    {"MetricIsHuge", kReport + R"("epoch":0,"metrics":{"a":1e999},"time":0})",
     "number out of range at byte"},
    {"EpochIsNegative", kReport + R"("epoch":-1,"metrics":{},"time":0})",
     "'epoch' must be a number, at least 0"},
    {"EpochIsText", kReport + R"("epoch":"NaN","metrics":{},"time":0})",
     "'epoch'"},
    {"SeqIsZero",
     R"({"type":"training","seq":0,"batches":1,"epoch":0,"metrics":{},)"
     R"("time":0})",
     "field 'seq' must be an integer from 1"},
    {"SeqIsNegative", R"({"type":"training","seq":-1})", "field 'seq'"},
    {"SeqIsFraction", R"({"type":"training","seq":1.5})", "field 'seq'"},
    {"SeqIsText", R"({"type":"training","seq":"1"})", "field 'seq'"},
    {"SeqIsHuge", R"({"type":"training","seq":9223372036854775808})",
     "field 'seq'"},
    {"SeqIsBeyondAll",
     R"({"type":"training","seq":1)" + std::string(400, '0') + "}",
     "number out of range"},
    {"EarlyIsNumber", kCompleted + R"("metrics":{},"early":1})",
     "true or false"},
    {"LengthIsEmpty", kCompletedWith + "{}}", "a length"},
    {"LengthIsPlain", kCompletedWith + "5}", "a length"},
    {"LengthOfTwoUnits", kCompletedWith + R"({"batches":1,"epochs":1}})",
     "a length"},
    {"LengthOfOddUnit", kCompletedWith + R"({"days":1}})", "a length"},
    {"LengthIsNegative", kCompletedWith + R"({"batches":-1}})", "a length"},
    {"UnknownReason", R"({"type":"finished","reason":"bored","message":""})",
     "field 'reason' must be one of completed"},
    {"UuidIsAPath", kSaved + R"("uuid":"../../../etc","files":{}})",
     "is not a UUID"},
    {"UuidOfCapitals",
     kSaved + R"("uuid":"0B5D1B1E-6F4C-4A38-9D6C-3F1A5B2C7D8E","files":{}})",
     "is not a UUID"},
    {"UuidIsTooLong",
     kSaved + R"("uuid":"0b5d1b1e-6f4c-4a38-9d6c-3f1a5b2c7d8e0","files":{}})",
     "is not a UUID"},
    {"UuidIsTooShort",
     kSaved + R"("uuid":"0b5d1b1e-6f4c-4a38-9d6c-3f1a5b2c7d8","files":{}})",
     "is not a UUID"},
    {"FileOutside", kSaved + kUuid + R"("files":{"../x":"ab"}})",
     "not a file of a checkpoint"},
    {"FileIsAbsolute", kSaved + kUuid + R"("files":{"/etc/passwd":"ab"}})",
     "not a file of a checkpoint"},
    {"FileWithNul", kSaved + kUuid + R"("files":{"a\u0000b":"ab"}})",
     "not a file of a checkpoint"},
    {"HashIsNumber", kSaved + kUuid + R"("files":{"a":1}})",
     "an object of strings"},
    {"ProfileWithoutTrained", kProfile + kSeconds + "}",
     "field 'trained' is missing"},
    {"MoreTrainedThanThereWere", kProfile + kSeconds + R"(,"trained":10})",
     "'trained' is more than 'batches'"},
    {"PhaseIsText", kProfile + R"("trained":1,"data":"NaN"})",
     "field 'data' must be a number from 0 to"},
    {"UnknownPhase", kProfile + kSeconds + R"(,"trained":1,"sleep":1})",
     "unknown field 'sleep'"},
    {"MissingPhase",
     kProfile + R"("trained":1,)" + kSevenPhases + R"("other":0})",
     "field 'checkpoint' is missing"},
    {"PhaseTwice", kProfile + kSeconds + R"(,"trained":1,"data":0})",
     "field 'data' comes twice"},
    {"PhaseIsNegative",
     kProfile + R"("trained":1,)" + kSevenPhases +
         R"("checkpoint":0,"other":-1e-9})",
     "field 'other' must be a number from 0 to 1e+09"},
    {"PhaseIsHuge",
     kProfile + R"("trained":1,)" + kSevenPhases +
         R"("checkpoint":0,"other":1.1e9})",
     "field 'other' must be a number from 0 to"},
    {"FaultsAreNegative",
     R"({"type":"profile","seq":1,"batches":9,"trained":1,"samples":1,)" +
         kSeconds + R"(,"minor_faults":-1})",
     "field 'minor_faults'"},
    {"GpuPercentOfText",
     kProfile + kSeconds + R"(,"trained":1,"gpu_percent":"7"})",
     "field 'gpu_percent'"},
    {"GpuBeyondAll", kProfile + kSeconds + R"(,"trained":1,"gpu_percent":101})",
     "field 'gpu_percent' must be an integer from 0 to 100"},
    {"InvalidUtf8", "{\"type\":\"re\xff\xfe\"}", "not JSON at byte"},
    {"SurrogateAlone", R"({"type":"\ud800"})", "not JSON"},
    {"DeepArrays", Repeated("[", 100'000), "expected a JSON object"},
    {"DeepObjects", Repeated("{\"type\":", 100'000), "nests deeper than"},
    {"DeepMetrics", R"({"metrics":)" + Repeated("{\"a\":", 100'000),
     "nests deeper than"},
    {"FieldOfAnotherType", R"({"type":"ready","seq":1})",
     "unknown field 'seq'"},
};

INSTANTIATE_TEST_SUITE_P(Lines, BadTrialMessageTest,
                         testing::ValuesIn(kBadLines),
                         [](const auto& info) { return info.param.name; });

TEST(MessageDecoderTest, NumbersTooSmallForADoubleAreZero) {
  const auto message = DecodeTrialMessage(
      kReport + R"("epoch":0,"metrics":{"a":1e-999},"time":0})");

  EXPECT_EQ(std::get<TrainingReport>(message).metrics.at(0).second, 0);
}

TEST(MessageDecoderTest, FieldsComeInAnyOrder) {
  const auto message = DecodeRunnerMessage(R"({"seq":3,"type":"ack"})");

  EXPECT_EQ(std::get<Acknowledge>(message).seq, 3);
}

TEST(MessageDecoderTest, BadRunnerMessagesNameTheRunner) {
  EXPECT_THROW(DecodeRunnerMessage(R"({"type":"run"})"), Error);
  EXPECT_THROW(DecodeRunnerMessage(R"({"type":"ack","seq":0})"), Error);
  EXPECT_THROW(DecodeRunnerMessage(R"({"type":"ready"})"), Error);
  try {
    DecodeRunnerMessage("x");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), StartsWith("message from the runner: "));
  }
}

}  // namespace
}  // namespace dtrain
