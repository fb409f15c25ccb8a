#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/wire/message.h"

namespace dtrain {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

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
