#include "engine/train/rank_group.h"

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "engine/base/error.h"
#include "engine/os/socket.h"
#include "engine/train/metric_sums.h"
#include "engine/train/torch_modules.h"
#include "engine/train/train_trial.h"
#include "engine/train/trained_objects.h"
#include "tests/engine/train/in_ranks.h"
#include "tests/engine/train/recorded_backend.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(RankGroupTest, AnyNumberOfRanksAgrees) {
  for (const int ranks : {1, 2, 5}) {
    InRanks(ranks, [ranks](RankGroup& group) {
      EXPECT_EQ(group.Most(group.rank()), ranks - 1);
      EXPECT_FALSE(group.Any(false));
      EXPECT_TRUE(group.Any(group.rank() == ranks - 1));
      EXPECT_EQ(group.FromFirst(std::to_string(group.rank())), "0");
      EXPECT_EQ(group.Gather("x").size(), static_cast<std::size_t>(ranks));
    });
  }
}

TEST(RankGroupTest, SingleRankNeedsNoGroup) {
  RankGroup alone;
  EXPECT_TRUE(alone.is_alone());
  EXPECT_TRUE(alone.is_first());
  EXPECT_TRUE(alone.Any(true));
  EXPECT_EQ(alone.Most(-3), -3);
  EXPECT_THAT(alone.Gather("mine"), ElementsAre("mine"));
  alone.Barrier();
  alone.ShareModels({});
}

TEST(RankGroupTest, ModelsBecomeThoseOfRank0) {
  InRanks(2, [](RankGroup& group) {
    auto norm = std::make_shared<torch::nn::BatchNorm1dImpl>(3);
    {
      const torch::NoGradGuard no_grad;
      norm->weight.fill_(group.rank() + 1);
      norm->running_mean.fill_(group.rank() + 5);
    }
    const TrainedObjects objects{.models = {{"model", norm}}};
    group.ShareBuffers(objects);
    EXPECT_EQ(norm->running_mean[0].item<float>(), 5);
    EXPECT_EQ(norm->weight[0].item<float>(), group.rank() + 1);
    group.ShareModels(objects);
    EXPECT_EQ(norm->weight[0].item<float>(), 1);
  });
}

TEST(RankGroupTest, DetectsModelsThatDifferByRank) {
  InRanks(2, [](RankGroup& group) {
    auto layer = std::make_shared<torch::nn::LinearImpl>(2, 3 + group.rank());
    try {
      group.ShareModels({.models = {{"model", layer}}});
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("different models"));
    }
  });
}

// Gradients are exchanged in the memory order of the weights.
TEST(RankGroupTest, DetectsMemoryOrdersThatDifferByRank) {
  InRanks(2, [](RankGroup& group) {
    torch::nn::Conv2d layer(2, 3, 3);
    if (!group.is_first()) {
      layer->weight.set_data(
          layer->weight.contiguous(torch::MemoryFormat::ChannelsLast));
    }
    EXPECT_THAT(
        [&] {
          group.ShareModels({.models = {{"model", layer.ptr()}}});
        },
        testing::ThrowsMessage<Error>(HasSubstr("different models")));
  });
}

TEST(RankGroupTest, MergesSumsOfMetrics) {
  InRanks(3, [](RankGroup& group) {
    const int rank = group.rank();
    MetricSums sums(/*last_only=*/false,
                    {{"least", Reduction::kMin}, {"sum", Reduction::kSum}});
    sums.Add({{"mean", torch::tensor(1.0 * rank)},
              {"least", torch::tensor(7.0 - rank)},
              {"sum", torch::tensor(1.0)}},
             /*weight=*/rank + 1);
    // One that only the last rank has seen.
    if (rank == 2) sums.Add({{"rare", torch::tensor(4.0)}}, /*weight=*/1);
    sums.Merge(group);
    const MetricValues expected = {{"least", 5},
                                   {"mean", (0 * 1 + 1 * 2 + 2 * 3) / 6.0},
                                   {"rare", 4},
                                   {"sum", 3}};
    EXPECT_EQ(sums.Values(), expected);
  });
}

// It may be left out instead of undefined.
TEST(RankGroupTest, MergesMetricsOfSomeBatches) {
  InRanks(2, [](RankGroup& group) {
    MetricSums sums;
    const auto one = torch::tensor(1.0);
    sums.Add({{"loss", one}}, /*weight=*/1);
    if (group.is_first()) {
      sums.Add({{"loss", one}, {"rare", torch::Tensor()}}, /*weight=*/1);
    }
    sums.Merge(group);
    EXPECT_THAT(sums.occasional(), testing::ElementsAre("rare"));
    EXPECT_THAT(sums.Names(), testing::ElementsAre("loss", "rare"));
  });
}

TEST(RankGroupTest, PutsBatchesInTheOrderTheyWereDealt) {
  InRanks(2, [](RankGroup& group) {
    // Batches 0, 2, 4 and 1, 3.
    std::vector<torch::Tensor> mine;
    for (int i = group.rank(); i < 5; i += 2)
      mine.push_back(torch::full({2}, i));
    const auto all = BatchesInOrder(mine, group);
    if (!group.is_first()) {
      EXPECT_TRUE(all.empty());
      return;
    }
    ASSERT_EQ(all.size(), 5);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(all[i][0].item<int>(), i);
  });
}

TEST(RankedLinkTest, Rank0ReportsForAll) {
  std::mutex mutex;
  std::vector<int> senders;
  InRanks(2, [&](RankGroup& group) {
    const int rank = group.rank();
    const TrialLink own = {
        .send =
            [&, rank](TrialMessage) {
              const std::scoped_lock lock(mutex);
              senders.push_back(rank);
            },
        .next = [rank]() -> RunnerMessage {
          EXPECT_EQ(rank, 0);
          return RunOperation{Length{30}};
        },
        .stop_requested = [rank] { return rank == 0; },
        .unacknowledged = [] { return std::vector<TrialMessage>(); }};
    const TrialLink ranked = RankedLink(own, group);
    ranked.send(Ready{});
    const RunnerMessage order = ranked.next();
    ASSERT_TRUE(std::holds_alternative<RunOperation>(order));
    EXPECT_EQ(std::get<RunOperation>(order).until.count, 30);
    EXPECT_TRUE(ranked.stop_requested());
  });
  EXPECT_THAT(senders, ElementsAre(0));
}

TEST(NcclStoreTest, ListensOnlyWhereTheRanksMeet) {
  const auto store = ServeStoreAt("127.0.0.1");
  c10d::TCPStoreOptions options;
  options.port = store->getPort();
  options.waitWorkers = false;
  const auto client = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  store->set("key", std::vector<std::uint8_t>{7});
  EXPECT_THAT(client->get("key"), ElementsAre(7));
  EXPECT_THROW(
      (void)ConnectTo({"127.0.0.2", store->getPort()}, std::chrono::seconds(5)),
      Error);
}

// NCCL's variables of this process, unset for a test.
class NcclInterfaceTest : public testing::Test {
 protected:
  ~NcclInterfaceTest() override { ::unsetenv("NCCL_SOCKET_IFNAME"); }

  static std::string Set() {
    const char* value = std::getenv("NCCL_SOCKET_IFNAME");
    return value == nullptr ? "" : value;
  }
  std::filesystem::path Write(const std::string& text) const {
    const auto file = directory_.path() / "nccl.conf";
    std::ofstream(file) << text;
    return file;
  }

  const TemporaryDirectory directory_;
};

TEST_F(NcclInterfaceTest, IsThatOfTheRanks) {
  SetNcclInterface("", {});
  EXPECT_EQ(Set(), "");
  const auto file = Write("NCCL_DEBUG=INFO\n#NCCL_SOCKET_IFNAME=eth1\n");
  SetNcclInterface("eth0", {file, directory_.path() / "missing"});
  EXPECT_EQ(Set(), "=eth0");
}

TEST_F(NcclInterfaceTest, VariableOfTheUserIsKept) {
  ::setenv("NCCL_SOCKET_IFNAME", "ib0", 1);
  SetNcclInterface("eth0", {});
  EXPECT_EQ(Set(), "ib0");
}

TEST_F(NcclInterfaceTest, ConfigurationFileOfTheUserIsKept) {
  SetNcclInterface("eth0", {Write("NCCL_DEBUG=INFO\nNCCL_SOCKET_IFNAME=ib0")});
  EXPECT_EQ(Set(), "");
}

// Ends a trial of a rank whose tensors are exchanged by a RecordedBackend.
struct RankedEnd {
  explicit RankedEnd(RankGroup& group)
      : group(group),
        backend(c10::make_intrusive<RecordedBackend>(calls, group.rank(),
                                                     group.size())) {
    group.SetBackend(backend);
  }

  int End(EndReason reason) {
    return EndTrial(
        {.reason = reason},
        [this](const Finished&) { calls.emplace_back("report"); }, &group);
  }

  // True if the group has left the backend to the end of the process. Takes it
  // back, so that nothing leaks here.
  bool IsLeftBehind() {
    if (backend.use_count() != 2) return false;
    (void)c10::intrusive_ptr<RecordedBackend>::reclaim(backend.get());
    return true;
  }

  RankGroup& group;
  std::vector<std::string> calls;
  c10::intrusive_ptr<RecordedBackend> backend;
};

TEST(EndTrialTest, ReportsBeforeTheBackendIsShutDown) {
  for (const EndReason reason : {EndReason::kCompleted, EndReason::kStopped}) {
    InRanks(2, [reason](RankGroup& group) {
      RankedEnd trial(group);
      EXPECT_EQ(trial.End(reason), 0);
      EXPECT_THAT(trial.calls, ElementsAre("report", "shutdown"));
      EXPECT_FALSE(trial.IsLeftBehind());
    });
  }
}

// The destructor of NCCL's backend waits up to its timeout.
TEST(EndTrialTest, FailedRankReportsAndLeavesWithoutWaiting) {
  InRanks(1, [](RankGroup& group) {
    RankedEnd trial(group);
    EXPECT_EQ(trial.End(EndReason::kError), 1);
    EXPECT_THAT(trial.calls, ElementsAre("report"));
    EXPECT_TRUE(trial.IsLeftBehind());
  });
}

TEST(EndTrialTest, FailedRankRemovesTheFileOfTheStore) {
  const TemporaryDirectory directory;
  const auto file = directory.path() / "dtrain-nccl-1";
  std::ofstream(file) << "keys";
  InRanks(1, [&file](RankGroup& group) {
    RankedEnd trial(group);
    group.SetBackend(trial.backend, file.string());
    EXPECT_EQ(trial.End(EndReason::kError), 1);
    EXPECT_TRUE(trial.IsLeftBehind());
  });
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST(EndTrialTest, FailedShutdownDoesNotFailTheTrial) {
  InRanks(1, [](RankGroup& group) {
    RankedEnd trial(group);
    trial.backend->MakeShutdownFail();
    EXPECT_EQ(trial.End(EndReason::kCompleted), 0);
    EXPECT_THAT(trial.calls, ElementsAre("report", "shutdown"));
    EXPECT_TRUE(trial.IsLeftBehind());
  });
}

TEST(EndTrialTest, RankThatLearnsOfAFailureLeavesWithoutWaiting) {
  const UniqueFd memory = MakeSharedMemory(2);
  RankGroup failing(memory, /*rank=*/1, /*ranks=*/2);
  RankGroup group(memory, /*rank=*/0, /*ranks=*/2);
  failing.Fail("no memory");
  EXPECT_THAT(
      [&] { group.Barrier(); },
      testing::ThrowsMessage<Error>(HasSubstr("rank 1 failed: no memory")));
  RankedEnd trial(group);
  EXPECT_EQ(trial.End(EndReason::kError), 1);
  EXPECT_THAT(trial.calls, ElementsAre("report"));
  EXPECT_TRUE(trial.IsLeftBehind());
}

}  // namespace
}  // namespace dtrain
