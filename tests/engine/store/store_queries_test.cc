#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/store/store.h"
#include "tests/engine/store/sample_rows.h"

namespace dtrain {
namespace {

using testing::ElementsAre;
using testing::Field;
using testing::IsEmpty;

class StoreQueriesTest : public testing::Test {
 protected:
  Store store_ = Store::OpenForWriting(StoreLayout(":memory:"));
};

TEST_F(StoreQueriesTest, EmptyStoreHasNothing) {
  EXPECT_THAT(store_.Experiments({}), IsEmpty());
  EXPECT_EQ(store_.Experiment(1), std::nullopt);
  EXPECT_THAT(store_.Trials(1), IsEmpty());
  EXPECT_EQ(store_.Trial({1, 1}), std::nullopt);
}

TEST_F(StoreQueriesTest, ExperimentsComeById) {
  AddSample(store_, 0);
  AddSample(store_, 2);

  EXPECT_THAT(
      store_.Experiments({}),
      ElementsAre(Field(&ExperimentRow::id, 1), Field(&ExperimentRow::id, 2)));
  EXPECT_THAT(store_.Experiments({.id = 2}),
              ElementsAre(Field(&ExperimentRow::trials, 2)));
}

TEST_F(StoreQueriesTest, TrialsComeByNumber) {
  AddSample(store_, 0);
  AddSample(store_, 2);

  EXPECT_THAT(store_.Trials(2),
              ElementsAre(Field(&TrialRow::id, TrialId{2, 1}),
                          Field(&TrialRow::id, TrialId{2, 2})));
  EXPECT_EQ(store_.Trial({2, 2})->id, (TrialId{2, 2}));
  EXPECT_EQ(store_.Trial({2, 3}), std::nullopt);
}

TEST_F(StoreQueriesTest, EveryStateComesBack) {
  AddSample(store_, 1);
  const auto state_after = [&](State state) {
    store_.Write([&](StoreWriter& writer) {
      writer.SetTrialState({1, 1}, state, Timestamp(1));
    });
    return store_.Trial({1, 1})->state;
  };

  EXPECT_EQ(state_after(State::kRunning), State::kRunning);
  EXPECT_EQ(state_after(State::kPaused), State::kPaused);
  EXPECT_EQ(state_after(State::kCompleted), State::kCompleted);
  EXPECT_EQ(state_after(State::kCanceled), State::kCanceled);
  EXPECT_EQ(state_after(State::kError), State::kError);
  EXPECT_EQ(state_after(State::kStopped), State::kStopped);
  EXPECT_EQ(state_after(State::kPending), State::kPending);
}

}  // namespace
}  // namespace dtrain
