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
  for (const auto& error : FindingsOf(GetParam().text, Severity::kError)) {
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
                  3, 49, "environment.environment_variables.A", "twice"},
        BadConfig{"MapAsValue",
                  kValid + "environment: {environment_variables: "
                           "{A: {canary: 1}}}\n",
                  3, 39, "environment.environment_variables.A", "a text"}),
    CaseName);

TEST(EnvironmentTest, ReadsMaps) {
  const auto result = ReadConfig(
      kValid + "environment: {environment_variables: {B: x=y, A: 010, C: }}\n",
      {});

  EXPECT_EQ(result.config->environment,
            (Variables{{"B", "x=y"}, {"A", "010"}}));
}

TEST(EnvironmentTest, ReadsLists) {
  const auto result = ReadConfig(
      kValid + "environment: {environment_variables: [B=x=y, A=, C]}\n", {});

  EXPECT_EQ(result.config->environment, (Variables{{"B", "x=y"}, {"A", ""}}));
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

}  // namespace
}  // namespace dtrain
