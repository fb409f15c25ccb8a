#include "engine/report/profile_view.h"

#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

// 20 s in all, 4 of them validations and checkpoints.
const ProfileReport kProfile{.trained = 1'000,
                             .samples = 64'000,
                             .seconds = {1, 4, 7, 1, 2, 0.5, 3, 1, 0.5},
                             .minor_faults = 250,
                             .peak_bytes = 12'300'000};

std::string ToText(const ProfileReport& profile) {
  std::ostringstream out;
  ProfileTable(profile).PrintText(out, {});
  return out.str();
}

TEST(ProfileViewTest, UnprofiledTrialHasNoProfile) {
  EXPECT_EQ(ProfileJson(std::nullopt), nullptr);
}

TEST(ProfileViewTest, UntrainedTrialHasNoRates) {
  const json object = ProfileJson(ProfileReport{});

  EXPECT_EQ(object["samples_per_second"], 0);
  EXPECT_EQ(object["minor_faults_per_batch"], 0);
  EXPECT_EQ(object["phases"]["data"]["milliseconds_per_batch"], 0);
  EXPECT_EQ(object["phases"]["data"]["share"], 0);
  EXPECT_THAT(ToText({}), HasSubstr("0.000   0.0%"));
}

TEST(ProfileViewTest, NumbersHaveTheirUnitsInTheirNames) {
  const json object = ProfileJson(kProfile);

  EXPECT_EQ(object["batches"], 1'000);
  EXPECT_EQ(object["samples"], 64'000);
  EXPECT_EQ(object["wall_seconds"], 20);
  EXPECT_EQ(object["samples_per_second"], 4'000);
  EXPECT_EQ(object["phases"].size(), 9u);
  EXPECT_EQ(
      object["phases"]["backward"],
      json({{"seconds", 7}, {"milliseconds_per_batch", 7}, {"share", 0.35}}));
  EXPECT_EQ(object["minor_faults"], 250);
  EXPECT_EQ(object["minor_faults_per_batch"], 0.25);
  EXPECT_EQ(object["peak_memory_bytes"], 12'300'000);
  EXPECT_EQ(object["gpu_memory_bytes"], nullptr);
  EXPECT_EQ(object["gpu_utilization_percent"], nullptr);
}

TEST(ProfileViewTest, ShowsTheGpuIfThereIsOne) {
  ProfileReport profile = kProfile;
  profile.gpu_bytes = 5'000;
  profile.gpu_percent = 97;

  EXPECT_EQ(ProfileJson(profile)["gpu_memory_bytes"], 5'000);
  EXPECT_EQ(ProfileJson(profile)["gpu_utilization_percent"], 97);
  EXPECT_THAT(
      ProfileFacts(profile),
      ElementsAre(Pair("samples/s", "4000.0"), Pair("faults/batch", "0.2"),
                  Pair("peak memory", "12.3 MB"), Pair("GPU memory", "5.0 kB"),
                  Pair("GPU busy", "97%")));
}

TEST(ProfileViewTest, TableHasAllPhasesAndTheirSum) {
  EXPECT_EQ(ToText(kProfile),
            "PHASE       MS PER BATCH   SHARE  TIME\n"
            "data               1.000    5.0%  1.0s\n"
            "forward            4.000   20.0%  4.0s\n"
            "backward           7.000   35.0%  7.0s\n"
            "exchange           1.000    5.0%  1.0s\n"
            "optimizer          2.000   10.0%  2.0s\n"
            "report             0.500    2.5%  0.5s\n"
            "validation         3.000   15.0%  3.0s\n"
            "checkpoint         1.000    5.0%  1.0s\n"
            "other              0.500    2.5%  0.5s\n"
            "all               20.000  100.0%   20s\n");
}

}  // namespace
}  // namespace dtrain
