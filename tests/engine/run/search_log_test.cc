#include "engine/run/search_log.h"

#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "searchers/registry.h"

namespace dtrain {
namespace {

using nlohmann::json;

class SearchLogTest : public testing::Test {
 protected:
  SearchLogTest() : store_(Store::OpenForWriting(StoreLayout(":memory:"))) {
    store_.Write([](StoreWriter& writer) {
      writer.AddExperiment({.name = "test",
                            .config = json::object(),
                            .provenance = json::object()});
    });
  }

  static SearchLog Make(std::int64_t trials) {
    const SearcherConfig config{.name = "random",
                                .metric = "loss",
                                .max_length = 10,
                                .max_trials = trials,
                                .max_concurrent_trials = 0};
    const json space = {
        {"x", {{"type", "double"}, {"minval", 0}, {"maxval", 1}}}};
    return SearchLog(MakeSearcher(config, space, /*seed=*/1), /*experiment=*/1);
  }
  // Gives the event after which there was a snapshot, or 0.
  std::int64_t Feed(SearchLog& search, const Event& event) {
    (void)search.Handle(event, outbox_);
    outbox_.Flush(store_, Duration(0), /*all=*/true);
    const auto snapshot = store_.LatestSnapshot(1);
    return snapshot ? snapshot->seq : 0;
  }
  std::int64_t FeedMany(SearchLog& search, int events) {
    std::int64_t snapshot = 0;
    for (int i = 0; i < events; ++i) snapshot = Feed(search, Created{0});
    return snapshot;
  }

  Store store_;
  Outbox outbox_;
};

TEST_F(SearchLogTest, SavesItsStateAllFewHundredEvents) {
  SearchLog search = Make(/*trials=*/1);
  EXPECT_EQ(Feed(search, Started{}), 0);

  EXPECT_EQ(FeedMany(search, 254), 0);
  EXPECT_EQ(Feed(search, Created{0}), 256);
}

TEST_F(SearchLogTest, SavesItsStateLessOftenWithMoreTrials) {
  SearchLog search = Make(/*trials=*/1000);
  Feed(search, Started{});

  EXPECT_EQ(FeedMany(search, 998), 0);
  EXPECT_EQ(Feed(search, Created{0}), 1000);
  EXPECT_EQ(FeedMany(search, 999), 1000);
  EXPECT_EQ(Feed(search, Created{0}), 2000);
}

TEST_F(SearchLogTest, KeepsTheDistanceAfterARecovery) {
  SearchLog first = Make(/*trials=*/1000);
  Feed(first, Started{});
  FeedMany(first, 1000);
  SearchLog search = Make(/*trials=*/1000);

  search.Recover(store_.LatestSnapshot(1), store_.SearcherEvents(1, 0));

  EXPECT_EQ(search.seq(), 1001);
  EXPECT_EQ(FeedMany(search, 998), 1000);
  EXPECT_EQ(Feed(search, Created{0}), 2000);
}

TEST_F(SearchLogTest, RefusesARecordThatReplaysDifferently) {
  SearchLog search = Make(/*trials=*/3);
  const std::vector<SearcherEventRow> damaged = {
      {.seq = 1, .event = {{"event", "started"}}, .operations = json::array()}};

  EXPECT_THROW(search.Recover(std::nullopt, damaged), Error);
}

}  // namespace
}  // namespace dtrain
