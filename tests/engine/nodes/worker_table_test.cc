#include "engine/nodes/worker_table.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

WorkerTable MakeTable(std::int64_t used) {
  return {.workers = {{.id = 3,
                       .name = "a",
                       .host = "node2",
                       .job = "77",
                       .state = WorkerState::kDraining,
                       .slots = 4,
                       .used = used,
                       .trials = {"7.1", "7.2"},
                       .joined = seconds(5),
                       .until = seconds(90)}},
          .demand = 6,
          .slots_per_trial = 2};
}

class FakeSource : public WorkerSource {
 public:
  std::vector<int> Update(const WorkerTable& table) override {
    tables.push_back(table);
    return {3};
  }
  std::string Failure() override { return std::exchange(failure, {}); }
  std::vector<JobRow> Jobs() override { return jobs; }

  std::vector<WorkerTable> tables;
  std::vector<JobRow> jobs;
  std::string failure;
};

class WorkerUpdatesTest : public testing::Test {
 protected:
  Duration now_{seconds(100)};
  FakeSource source_;
  std::vector<WorkerTable> changes_;
  WorkerUpdates updates_{
      {.changed =
           [this](const WorkerTable& table) { changes_.push_back(table); },
       .source = &source_},
      {.now = [this] { return std::chrono::duration_cast<Timestamp>(now_); },
       .monotonic = [this] { return now_; }}};
};

TEST_F(WorkerUpdatesTest, PassesOnChangesAndCallsTheSourceEverySecond) {
  EXPECT_THAT(updates_.Apply(MakeTable(2)), ElementsAre(3));
  EXPECT_FALSE(updates_.due());
  now_ += milliseconds(200);
  EXPECT_TRUE(updates_.due());

  EXPECT_THAT(updates_.Apply(MakeTable(2)), IsEmpty()) << "nothing has changed";
  now_ += seconds(1);
  EXPECT_THAT(updates_.Apply(MakeTable(2)), ElementsAre(3));
  EXPECT_THAT(updates_.Apply(MakeTable(4)), ElementsAre(3));

  EXPECT_EQ(changes_.size(), 2);
  EXPECT_EQ(source_.tables.size(), 3);
}

TEST_F(WorkerUpdatesTest, AddsTheJobsOfTheSource) {
  updates_.Apply(MakeTable(2));
  source_.jobs = {{.id = "78", .pending = true}};
  updates_.Apply(MakeTable(2));

  ASSERT_EQ(changes_.size(), 2);
  EXPECT_EQ(changes_.back().jobs, source_.jobs);
}

TEST_F(WorkerUpdatesTest, PassesOnAFailureOfTheSourceOnce) {
  EXPECT_FALSE(updates_.Failure());
  source_.failure = "no partition";
  const auto failure = updates_.Failure();
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->why, "no partition");
  EXPECT_FALSE(updates_.Failure());
}

TEST_F(WorkerUpdatesTest, CountsTheTimeWithoutATrial) {
  updates_.Apply(MakeTable(0));
  now_ += seconds(7);
  updates_.Apply(MakeTable(0));
  EXPECT_EQ(source_.tables.back().workers[0].idle_since, seconds(100));

  updates_.Apply(MakeTable(2));
  EXPECT_EQ(source_.tables.back().workers[0].idle_since, std::nullopt);
  updates_.Apply(MakeTable(0));
  EXPECT_EQ(source_.tables.back().workers[0].idle_since, seconds(107));
}

// Job 77 has a worker.
WorkerTable TableWithJobs() {
  WorkerTable table = MakeTable(2);
  table.jobs = {{.id = "77", .nodes = "node2"},
                {.id = "78", .pending = true, .reason = "Resources"},
                {.id = "79", .pending = true, .reason = "Resources"},
                {.id = "80", .nodes = "node3"},
                {.id = "81", .nodes = "node4", .served = true}};
  table.workers[0].gpus = true;
  table.workers[0].idle_since = seconds(60);
  return table;
}

TEST(WorkerTableTest, SummaryCountsWorkersAndJobsWithoutThem) {
  EXPECT_EQ(WorkerTable().Summary(), "none yet");
  EXPECT_EQ(MakeTable(2).Summary(), "1 draining");
  EXPECT_EQ(TableWithJobs().Summary(),
            "1 draining, 2 jobs pending (Resources), 1 job starting, 1 job "
            "without workers");
}

TEST(WorkerFileTest, IsReadBackAsItWas) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "workers.json";
  EXPECT_EQ(ReadWorkers(path), std::nullopt);
  WriteWorkers(path, MakeTable(1));
  WriteWorkers(path, TableWithJobs());

  EXPECT_EQ(ReadWorkers(path), TableWithJobs());
  std::ofstream(path) << "{}";
  EXPECT_EQ(ReadWorkers(path), std::nullopt);
}

}  // namespace
}  // namespace dtrain
