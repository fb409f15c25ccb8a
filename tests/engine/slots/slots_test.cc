#include "engine/slots/slots.h"

#include <gmock/gmock.h>

#include "engine/base/error.h"
#include "engine/config/experiment_config.h"

namespace dtrain {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::int64_t kGib = std::int64_t{1} << 30;

class PlanSlotsTest : public ::testing::Test {
 protected:
  static std::vector<Gpu> TwoGpus() {
    return {{.index = 0,
             .uuid = "GPU-a",
             .name = "NVIDIA A",
             .memory_bytes = 24 * kGib,
             .free_bytes = 3 * kGib},
            {.index = 1,
             .uuid = "GPU-b",
             .name = "NVIDIA B",
             .memory_bytes = 16 * kGib,
             .free_bytes = 15 * kGib}};
  }
  static ResourcesConfig Slots(SlotChoice::Kind kind, std::int64_t cpus = 0) {
    ResourcesConfig resources;
    resources.slots.kind = kind;
    resources.slots.cpu_slots = cpus;
    return resources;
  }
  static ResourcesConfig PerTrial(double slots,
                                  ResourcesConfig resources = {}) {
    resources.slots_per_trial = slots;
    return resources;
  }
  static std::string Refusal(const ResourcesConfig& resources,
                             std::vector<Gpu> gpus, std::int64_t cpus = 4) {
    try {
      PlanSlots(resources, std::move(gpus), cpus, 0);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kResources);
      return error.what();
    }
    return "";
  }
};

TEST_F(PlanSlotsTest, AutoTakesEveryGpu) {
  const SlotPlan plan = PlanSlots({}, TwoGpus(), 8, 1);
  EXPECT_EQ(plan.count, 2);
  EXPECT_EQ(plan.threads, 4);
  EXPECT_THAT(plan.gpus, SizeIs(2));
  EXPECT_EQ(plan.ToString(), "2 GPU slots: NVIDIA A, NVIDIA B");
}

TEST_F(PlanSlotsTest, AutoWithoutGpuHasASlotForEachTrial) {
  const SlotPlan plan = PlanSlots({}, {}, 9, 2);
  EXPECT_EQ(plan.count, 2);
  EXPECT_EQ(plan.threads, 4);
  EXPECT_EQ(plan.cpu_tokens_per_trial, 4);
  EXPECT_EQ(plan.cpu_tokens, 9);
  EXPECT_EQ(plan.ToString(), "2 CPU slots, 4 threads each");
}

TEST_F(PlanSlotsTest, ASingleTrialGetsAllCpus) {
  const SlotPlan plan = PlanSlots({}, {}, 2, 1);
  EXPECT_EQ(plan.count, 1);
  EXPECT_EQ(plan.ToString(), "1 CPU slot, 2 threads");
}

TEST_F(PlanSlotsTest, AutoWithoutBoundHasASlotForEachCpu) {
  const SlotPlan plan = PlanSlots({}, {}, 2, 0);
  EXPECT_EQ(plan.count, 2);
  EXPECT_EQ(plan.ToString(), "2 CPU slots, 1 thread each");
}

TEST_F(PlanSlotsTest, NoneUsesNoGpu) {
  const SlotPlan plan =
      PlanSlots(Slots(SlotChoice::Kind::kNone), TwoGpus(), 4, 4);
  EXPECT_THAT(plan.gpus, IsEmpty());
  EXPECT_EQ(plan.count, 4);
}

TEST_F(PlanSlotsTest, CpuWithANumberGivesThatManySlots) {
  const SlotPlan plan =
      PlanSlots(Slots(SlotChoice::Kind::kCpu, 3), TwoGpus(), 8, 1);
  EXPECT_EQ(plan.count, 3);
  EXPECT_EQ(plan.threads, 2);
  EXPECT_EQ(plan.cpu_tokens, 8);
}

TEST_F(PlanSlotsTest, MoreCpuSlotsThanCpusHaveOneThreadEach) {
  const SlotPlan plan = PlanSlots(Slots(SlotChoice::Kind::kCpu, 5), {}, 2, 0);
  EXPECT_EQ(plan.count, 5);
  EXPECT_EQ(plan.threads, 1);
  EXPECT_EQ(plan.cpu_tokens_per_trial, 1);
  EXPECT_EQ(plan.cpu_tokens, 5);
}

TEST_F(PlanSlotsTest, MaxSlotsBoundsGpus) {
  ResourcesConfig resources;
  resources.max_slots = 1;
  const SlotPlan plan = PlanSlots(resources, TwoGpus(), 8, 0);
  EXPECT_EQ(plan.count, 1);
  EXPECT_THAT(plan.gpus, SizeIs(2)) << "either will do";
}

TEST_F(PlanSlotsTest, MaxSlotsBoundsCpus) {
  ResourcesConfig resources;
  resources.max_slots = 2;
  const SlotPlan plan = PlanSlots(resources, {}, 8, 0);
  EXPECT_EQ(plan.count, 2);
  EXPECT_EQ(plan.threads, 4);
}

TEST_F(PlanSlotsTest, MostFreeTakesOneGpu) {
  const SlotPlan plan =
      PlanSlots(Slots(SlotChoice::Kind::kMaxFree), TwoGpus(), 4, 8);
  ASSERT_THAT(plan.gpus, SizeIs(1));
  EXPECT_EQ(plan.gpus[0].index, 1);
  EXPECT_EQ(plan.count, 1);
  EXPECT_EQ(plan.ToString(), "1 GPU slot: NVIDIA B");
}

TEST_F(PlanSlotsTest, MostFreeNeedsAGpu) {
  EXPECT_THAT(Refusal(Slots(SlotChoice::Kind::kMaxFree), {}),
              HasSubstr("this machine has no GPU"));
}

TEST_F(PlanSlotsTest, NumberOfGpusMayBeAnyOfThem) {
  ResourcesConfig resources = Slots(SlotChoice::Kind::kGpu);
  resources.slots.gpu_slots = 1;
  const SlotPlan plan = PlanSlots(resources, TwoGpus(), 4, 8);
  EXPECT_THAT(plan.gpus, SizeIs(2));
  EXPECT_EQ(plan.count, 1);
}

TEST_F(PlanSlotsTest, PlansNoMoreGpusThanExist) {
  ResourcesConfig resources = Slots(SlotChoice::Kind::kGpu);
  resources.slots.gpu_slots = 3;
  EXPECT_EQ(Refusal(resources, TwoGpus()),
            "resources.slots: gpu:3 asks for 3 GPUs and this machine has GPU 0 "
            "(NVIDIA A), GPU 1 (NVIDIA B); use 'auto' or 'cpu'");
}

TEST_F(PlanSlotsTest, IdsChooseGpus) {
  ResourcesConfig resources = Slots(SlotChoice::Kind::kIds);
  resources.slots.gpus = {1, 1};
  const SlotPlan plan = PlanSlots(resources, TwoGpus(), 4, 0);
  ASSERT_THAT(plan.gpus, SizeIs(1));
  EXPECT_EQ(plan.gpus[0].uuid, "GPU-b");
}

TEST_F(PlanSlotsTest, UnknownIdsAreRefused) {
  ResourcesConfig resources = Slots(SlotChoice::Kind::kIds);
  resources.slots.gpus = {0, 7};
  EXPECT_EQ(Refusal(resources, TwoGpus()),
            "resources.slots: there is no GPU 7; this machine has GPU 0 "
            "(NVIDIA A), GPU 1 (NVIDIA B)");
}

TEST_F(PlanSlotsTest, FourTrialsHaveAQuarterOfEachGpu) {
  const SlotPlan plan = PlanSlots(PerTrial(0.25), TwoGpus(), 24, 1);
  EXPECT_EQ(plan.count, 8);
  EXPECT_EQ(plan.slots_per_trial, 1);
  EXPECT_EQ(plan.gpu_share, 0.25);
  EXPECT_EQ(plan.threads, 3);
  EXPECT_EQ(plan.ToString(), "8 GPU slots of a quarter: NVIDIA A, NVIDIA B");
}

TEST_F(PlanSlotsTest, TwoTrialsHaveAHalfOfEachGpu) {
  const SlotPlan plan = PlanSlots(PerTrial(0.5), TwoGpus(), 2, 1);
  EXPECT_EQ(plan.count, 4);
  EXPECT_EQ(plan.threads, 1) << "there are not enough cores, and yet one each";
  EXPECT_EQ(plan.ToString(), "4 GPU slots of a half: NVIDIA A, NVIDIA B");
}

TEST_F(PlanSlotsTest, OneTrialHasThreeQuartersOfEachGpu) {
  const SlotPlan plan = PlanSlots(PerTrial(0.75), TwoGpus(), 8, 1);
  EXPECT_EQ(plan.count, 2);
  EXPECT_EQ(plan.threads, 4);
  EXPECT_EQ(plan.ToString(),
            "2 GPU slots of three quarters: NVIDIA A, NVIDIA B");
}

TEST_F(PlanSlotsTest, MaxSlotsCountsTheGpusThatAreShared) {
  ResourcesConfig resources = PerTrial(0.25);
  resources.max_slots = 1;
  const SlotPlan plan = PlanSlots(resources, TwoGpus(), 16, 0);
  EXPECT_EQ(plan.count, 4);
  EXPECT_EQ(plan.threads, 2) << "the other GPU's trials need theirs";
  EXPECT_THAT(plan.gpus, SizeIs(2)) << "either will do";
}

TEST_F(PlanSlotsTest, OneChosenGpuIsShared) {
  const SlotPlan plan = PlanSlots(
      PerTrial(0.5, Slots(SlotChoice::Kind::kMaxFree)), TwoGpus(), 4, 8);
  EXPECT_EQ(plan.ToString(), "2 GPU slots of a half: NVIDIA B");
}

TEST_F(PlanSlotsTest, AShareIsAWholeSlotOnCpus) {
  const SlotPlan chosen =
      PlanSlots(PerTrial(0.25, Slots(SlotChoice::Kind::kCpu)), TwoGpus(), 8, 2);
  EXPECT_EQ(chosen.gpu_share, 1);
  EXPECT_EQ(chosen.slots_per_trial, 1);
  EXPECT_EQ(chosen.ToString(), "2 CPU slots, 4 threads each");
  const SlotPlan without = PlanSlots(PerTrial(0.25), {}, 8, 2);
  EXPECT_EQ(without.gpu_share, 1);
  EXPECT_EQ(without.ToString(), "2 CPU slots, 4 threads each");
}

TEST_F(PlanSlotsTest, AllSlotsAreNoShare) {
  ResourcesConfig resources = PerTrial(0.5);
  resources.all_slots = true;
  const SlotPlan plan = PlanSlots(resources, TwoGpus(), 8, 1);
  EXPECT_EQ(plan.slots_per_trial, 2);
  EXPECT_EQ(plan.gpu_share, 1);
}

TEST_F(PlanSlotsTest, MoreGpusThanExistAreRefused) {
  EXPECT_EQ(Refusal(PerTrial(4), TwoGpus()),
            "resources.slots_per_trial: a trial takes 4 slots, and there are "
            "2; lower it, or set resources.slots to cpu:4");
}

TEST_F(PlanSlotsTest, ATrialOfSeveralGpusHasTheThreadsOfEach) {
  const SlotPlan plan = PlanSlots(PerTrial(2), TwoGpus(), 8, 16);
  EXPECT_EQ(plan.count, 1);
  EXPECT_EQ(plan.slots_per_trial, 2);
  EXPECT_EQ(plan.threads, 4);
  EXPECT_EQ(plan.ToString(), "2 GPU slots, 2 a trial: NVIDIA A, NVIDIA B");
}

TEST_F(PlanSlotsTest, MoreSlotsThanCpusAreRefusedUnlessAskedFor) {
  EXPECT_EQ(Refusal(PerTrial(3), {}, /*cpus=*/2),
            "resources.slots_per_trial: a trial takes 3 slots, and there are "
            "2; lower it, or set resources.slots to cpu:3");
  const SlotPlan plan =
      PlanSlots(PerTrial(3, Slots(SlotChoice::Kind::kCpu, 3)), {}, 2, 1);
  EXPECT_EQ(plan.slots_per_trial, 3);
  EXPECT_EQ(plan.threads, 1);
  EXPECT_EQ(plan.cpu_tokens_per_trial, 3);
  EXPECT_EQ(plan.cpu_tokens, 3);
}

TEST_F(PlanSlotsTest, AutoWithoutGpuHasASlotForEachRank) {
  const SlotPlan two_cores = PlanSlots(PerTrial(2), {}, 2, 1);
  EXPECT_EQ(two_cores.count, 1);
  EXPECT_EQ(two_cores.ToString(), "2 CPU slots, 2 a trial, 1 thread each");
  const SlotPlan eight_cores = PlanSlots(PerTrial(2), {}, 8, 1);
  EXPECT_EQ(eight_cores.count, 1);
  EXPECT_EQ(eight_cores.threads, 4);
  EXPECT_EQ(eight_cores.cpu_tokens_per_trial, 8);
}

TEST_F(PlanSlotsTest, AutoLeavesNoSlotUnused) {
  ResourcesConfig resources = PerTrial(3);
  resources.max_slots = 7;
  const SlotPlan plan = PlanSlots(resources, {}, 12, 16);
  EXPECT_EQ(plan.count, 2);
  EXPECT_EQ(plan.threads, 2);
}

TEST_F(PlanSlotsTest, ATrialOfSeveralCpuSlotsHasTheThreadsOfEach) {
  const SlotPlan plan =
      PlanSlots(PerTrial(2, Slots(SlotChoice::Kind::kCpu, 4)), {}, 8, 16);
  EXPECT_EQ(plan.count, 2);
  EXPECT_EQ(plan.threads, 2);
  EXPECT_EQ(plan.cpu_tokens_per_trial, 4);
  EXPECT_EQ(plan.ToString(), "4 CPU slots, 2 a trial, 2 threads each");
}

TEST_F(PlanSlotsTest, AllSlotsAreOneTrials) {
  ResourcesConfig resources;
  resources.all_slots = true;
  const SlotPlan cpus = PlanSlots(resources, {}, 8, 16);
  EXPECT_EQ(cpus.count, 1);
  EXPECT_EQ(cpus.slots_per_trial, 8);
  EXPECT_EQ(cpus.threads, 1);
  const SlotPlan gpus = PlanSlots(resources, TwoGpus(), 8, 16);
  EXPECT_EQ(gpus.count, 1);
  EXPECT_EQ(gpus.slots_per_trial, 2);
}

TEST_F(PlanSlotsTest, ExcessSlotsStayFree) {
  ResourcesConfig resources = PerTrial(3, Slots(SlotChoice::Kind::kCpu, 8));
  resources.max_slots = 7;
  EXPECT_EQ(PlanSlots(resources, {}, 8, 16).count, 2);
}

TEST_F(PlanSlotsTest, MoreSlotsThanExistAreRefused) {
  EXPECT_EQ(Refusal(PerTrial(4, Slots(SlotChoice::Kind::kCpu, 2)), {}),
            "resources.slots_per_trial: a trial takes 4 slots, and there are "
            "2; lower it, or set resources.slots to cpu:4");
}

TEST_F(PlanSlotsTest, MigInstancesTrainOneTrialEach) {
  const std::vector<Gpu> instances = {
      {.index = 1, .uuid = "MIG-1", .parent = 0},
      {.index = 2, .uuid = "MIG-2", .parent = 0}};
  EXPECT_EQ(PlanSlots({}, instances, 8, 0).count, 2);
  EXPECT_THROW(PlanSlots({.slots_per_trial = 2}, instances, 8, 0), Error);
}

TEST(UsableCpusTest, IsAtLeastOne) { EXPECT_GE(UsableCpus(), 1); }

TEST_F(PlanSlotsTest, SmallMachineOffersPartsOfTrials) {
  const SlotPlan cpus =
      PlanSlots(PerTrial(6, Slots(SlotChoice::Kind::kCpu, 2)), {}, 8, 0, true);
  EXPECT_EQ(cpus.count, 0);
  EXPECT_EQ(cpus.slots_per_trial, 6);
  EXPECT_EQ(cpus.part_slots, 2);
  EXPECT_EQ(cpus.slots(), 2);
  EXPECT_EQ(cpus.ToString(),
            "2 CPU slots for parts of trials of 6 slots, 4 threads each");

  const SlotPlan gpus = PlanSlots(PerTrial(4), TwoGpus(), 8, 0, true);
  EXPECT_EQ(gpus.count, 0);
  EXPECT_EQ(gpus.part_slots, 2);
  EXPECT_EQ(gpus.ToString(),
            "2 GPU slots for parts of trials of 4 slots: NVIDIA A, NVIDIA B");
}

TEST_F(PlanSlotsTest, LargeMachineOffersWholeTrialsOnly) {
  const SlotPlan plan =
      PlanSlots(PerTrial(2, Slots(SlotChoice::Kind::kCpu, 5)), {}, 8, 0, true);
  EXPECT_EQ(plan.count, 2);
  EXPECT_EQ(plan.part_slots, 0);
  EXPECT_EQ(plan.slots(), 4);
}

}  // namespace
}  // namespace dtrain
