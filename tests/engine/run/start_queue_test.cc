#include "engine/run/start_queue.h"

#include <gtest/gtest.h>

namespace dtrain {
namespace {

using std::chrono::milliseconds;

TEST(StartQueueTest, ServesByTurn) {
  StartQueue queue;
  queue.Add(/*turn=*/7, /*trial=*/1);
  queue.Add(/*turn=*/3, /*trial=*/2);

  EXPECT_EQ(queue.Pop(), 2);
  EXPECT_EQ(queue.Pop(), 1);
  EXPECT_TRUE(queue.empty());
}

TEST(StartQueueTest, CountsATrialOnce) {
  StartQueue queue;
  queue.Add(1, 1);
  queue.Add(1, 1);

  EXPECT_EQ(queue.size(), 1u);
}

TEST(StartQueueTest, HoldsBackTrialsThatWerePutOff) {
  StartQueue queue;
  queue.PutOff(milliseconds(100), /*turn=*/1, /*trial=*/1);
  queue.Add(1, 1);
  queue.Add(2, 2);

  EXPECT_EQ(queue.size(), 1u);
  EXPECT_FALSE(queue.empty());
  EXPECT_EQ(queue.next_wake(), milliseconds(100));
  EXPECT_EQ(queue.Pop(), 2);
}

TEST(StartQueueTest, GivesAWokenTrialItsOldPlace) {
  StartQueue queue;
  queue.PutOff(milliseconds(100), /*turn=*/1, /*trial=*/1);
  queue.Add(/*turn=*/2, /*trial=*/2);

  queue.Wake(milliseconds(99));
  EXPECT_EQ(queue.size(), 1u);
  queue.Wake(milliseconds(100));

  EXPECT_EQ(queue.next_wake(), std::nullopt);
  EXPECT_EQ(queue.Pop(), 1);
}

TEST(StartQueueTest, HoldsTheSlotOfATrialUntilItIsWoken) {
  StartQueue queue;
  queue.PutOff(milliseconds(100), 1, 1, /*keeps_slot=*/true);
  queue.PutOff(milliseconds(100), 2, 2, /*keeps_slot=*/false);
  EXPECT_EQ(queue.held(), 1u);

  queue.Wake(milliseconds(100));
  EXPECT_EQ(queue.held(), 0u);

  queue.PutOff(milliseconds(100), 3, 3, /*keeps_slot=*/true);
  queue.Clear();
  EXPECT_EQ(queue.held(), 0u);
}

TEST(StartQueueTest, ForgetsAllWhenCleared) {
  StartQueue queue;
  queue.Add(1, 1);
  queue.PutOff(milliseconds(1), 2, 2);

  queue.Clear();
  EXPECT_TRUE(queue.empty());
  queue.Add(2, 2);
  EXPECT_EQ(queue.size(), 1u);
}

}  // namespace
}  // namespace dtrain
