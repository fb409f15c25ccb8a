#include "engine/nodes/distributed_env.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"

namespace dtrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

std::optional<DistributedEnv> PlaceFrom(const Variables& variables) {
  return ReadDistributedEnv(
      [&](const std::string& name) -> std::optional<std::string> {
        const auto found = variables.find(name);
        if (found == variables.end()) return std::nullopt;
        return found->second;
      });
}

// The second of two processes, with these variables instead or besides.
std::optional<DistributedEnv> SecondWith(const Variables& others) {
  Variables variables = others;
  variables.merge(Variables{{"RANK", "1"},
                            {"WORLD_SIZE", "2"},
                            {"MASTER_ADDR", "127.0.0.1"},
                            {"MASTER_PORT", "29400"}});
  return PlaceFrom(variables);
}

std::string RefusalText(const Variables& others) {
  try {
    SecondWith(others);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return "it was taken";
}

TEST(DistributedEnvTest, IsReadFromTheEnvironment) {
  const auto place = SecondWith({});

  ASSERT_TRUE(place);
  EXPECT_EQ(place->rank, 1);
  EXPECT_EQ(place->world_size, 2);
  EXPECT_EQ(ToString(place->runner), "127.0.0.1:29400");
  EXPECT_TRUE(place->follows());
  EXPECT_FALSE(SecondWith({{"RANK", "0"}})->follows());
}

TEST(DistributedEnvTest, IsEmptyForOneProcess) {
  EXPECT_FALSE(PlaceFrom({}));
  EXPECT_FALSE(PlaceFrom({{"RANK", "7"}, {"MASTER_PORT", "none"}}));
  EXPECT_FALSE(PlaceFrom({{"WORLD_SIZE", "1"}, {"RANK", "x"}}));
  EXPECT_FALSE(PlaceFrom({{"WORLD_SIZE", ""}}));
}

TEST(DistributedEnvTest, PortIsOptional) {
  EXPECT_EQ(SecondWith({{"MASTER_PORT", ""}})->runner.port, 29500);
}

TEST(DistributedEnvTest, LocalWorldSizeCanMakeAllRanksLocal) {
  EXPECT_FALSE(SecondWith({})->all_here);
  EXPECT_FALSE(SecondWith({{"LOCAL_WORLD_SIZE", "1"}})->all_here);
  EXPECT_TRUE(SecondWith({{"LOCAL_WORLD_SIZE", "2"}})->all_here);
  EXPECT_THAT(RefusalText({{"LOCAL_WORLD_SIZE", "all"}}),
              HasSubstr("LOCAL_WORLD_SIZE=all: "));
}

TEST(DistributedEnvTest, NamesAnInvalidNumber) {
  EXPECT_THAT(RefusalText({{"RANK", "one"}}), HasSubstr("RANK=one: "));
  EXPECT_THAT(RefusalText({{"RANK", "1 "}}), HasSubstr("RANK=1 : "));
  EXPECT_THAT(RefusalText({{"WORLD_SIZE", "2.5"}}),
              HasSubstr("WORLD_SIZE=2.5: expected a number"));
  EXPECT_THAT(RefusalText({{"MASTER_PORT", "http"}}),
              HasSubstr("MASTER_PORT=http: expected a number from 1 to 65535"));
  EXPECT_THAT(RefusalText({{"RANK", "\x1b[31m"}}), Not(HasSubstr("\x1b")));
}

TEST(DistributedEnvTest, NamesANumberOutOfRange) {
  EXPECT_THAT(RefusalText({{"RANK", "2"}}),
              AllOf(HasSubstr("RANK=2: "), HasSubstr("WORLD_SIZE is 2")));
  EXPECT_THAT(RefusalText({{"RANK", "-1"}}), HasSubstr("RANK=-1: "));
  EXPECT_THAT(RefusalText({{"WORLD_SIZE", "0"}}), HasSubstr("WORLD_SIZE=0: "));
  EXPECT_THAT(RefusalText({{"WORLD_SIZE", "99999999999999999999"}}),
              AllOf(HasSubstr("expected a number from 1 to 128"),
                    HasSubstr("or unset it")));
  EXPECT_THAT(RefusalText({{"MASTER_PORT", "65536"}}),
              HasSubstr("MASTER_PORT=65536: "));
}

TEST(DistributedEnvTest, NamesMissingVariables) {
  EXPECT_THAT(RefusalText({{"RANK", ""}}),
              HasSubstr("WORLD_SIZE=2, but RANK is not set"));
  EXPECT_THAT(RefusalText({{"MASTER_ADDR", ""}}),
              HasSubstr("WORLD_SIZE=2, but MASTER_ADDR is not set"));
}

TEST(DistributedEnvTest, NamesAnUnknownHost) {
  EXPECT_THAT(RefusalText({{"MASTER_ADDR", "no-such-host.invalid"}}),
              HasSubstr("MASTER_ADDR=no-such-host.invalid: "));
}

// The second of three tasks on three nodes, with these variables instead or
// besides.
std::optional<DistributedEnv> SecondTaskWith(const Variables& others) {
  Variables variables = others;
  variables.merge(Variables{{"SLURM_JOB_ID", "12"},
                            {"SLURM_NTASKS", "3"},
                            {"SLURM_PROCID", "1"},
                            {"SLURM_STEP_ID", "3"},
                            {"SLURM_STEP_NODELIST", "127.0.0.[1-3]"},
                            {"SLURM_STEP_NUM_NODES", "3"},
                            {"SLURM_STEP_NUM_TASKS", "3"}});
  return PlaceFrom(variables);
}

TEST(DistributedEnvTest, IsDerivedFromAStepOfSrun) {
  const auto place = SecondTaskWith({});

  ASSERT_TRUE(place);
  EXPECT_EQ(place->rank, 1);
  EXPECT_EQ(place->world_size, 3);
  EXPECT_EQ(ToString(place->runner), "127.0.0.1:20015");
  EXPECT_FALSE(place->all_here);
  EXPECT_TRUE(place->from_step);
  EXPECT_EQ(SizeText(*place), "srun started 3 tasks");
}

TEST(DistributedEnvTest, StepsHavePortsOfTheirOwn) {
  const auto port = [](const Variables& variables) {
    return SecondTaskWith(variables)->runner.port;
  };
  EXPECT_EQ(port({{"SLURM_STEP_ID", "4"}}), 20016);
  EXPECT_EQ(port({{"SLURM_JOB_ID", "4294967295"}, {"SLURM_STEP_ID", "0"}}),
            27295);
  EXPECT_EQ(port({{"SLURM_JOB_ID", "none"}, {"SLURM_STEP_ID", ""}}), 20000);
}

TEST(DistributedEnvTest, VariablesTakePrecedenceOverTheStep) {
  const auto place = SecondTaskWith({{"RANK", "2"},
                                     {"WORLD_SIZE", "3"},
                                     {"MASTER_ADDR", "127.0.0.9"},
                                     {"MASTER_PORT", "29400"}});
  ASSERT_TRUE(place);
  EXPECT_EQ(place->rank, 2);
  EXPECT_EQ(ToString(place->runner), "127.0.0.9:29400");
  EXPECT_FALSE(place->from_step);
  EXPECT_EQ(SecondTaskWith({{"WORLD_SIZE", "3"}})->rank, 1);
  EXPECT_FALSE(SecondTaskWith({{"WORLD_SIZE", "1"}}));
}

TEST(DistributedEnvTest, NothingIsDerivedForAnotherNumberOfProcesses) {
  try {
    SecondTaskWith({{"WORLD_SIZE", "2"}});
    FAIL() << "it was taken";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("WORLD_SIZE=2, but RANK is not set"));
  }
}

TEST(DistributedEnvTest, TasksOnOneNodeUseItsLoopbackAddress) {
  const auto place = SecondTaskWith(
      {{"SLURM_STEP_NODELIST", "node7"}, {"SLURM_STEP_NUM_NODES", "1"}});
  ASSERT_TRUE(place);
  EXPECT_EQ(place->runner.host, "127.0.0.1");
  EXPECT_TRUE(place->all_here);
}

TEST(DistributedEnvTest, ABatchScriptIsNotAStep) {
  EXPECT_FALSE(PlaceFrom({{"SLURM_JOB_ID", "12"},
                          {"SLURM_NTASKS", "3"},
                          {"SLURM_PROCID", "0"},
                          {"SLURM_JOB_NODELIST", "n[1-3]"}}));
  EXPECT_FALSE(
      SecondTaskWith({{"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_PROCID", "0"}}));
}

TEST(DistributedEnvTest, NamesTheFirstNodeOfAStepIfItIsUnknown) {
  const auto refusal = [](const std::string& nodes) -> std::string {
    try {
      SecondTaskWith({{"SLURM_STEP_NODELIST", nodes}});
    } catch (const Error& error) {
      return error.what();
    }
    return "it was taken";
  };
  EXPECT_THAT(refusal("no[07-09,12]-a[3]z.invalid,other"),
              AllOf(HasSubstr("MASTER_ADDR=no07-a3z.invalid: "),
                    HasSubstr("the first node of the step of srun")));
  EXPECT_THAT(refusal("one.invalid,two"),
              HasSubstr("MASTER_ADDR=one.invalid: "));
  EXPECT_THAT(refusal("broken.invalid["),
              HasSubstr("MASTER_ADDR=broken.invalid: "));
}

}  // namespace
}  // namespace dtrain
