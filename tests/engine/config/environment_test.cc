#include "engine/config/environment.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/config/bad_config.h"

namespace dtrain {
namespace {

using Variables = std::vector<std::pair<std::string, std::string>>;

class BadEnvironmentTest : public testing::TestWithParam<BadConfig> {};

TEST_P(BadEnvironmentTest, IsRefusedWithItsPlaceAndNoValue) {
  ExpectRefused(GetParam());
  for (const auto& error : ReadFindings(GetParam().text, Severity::kError)) {
    EXPECT_THAT(error.ToString(), testing::Not(testing::HasSubstr("canary")));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Values, BadEnvironmentTest,
    testing::Values(
        BadConfig{"Scalar",
                  kValid + "environment: {environment_variables: "
                           "canary}\n",
                  3, 38, "environment.environment_variables", "a map"},
        BadConfig{"BadName",
                  kValid + "environment: {environment_variables: "
                           "{1A: canary}}\n",
                  3, 39, "environment.environment_variables", "a name"},
        BadConfig{"NoName",
                  kValid + "environment: {environment_variables: "
                           "['=canary']}\n",
                  3, 39, "environment.environment_variables", "NAME=value"},
        BadConfig{"ValueWithoutName",
                  kValid + "environment: {environment_variables: "
                           "['canary-x']}\n",
                  3, 39, "environment.environment_variables", "NAME=value"},
        BadConfig{"Twice",
                  kValid + "environment: {environment_variables: "
                           "[A=canary, A=canary]}\n",
                  3, 49, "environment.environment_variables.A",
                  "duplicate variable"},
        BadConfig{"MapAsValue",
                  kValid + "environment: {environment_variables: "
                           "{A: {canary: 1}}}\n",
                  3, 39, "environment.environment_variables.A", "a string"},
        BadConfig{"BadNameOfADevice",
                  kValid + "environment: {environment_variables: "
                           "{cuda: ['1A=canary']}}\n",
                  3, 46, "environment.environment_variables.cuda", "a name"},
        BadConfig{"CudaTwice",
                  kValid + "environment: {environment_variables: "
                           "{cuda: [A=canary], gpu: [B=canary]}}\n",
                  3, 57, "environment.environment_variables.gpu",
                  "the same as cuda"}),
    CaseName);

TEST(EnvironmentTest, ReadsMaps) {
  const auto result = ReadConfig(
      kValid + "environment: {environment_variables: {B: x=y, A: 010, C: }}\n",
      {});

  EXPECT_EQ(result.config->environment.everywhere,
            (Variables{{"B", "x=y"}, {"A", "010"}}));
}

TEST(EnvironmentTest, ReadsLists) {
  const auto result = ReadConfig(
      kValid + "environment: {environment_variables: [B=x=y, A=, C]}\n", {});

  EXPECT_EQ(result.config->environment.everywhere,
            (Variables{{"B", "x=y"}, {"A", ""}}));
}

// Determined's form: a list for each kind of device.
TEST(EnvironmentTest, ReadsTheVariablesOfEachDevice) {
  const auto result = ReadConfig(
      kValid +
          "environment: {environment_variables: {A: 1, B: 2, cpu: [A=cpu], "
          "cuda: {A: cuda, C: 3}}}\n",
      {});

  const TrialEnvironment& environment = result.config->environment;
  EXPECT_EQ(environment.For(/*on_gpus=*/false),
            (Variables{{"B", "2"}, {"A", "cpu"}}));
  EXPECT_EQ(environment.For(/*on_gpus=*/true),
            (Variables{{"B", "2"}, {"A", "cuda"}, {"C", "3"}}));
}

TEST(EnvironmentTest, RefusesAStringInPlaceOfAList) {
  const auto errors = ReadFindings(
      kValid + "environment: {environment_variables: {cpu: A=1}}\n",
      Severity::kError);
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].key, "environment.environment_variables.cpu");
  EXPECT_THAT(errors[0].message, testing::HasSubstr("write a list"));
}

TEST(EnvironmentTest, TakesTheFormerNameOfCuda) {
  const auto result = ReadConfig(
      kValid + "environment: {environment_variables: {gpu: [A=1]}}\n", {});

  EXPECT_EQ(result.config->environment.cuda, (Variables{{"A", "1"}}));
}

TEST(EnvironmentTest, WarnsOfVariablesOfAmdGpus) {
  const auto notes = ReadFindings(
      kValid + "environment: {environment_variables: {rocm: [A=canary]}}\n",
      Severity::kNote);

  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(
      notes[0].ToString(),
      "bad.yaml:3:39: environment.environment_variables.rocm: note: ignored: "
      "AMD GPUs are not used");
}

TEST(EnvironmentTest, RecordsTheNamesOfEachDevice) {
  const auto result = ReadConfig(
      kValid + "environment: {environment_variables: {cpu: [A=canary]}}\n", {});

  const auto again = ReadConfig(ToYaml(result.config->effective), {});
  ASSERT_TRUE(again.config);
  EXPECT_EQ(again.config->effective["environment"]["environment_variables"],
            nlohmann::json::parse(R"({"cpu": {"A": null}})"));
  EXPECT_THAT(result.config->effective.dump(),
              testing::Not(testing::HasSubstr("canary")));
}

TEST(EnvironmentTest, KeepsValuesOutOfTheRecord) {
  const auto result = ReadConfig(
      kValid + "environment: {environment_variables: [TOKEN=canary]}\n", {});

  const std::string record = result.config->effective.dump();
  EXPECT_THAT(record, testing::HasSubstr("TOKEN"));
  EXPECT_THAT(record, testing::Not(testing::HasSubstr("canary")));
  EXPECT_THAT(ToYaml(result.config->effective),
              testing::Not(testing::HasSubstr("canary")));
}

TEST(WithoutValuesTest, ReplacesTheLongestValue) {
  EXPECT_EQ(WithoutValues("abcdef abcd abc", {{"A", "abcd"}, {"B", "abcdef"}}),
            "REDACTED REDACTED abc");
}

TEST(WithoutValuesTest, ReplacesEachLineOfAValue) {
  EXPECT_EQ(WithoutValues("first second", {{"A", "first\r\nsecond\n"}}),
            "REDACTED REDACTED");
}

TEST(WithoutValuesTest, ReplacesWhatACutTextHasLeft) {
  const Variables variables = {{"A", "abcdefgh"}};
  EXPECT_EQ(WithoutValues("is 'abcdef...', or abcd...", variables),
            "is 'REDACTED...', or REDACTED...");
  EXPECT_EQ(WithoutValues("abc... bcdefgh... abcdef.", variables),
            "abc... bcdefgh... abcdef.");
}

TEST(WithoutValuesTest, KeepsShortValues) {
  EXPECT_EQ(WithoutValues("abc... abc", {{"A", "abc"}, {"B", ""}}),
            "abc... abc");
}

}  // namespace
}  // namespace dtrain
