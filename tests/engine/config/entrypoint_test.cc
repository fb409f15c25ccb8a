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
    const Diagnostics all = findings_.Release();
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

TEST_F(EntrypointTest, RefusesLaunchersOfDetermined) {
  const nlohmann::json words =
      Read("python3 -m determined.launch.torch_distributed python3 train.py");
  const ReadOptions create = {.refuse_unknown_entrypoint = true};
  CheckEntrypoint(words, {.line = 1, .column = 1}, create, findings_);
  CheckEntrypoint(nlohmann::json{{"command", words}}, {}, {}, findings_);
  CheckEntrypoint(Read("python3 -m determined"), {}, create, findings_);
  const Diagnostics all = findings_.Release();
  ASSERT_EQ(all.size(), 2);
  EXPECT_EQ(all[0].severity, Severity::kError);
  EXPECT_THAT(all[0].message,
              testing::StartsWith("determined.launch.torch_distributed needs a "
                                  "cluster of Determined; start the "));
  EXPECT_THAT(all[0].message, testing::HasSubstr("'torchrun "));
  EXPECT_EQ(all[1].severity, Severity::kWarning);
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

  const Diagnostics all = findings_.Release();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].severity, Severity::kWarning);
  EXPECT_THAT(all[0].message, testing::HasSubstr("'digits:LeNetTrial'?"));
}

TEST_F(EntrypointTest, RefusesUnregisteredTrialsOnRequest) {
  CheckEntrypoint("digits:LeNetTrail", {3, 1},
                  {.known_entrypoints = {"digits:LeNetTrial"},
                   .refuse_unknown_entrypoint = true},
                  findings_);

  const Diagnostics all = findings_.Release();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].severity, Severity::kError);
  EXPECT_THAT(all[0].message,
              testing::HasSubstr("unknown model 'digits:LeNetTrail'; did you "
                                 "mean 'digits:LeNetTrial'?"));
}

TEST_F(EntrypointTest, SuggestsTheModuleOfAClass) {
  CheckEntrypoint(
      "model_def:FaultTrial", {3, 1},
      {.known_entrypoints = {"model_def:ImageNetTrial", "builtin:FaultTrial"}},
      findings_);

  const Diagnostics all = findings_.Release();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_THAT(all[0].message, testing::HasSubstr("'builtin:FaultTrial'?"));
}

class PlaceholderConfigTest : public testing::Test {
 protected:
  static std::string Yaml(const std::string& entrypoint) {
    return "entrypoint: " + entrypoint +
           "\n"
           "hyperparameters:\n"
           "  lr: {type: log, base: 10, minval: -3, maxval: -1}\n"
           "  model: {layers: 3}\n"
           "searcher: {name: random, metric: loss, max_trials: 2, "
           "max_length: {epochs: 4}}\n";
  }
  static ExperimentConfig Read(const std::string& entrypoint) {
    return ReadConfig(Yaml(entrypoint), {}).config.value();
  }
  static nlohmann::json Stored(const std::string& entrypoint) {
    return Read(entrypoint).effective.at("entrypoint");
  }
  static std::string Error(const std::string& yaml) {
    const ConfigResult result = ReadConfig(yaml, {.file_name = "a.yaml"});
    if (result.config || result.diagnostics.size() != 1) return "not one error";
    return result.diagnostics[0].ToString();
  }
  static std::vector<std::string> Words(const ExperimentConfig& config) {
    return std::get<std::vector<std::string>>(config.entrypoint);
  }
};

TEST_F(PlaceholderConfigTest, AreTemplatesInAString) {
  EXPECT_EQ(
      Stored("python train.py --lr={lr} '{model.layers} {{x}}' --n {length}"),
      (nlohmann::json{{"command",
                       {"python", "train.py", "--lr={lr}",
                        "{model.layers} {{x}}", "--n", "{length}"}}}));
  EXPECT_EQ(Stored("a {directory} {seed} {checkpoint} {trial}")["command"][4],
            "{trial}");
}

TEST_F(PlaceholderConfigTest, AreNotNeeded) {
  EXPECT_EQ(Stored("./a --json {{x}}"),
            nlohmann::json({"./a", "--json", "{x}"}));
  EXPECT_FALSE(Read("./a --json {{x}}").placeholders);
}

TEST_F(PlaceholderConfigTest, AreOnlyKnownNamesInAList) {
  EXPECT_EQ(
      Stored(R"([./a, "{lr}", "{x} {lr}", "${lr}"])"),
      (nlohmann::json{{"command", {"./a", "{lr}", "{{x}} {lr}", "${{lr}}"}}}));
  const nlohmann::json literal = {"sh", "-c", "echo {lr} {x}", "${lr}", "{y}"};
  EXPECT_EQ(Stored(literal.dump()), literal);
}

TEST_F(PlaceholderConfigTest, UnknownNamesAreLocated) {
  EXPECT_EQ(Error(Yaml("./a --lr {lrr}")),
            "a.yaml:1:13: entrypoint: character 10: no hyperparameter 'lrr' "
            "for {lrr}; did you mean 'lr'?; write {{ and }} for braces");
  EXPECT_THAT(Error(Yaml("./a {model}")),
              testing::HasSubstr("no hyperparameter 'model' for {model}"));
  EXPECT_THAT(Error(Yaml("./a {")), testing::HasSubstr("character 5: '{' beg"));
  EXPECT_THAT(Error(Yaml("{command: [./a, '{b}']}")),
              testing::HasSubstr("entrypoint.command[1]: character 1: no hyp"));
}

TEST_F(PlaceholderConfigTest, AreInvalidAsProgram) {
  EXPECT_THAT(Error(Yaml("'{lr} --x'")),
              testing::HasSubstr("the program is a placeholder, '{lr}'"));
}

TEST_F(PlaceholderConfigTest, LengthNeedsALength) {
  EXPECT_THAT(Error("entrypoint: ./a {length}\n"
                    "searcher: {name: single, metric: loss}\n"),
              testing::HasSubstr("{length} needs searcher.max_length"));
}

TEST_F(PlaceholderConfigTest, OtherFormsOfAMapAreRefused) {
  EXPECT_THAT(Error(Yaml("{command: ./a}")),
              testing::HasSubstr("or {command: [WORD, ...]}"));
  EXPECT_THAT(Error(Yaml("{command: [a], shell: true}")),
              testing::HasSubstr("or {command: [WORD, ...]}"));
}

// Before there were placeholders, a string was split and stored as a list.
TEST_F(PlaceholderConfigTest, EarlierStoredCommandsStayLiteral) {
  const std::vector<std::string> words = {"./a", "{lr}", "{b}", "{{lr}}"};
  nlohmann::json earlier = Read("./a").effective;
  earlier["entrypoint"] = words;

  const ExperimentConfig stored = ConfigFromJson(earlier);
  EXPECT_EQ(Words(stored), words);
  EXPECT_FALSE(stored.placeholders);

  // As `continue` and `reproduce` read it.
  const auto again = ReadConfig(ToYaml(earlier), {.recorded = true});
  ASSERT_TRUE(again.config) << again.diagnostics[0].ToString();
  EXPECT_EQ(again.config->effective, earlier);
}

TEST_F(PlaceholderConfigTest, AreKeptByTheStoreAndByYaml) {
  for (const char* text : {"./a --lr={lr} {{x}}", R"([./a, "{lr} {x}"])"}) {
    const ExperimentConfig config = Read(text);
    EXPECT_TRUE(config.placeholders);
    EXPECT_EQ(Words(ConfigFromJson(config.effective)), Words(config));
    EXPECT_EQ(ReadConfig(ToYaml(config.effective), {}).config->effective,
              config.effective);
  }
}

}  // namespace
}  // namespace dtrain
