#include "engine/app/secrets.h"

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/config/read_config.h"

namespace dtrain {
namespace {

using testing::HasSubstr;
using testing::Not;

ExperimentConfig Read(const std::string& variables) {
  const std::string yaml =
      "entrypoint: builtin:FaultTrial\n"
      "searcher: {name: single, metric: loss, max_length: 10}\n"
      "environment:\n"
      "  environment_variables: " +
      variables + "\n";
  const ConfigResult result = ReadConfig(yaml, {.file_name = "x.yaml"});
  EXPECT_TRUE(result.config.has_value());
  return result.config.value();
}

TEST(SecretsTest, KeepsATextWithoutVariables) {
  EXPECT_EQ(RecordedYaml("name: x # y\n", {}), "name: x # y\n");
}

TEST(SecretsTest, HidesValuesInTheText) {
  const ExperimentConfig config = Read("{TOKEN: canary123, N: 1}");
  const std::string text =
      "# canary123\nentrypoint: builtin:FaultTrial\n"
      "searcher: {name: single, metric: loss, max_length: 10}\n"
      "environment:\n  environment_variables: {TOKEN: canary123, N: 1}\n";
  EXPECT_EQ(RecordedYaml(text, config),
            "# REDACTED\nentrypoint: builtin:FaultTrial\n"
            "searcher: {name: single, metric: loss, max_length: 10}\n"
            "environment:\n  environment_variables: {TOKEN: REDACTED, N: "
            "REDACTED}\n");
}

TEST(SecretsTest, RecordsTheEffectiveYamlIfAValueIsEscaped) {
  const std::string variables = R"({TOKEN: "can\x61ry123"})";
  const ExperimentConfig config = Read(variables);
  const std::string text =
      "entrypoint: builtin:FaultTrial\n"
      "searcher: {name: single, metric: loss, max_length: 10}\n"
      "environment: {environment_variables: " +
      variables + "}\n";
  const std::string recorded = RecordedYaml(text, config);
  EXPECT_THAT(recorded, Not(HasSubstr("can")));
  EXPECT_THAT(recorded, HasSubstr("TOKEN"));
}

TEST(SecretsTest, HidesOverridesOfVariables) {
  const std::vector<std::string> argv = {
      "dtrain",   "run",
      "--set",    "environment.environment_variables.T=canary",
      "--set",    "hyperparameters.lr=0.1",
      "--",       "train",
      "--notify", "me=you"};
  const std::vector<std::string> expected = {
      "dtrain",   "run",
      "--set",    "environment.environment_variables.T=REDACTED",
      "--set",    "hyperparameters.lr=0.1",
      "--",       "train",
      "--notify", "me=you"};
  EXPECT_EQ(RecordedArgv(argv), expected);
  const std::string secret = "environment.environment_variables.T=canary";
  EXPECT_EQ(RecordedArgv({"dtrain", "create", "--name", "--", "--set", secret})
                .back(),
            "environment.environment_variables.T=REDACTED");
}

constexpr char kCredentials[] =
    "name: bob-1\n"
    "checkpoint_storage: {type: s3, bucket: b, access_key: AKIACANARY,\n"
    "  secret_key: 'canary/key'}  # canary/key\n"
    "environment:\n"
    "  registry_auth:\n"
    "    username: bob\n"
    "    password: \"canary2\"\n";

TEST(SecretsTest, HidesCredentialsOfDetermined) {
  EXPECT_EQ(RecordedYaml(kCredentials, {}),
            "name: bob-1\n"
            "checkpoint_storage: {type: s3, bucket: b, access_key: REDACTED,\n"
            "  secret_key: 'REDACTED'}  # REDACTED\n"
            "environment:\n"
            "  registry_auth:\n"
            "    username: REDACTED\n"
            "    password: \"REDACTED\"\n");
}

TEST(SecretsTest, RecordsTheEffectiveYamlIfACredentialIsEscaped) {
  const std::string recorded = RecordedYaml(
      "environment: {registry_auth: {password: \"can\\x61ry\"}}\n", Read("{}"));
  EXPECT_THAT(recorded, Not(HasSubstr("can")));
  EXPECT_THAT(recorded, HasSubstr("builtin:FaultTrial"));
}

TEST(SecretsTest, HidesOverridesOfCredentials) {
  const std::vector<std::string> argv = {
      "--set", "checkpoint_storage.secret_key=canary",
      "--set", "environment.registry_auth.password=canary",
      "--set", "checkpoint_storage.path=/x"};
  const std::vector<std::string> expected = {
      "--set", "checkpoint_storage.secret_key=REDACTED",
      "--set", "environment.registry_auth.password=REDACTED",
      "--set", "checkpoint_storage.path=/x"};
  EXPECT_EQ(RecordedArgv(argv), expected);
}

TEST(SecretsTest, RestoresValuesFromTheEnvironment) {
  ExperimentConfig config =
      ConfigFromJson(Read("{HOME: x, DTRAIN_NOT_SET: y}").effective);
  const std::vector<std::string> missing = {"DTRAIN_NOT_SET"};
  EXPECT_EQ(FillEnvironment(config), missing);
  const auto& variables = config.environment.everywhere;
  ASSERT_EQ(variables.size(), 1);
  EXPECT_EQ(variables[0].first, "HOME");
  EXPECT_EQ(variables[0].second, std::getenv("HOME"));
}

TEST(SecretsTest, RestoresValuesOfADeviceFromTheEnvironment) {
  ExperimentConfig config =
      ConfigFromJson(Read("{cpu: [HOME=x, DTRAIN_NOT_SET=y]}").effective);
  const std::vector<std::string> missing = {"DTRAIN_NOT_SET"};
  EXPECT_EQ(FillEnvironment(config), missing);
  EXPECT_TRUE(config.environment.everywhere.empty());
  ASSERT_EQ(config.environment.cpu.size(), 1);
  EXPECT_EQ(config.environment.cpu[0].second, std::getenv("HOME"));
}

TEST(SecretsTest, HidesValuesOfEveryDevice) {
  const std::string variables = "{cpu: [A=canary1], rocm: [B=canary2]}";
  const std::string recorded =
      RecordedYaml("environment: {environment_variables: " + variables + "}\n",
                   Read(variables));
  EXPECT_THAT(recorded, Not(HasSubstr("canary")));
}

}  // namespace
}  // namespace dtrain
