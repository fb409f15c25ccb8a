#include "engine/app/config_file.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/app/notices.h"
#include "engine/base/error.h"
#include "engine/config/experiment_config.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

template <typename Call>
std::string UsageError(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "not refused";
  return "";
}

TEST(SlotOverridesTest, NeedToSayWhatANumberCounts) {
  EXPECT_THAT(SlotOverrides(""), ElementsAre());
  EXPECT_THAT(SlotOverrides("gpu:2"), ElementsAre("resources.slots=gpu:2"));
  EXPECT_THAT(SlotOverrides("[0, 1]"), ElementsAre("resources.slots=[0, 1]"));
  EXPECT_THAT(
      SlotOverrides("all"),
      ElementsAre("resources.slots=auto", "resources.slots_per_trial=all"));
  for (const char* text : {"0", "-1", "+2", "0x10", "1_000", "1e3"}) {
    EXPECT_THAT(UsageError([&] { SlotOverrides(text); }),
                HasSubstr("write gpu:N for N GPUs, [N] for GPU N"))
        << text;
  }
  EXPECT_THAT(UsageError([] { SlotOverrides(" 1 "); }),
              HasSubstr("write gpu:1 for 1 GPU, [1] for GPU 1, or cpu:1 for 1 "
                        "CPU slot"));
}

TEST(SlotChoiceTest, RefusesWhatNamesNoSlots) {
  for (const char* text : {"tpu", "cpu:x", "[a]", "{}", "null", "gpu:-1"}) {
    EXPECT_THAT(UsageError([&] { ParseSlotChoice(text); }),
                HasSubstr("'" + std::string(text) + "' is not valid here"))
        << text;
  }
}

TEST(ListenOverrideTest, QuotesAnAddressInBrackets) {
  EXPECT_EQ(ListenOverride("0.0.0.0:7000"), "resources.listen=0.0.0.0:7000");
  EXPECT_EQ(ListenOverride("[::1]:7000"), "resources.listen=\"[::1]:7000\"");
}

TEST(RefusalTest, CountsErrorsAndMissingFeatures) {
  const Diagnostic error{.severity = Severity::kError},
      missing{.severity = Severity::kNotYet},
      warning{.severity = Severity::kWarning};
  EXPECT_EQ(Refusal({warning}, /*not_yet=*/true), "");
  EXPECT_EQ(Refusal({warning, error}, true), "1 error");
  EXPECT_EQ(Refusal({missing, error, error}, true),
            "2 errors and 1 feature that this version does not support yet");
  EXPECT_EQ(Refusal({missing}, false), "");
}

class DiagnosticsTest : public testing::Test {
 protected:
  DiagnosticsTest() { text_.clear(); }

  static void Keep(const std::string& text) { text_ += text; }

  static inline std::string text_;
  GlobalOptions globals_{.color = ColorChoice::kNever, .write_notice = Keep};
};

TEST_F(DiagnosticsTest, AreLinesWithoutControlCharacters) {
  const Diagnostics findings = {
      {.severity = Severity::kNote, .file = "x.yaml", .message = "seed is 3"},
      {.severity = Severity::kError,
       .file = "x.yaml",
       .line = 4,
       .key = "name",
       .message = "bad \x1b]0;x"}};
  globals_.quiet = true;
  PrintDiagnostics(findings, globals_);
  EXPECT_THAT(text_, HasSubstr("x.yaml:4"));
  EXPECT_THAT(text_, testing::Not(HasSubstr("\x1b")));
  EXPECT_THAT(text_, testing::Not(HasSubstr("seed")));
  globals_.quiet = false;
  PrintDiagnostics(findings, globals_);
  EXPECT_THAT(text_, HasSubstr("note: seed is 3\n"));
}

TEST(ConfigFileTest, IsRefusedIfItIsNoReadableText) {
  const TemporaryDirectory directory;
  const auto path = [&](const char* name) {
    return (directory.path() / name).string();
  };
  std::ofstream(path("small.yaml")) << "name: x\n";
  std::ofstream(path("large.yaml")) << std::string(1'100'000, '#');
  EXPECT_EQ(ReadConfigFile(path("small.yaml")), "name: x\n");
  EXPECT_THAT(UsageError([&] { ReadConfigFile(path("large.yaml")); }),
              HasSubstr("is larger than 1 MB"));
  EXPECT_THAT(UsageError([&] { ReadConfigFile(directory.path().string()); }),
              HasSubstr("is a directory"));
  EXPECT_THAT(UsageError([&] { ReadConfigFile(path("none.yaml")); }),
              HasSubstr("none.yaml"));
}

TEST(ParentDirectoryTest, IsThatOfThePath) {
  EXPECT_EQ(ParentDirectory("a/b.yaml"), "a");
  EXPECT_EQ(ParentDirectory("b.yaml"), ".");
  EXPECT_EQ(ParentDirectory("-"), ".");
}

}  // namespace
}  // namespace dtrain
