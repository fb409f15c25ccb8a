#include "engine/nodes/placement.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;

using Place = ShardPlace;

// Slots of a machine of which some are free, and a trial has the others.
struct GivenSlots {
  int node = 0;
  std::int64_t all = 0;
  std::int64_t free = 0;
};
using Machines = std::vector<GivenSlots>;

MachineSlots MakeSlots(const Machines& machines, std::int64_t each) {
  MachineSlots slots(each);
  for (const GivenSlots& it : machines) {
    slots.Offer(it.node, it.all);
    slots.Reserve({1, 1}, {it.node, it.all - it.free});
  }
  return slots;
}

std::int64_t RoomForTrials(const Machines& machines, std::int64_t each) {
  return MakeSlots(machines, each).Room();
}

std::vector<ShardPlace> PlaceTrial(const Machines& machines,
                                   std::int64_t each) {
  return MakeSlots(machines, each).Place();
}

TEST(PlacementTest, CountsWholeTrials) {
  EXPECT_EQ(RoomForTrials(Machines{}, 2), 0);
  EXPECT_EQ(RoomForTrials(Machines{{1, 8, 5}, {2, 8, 1}, {3, 2, 2}}, 2), 3);
}

TEST(PlacementTest, CountsTrialsThatSmallMachinesTakeTogether) {
  EXPECT_EQ(RoomForTrials(Machines{{1, 3, 3}, {2, 3, 2}}, 4), 1);
  EXPECT_EQ(RoomForTrials(Machines{{1, 2, 2}, {2, 1, 1}}, 4), 0);
  EXPECT_EQ(RoomForTrials(Machines{{1, 3, 3}, {2, 3, 3}, {3, 2, 2}}, 4), 2);
}

TEST(PlacementTest, PrefersTheRunnersMachine) {
  EXPECT_THAT(PlaceTrial(Machines{{0, 4, 4}, {1, 4, 2}}, 2),
              ElementsAre(Place{0, 2}));
  EXPECT_THAT(PlaceTrial(Machines{{0, 4, 1}, {1, 4, 2}}, 2),
              ElementsAre(Place{1, 2}));
}

TEST(PlacementTest, FillsTheBusiestMachineThatHasRoom) {
  EXPECT_THAT(PlaceTrial(Machines{{1, 8, 8}, {2, 8, 3}, {3, 8, 1}}, 2),
              ElementsAre(Place{2, 2}));
  EXPECT_THAT(PlaceTrial(Machines{{1, 8, 8}, {2, 8, 8}}, 2),
              ElementsAre(Place{1, 2}));
}

TEST(PlacementTest, WaitsWithoutRoom) {
  EXPECT_THAT(PlaceTrial(Machines{}, 1), IsEmpty());
  EXPECT_THAT(PlaceTrial(Machines{{0, 4, 1}, {1, 4, 1}}, 2), IsEmpty());
  EXPECT_THAT(PlaceTrial(Machines{{1, 2, 2}, {2, 1, 1}}, 4), IsEmpty());
}

TEST(PlacementTest, DoesNotDivideATrialThatFitsOnOneMachine) {
  EXPECT_THAT(PlaceTrial(Machines{{1, 3, 3}, {2, 1, 1}, {3, 4, 4}}, 4),
              ElementsAre(Place{3, 4}));
}

// Rests of large machines would spread a trial over many of them.
TEST(PlacementTest, MachineOfWholeTrialsTakesNoParts) {
  EXPECT_THAT(PlaceTrial(Machines{{1, 5, 1}, {2, 5, 1}, {3, 2, 2}}, 4),
              IsEmpty());
  EXPECT_EQ(RoomForTrials(Machines{{1, 5, 1}, {2, 5, 1}, {3, 2, 2}}, 4), 0);
}

TEST(PlacementTest, DividesATrialBetweenAsFewMachinesAsPossible) {
  EXPECT_THAT(
      PlaceTrial(Machines{{1, 1, 1}, {2, 3, 3}, {3, 1, 1}, {4, 2, 2}}, 5),
      ElementsAre(Place{2, 3}, Place{4, 2}));
}

TEST(PlacementTest, TakesTheRestFromTheSmallestMachineThatHasIt) {
  EXPECT_THAT(PlaceTrial(Machines{{1, 3, 3}, {2, 3, 3}, {3, 1, 1}}, 4),
              ElementsAre(Place{1, 3}, Place{3, 1}));
}

TEST(PlacementTest, DividesAfterOtherTrialsHaveTakenSlots) {
  EXPECT_THAT(PlaceTrial(Machines{{0, 3, 0}, {1, 3, 2}, {2, 3, 3}}, 4),
              ElementsAre(Place{2, 3}, Place{1, 1}));
}

TEST(MachineSlotsTest, AnEndedTrialFreesItsSlots) {
  MachineSlots slots(/*slots_per_trial=*/2);
  slots.Offer(1, 4);
  slots.Reserve({1, 7}, {1, 2});
  slots.Reserve({1, 8}, {1, 2});
  EXPECT_EQ(slots.Room(), 0);
  EXPECT_EQ(slots.Capacity(), 2);
  EXPECT_THAT(slots.On(1), SizeIs(2));

  slots.Release({1, 7}, 1);
  slots.Release({1, 7}, 1);  // without effect

  EXPECT_EQ(slots.Room(), 1);
  EXPECT_THAT(slots.On(1), ElementsAre(Pair(TrialId{1, 8}, 2)));
  EXPECT_THAT(slots.Place(), ElementsAre(Place{1, 2}));
}

TEST(MachineSlotsTest, AMachineThatTakesNoMoreKeepsItsTrials) {
  MachineSlots slots(/*slots_per_trial=*/1);
  slots.Offer(1, 2);
  slots.Reserve({1, 7}, {1, 1});

  slots.Offer(1, 0);

  EXPECT_EQ(slots.Capacity(), 0);
  EXPECT_EQ(slots.Room(), 0);
  EXPECT_THAT(slots.Place(), IsEmpty());
  EXPECT_THAT(slots.On(1), SizeIs(1));
  slots.Release({1, 7}, 1);
  EXPECT_THAT(slots.On(1), IsEmpty());
  EXPECT_EQ(slots.Room(), 0);
}

TEST(MachineSlotsTest, AMachineWithFewerSlotsThanInUseHasNoRoom) {
  MachineSlots slots(/*slots_per_trial=*/1);
  slots.Offer(0, 2);
  slots.Reserve({1, 7}, {0, 1});
  slots.Reserve({1, 8}, {0, 1});

  slots.Offer(0, 1);

  EXPECT_EQ(slots.Room(), 0);
  slots.Release({1, 7}, 0);
  EXPECT_EQ(slots.Room(), 0);
  slots.Release({1, 8}, 0);
  EXPECT_EQ(slots.Room(), 1);
}

TEST(MachineSlotsTest, ATrialOfAFixedSetIsOnAllMachines) {
  MachineSlots slots(/*slots_per_trial=*/2, /*fixed_set=*/3);
  slots.Offer(2, 6);
  slots.Offer(0, 4);
  EXPECT_EQ(slots.Capacity(), 0);
  EXPECT_THAT(slots.Place(), IsEmpty());

  slots.Offer(1, 5);
  EXPECT_EQ(slots.Capacity(), 2);
  EXPECT_EQ(slots.Room(), 2);
  EXPECT_THAT(slots.Place(),
              ElementsAre(Place{0, 2}, Place{1, 2}, Place{2, 2}));

  slots.Reserve({1, 7}, {1, 2});
  EXPECT_EQ(slots.Room(), 1);
  slots.Offer(2, 0);
  EXPECT_EQ(slots.Capacity(), 0);
}

}  // namespace
}  // namespace dtrain
