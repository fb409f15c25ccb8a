#include "engine/config/entrypoint.h"

#include <array>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/config/yaml_reader.h"

namespace dtrain {
namespace {

class EntrypointTest : public testing::Test {
 protected:
  nlohmann::json Read(const std::string& yaml) {
    const auto node = ReadYaml(yaml, {}, findings_);
    return ReadEntrypoint(node.value(), findings_).value_or(nullptr);
  }
  std::string Error(const std::string& yaml) {
    Read(yaml);
    const Diagnostics all = findings_.Take();
    return all.size() == 1 ? all[0].message : "not one error";
  }

  Findings findings_{"f", {}};
};

TEST_F(EntrypointTest, KeepsTrialsAsTheyAre) {
  EXPECT_EQ(Read("digits:LeNetTrial"), "digits:LeNetTrial");
  EXPECT_EQ(Read("package.model-def:My_Trial2"), "package.model-def:My_Trial2");
}

TEST_F(EntrypointTest, CutsCommandsIntoWords) {
  EXPECT_EQ(Read("python3 train.py  --name 'a b' --x=\"c\"d"),
            nlohmann::json({"python3", "train.py", "--name", "a b", "--x=cd"}));
  EXPECT_EQ(Read("./train.sh"), nlohmann::json::array({"./train.sh"}));
}

TEST_F(EntrypointTest, TakesListsOfWords) {
  EXPECT_EQ(Read("[sh, -c, 'a | b', 5]"),
            nlohmann::json({"sh", "-c", "a | b", "5"}));
}

TEST_F(EntrypointTest, RefusesInvalidEntrypoints) {
  EXPECT_THAT(Error("''"), testing::HasSubstr("is empty"));
  EXPECT_THAT(Error("[]"), testing::HasSubstr("is empty"));
  EXPECT_THAT(Error("['']"), testing::HasSubstr("is empty"));
  EXPECT_THAT(Error("5"), testing::HasSubstr("got the integer 5"));
  EXPECT_THAT(Error("{a: b}"), testing::HasSubstr("got a map"));
  EXPECT_THAT(Error("[a, [b]]"), testing::HasSubstr("got a list"));
}

TEST_F(EntrypointTest, RefusesHalfATrial) {
  EXPECT_THAT(Error("'model_def:'"), testing::HasSubstr("module:Trial"));
  EXPECT_THAT(Error("':Trial'"), testing::HasSubstr("module:Trial"));
  EXPECT_THAT(Error("a:B:C"), testing::HasSubstr("module:Trial"));
}

TEST_F(EntrypointTest, RefusesCommandsThatNeedAShell) {
  EXPECT_THAT(Error("train $HOME"), testing::HasSubstr("not run by a shell"));
  EXPECT_THAT(Error("a; b"), testing::HasSubstr("not run by a shell"));
  EXPECT_THAT(Error("a 'b c"), testing::HasSubstr("unclosed quote"));
}

TEST_F(EntrypointTest, WarnsOfUnregisteredTrials) {
  const ReadOptions options{.known_entrypoints = {"digits:LeNetTrial"}};

  CheckEntrypoint("digits:LeNetTrail", {3, 1}, options, findings_);
  CheckEntrypoint("digits:LeNetTrial", {3, 1}, options, findings_);
  CheckEntrypoint(nlohmann::json({"sh"}), {3, 1}, options, findings_);
  CheckEntrypoint("other:Trial", {3, 1}, {}, findings_);

  const Diagnostics all = findings_.Take();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].severity, Severity::kWarning);
  EXPECT_THAT(all[0].message, testing::HasSubstr("'digits:LeNetTrial'?"));
}

TEST_F(EntrypointTest, RefusesUnregisteredTrialsOnRequest) {
  CheckEntrypoint("digits:LeNetTrail", {3, 1},
                  {.known_entrypoints = {"digits:LeNetTrial"},
                   .refuse_unknown_entrypoint = true},
                  findings_);

  const Diagnostics all = findings_.Take();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].severity, Severity::kError);
  EXPECT_THAT(all[0].message,
              testing::HasSubstr("unknown model 'digits:LeNetTrail'; did you "
                                 "mean 'digits:LeNetTrial'?"));
}

}  // namespace
}  // namespace dtrain
