#pragma once

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "engine/slurm/job_request.h"
#include "engine/slurm/slurm.h"
#include "tests/support/patience.h"
#include "tests/support/slurm_cluster.h"

namespace dtrain {

/// A Slurm with jobs that execute a program in place of a worker. The tests of
/// a suite share it. Skips the test where there can be none.
class SlurmTest : public testing::Test {
 protected:
  static void TearDownTestSuite() { cluster_.reset(); }
  void SetUp() override {
    if (!cluster_) {
      const std::string why = StartSlurm(cluster_);
      if (!why.empty()) GTEST_SKIP() << why;
    }
    slurm_.emplace(cluster_->environment(), Patient(std::chrono::seconds(60)));
  }
  void TearDown() override {
    if (cluster_) cluster_->EndJobs();
  }

  // Returns a request whose job executes `worker` on each node.
  JobRequest RequestFor(std::vector<std::string> worker) const {
    JobRequest request = {.name = "dtrain-7",
                          .owner = "store.7",
                          .worker = std::move(worker),
                          .script = cluster_->directory() / "worker.sh",
                          .directory = cluster_->directory()};
    std::ofstream(request.script) << request.Script();
    return request;
  }
  std::string Submit(const JobRequest& request) const {
    std::ofstream(request.script) << request.Script();
    const auto answer = slurm_->Submit(request);
    const auto* const id = std::get_if<std::string>(&answer);
    EXPECT_TRUE(id != nullptr) << std::get<SlurmFailure>(answer).text;
    return id == nullptr ? "" : *id;
  }
  std::optional<SlurmJob> Find(const std::string& id) const {
    const auto answer = slurm_->Jobs();
    const auto* const jobs = std::get_if<std::vector<SlurmJob>>(&answer);
    if (jobs == nullptr) return std::nullopt;
    const auto found = std::ranges::find(*jobs, id, &SlurmJob::id);
    return found == jobs->end() ? std::nullopt : std::optional(*found);
  }
  // Waits until the job has one of the states.
  std::string Await(const std::string& id,
                    const std::vector<std::string>& states) const {
    const auto end =
        std::chrono::steady_clock::now() + Patient(std::chrono::seconds(60));
    std::optional<SlurmJob> job;
    while (std::chrono::steady_clock::now() < end) {
      job = Find(id);
      if (job && std::ranges::find(states, job->state) != states.end()) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return job ? job->state : "unknown";
  }
  std::string ReadOutput(const JobRequest& request,
                         const std::string& id) const {
    std::ifstream file(request.OutputFile(id));
    return {std::istreambuf_iterator<char>(file), {}};
  }

  static inline std::optional<SlurmCluster> cluster_;
  std::optional<Slurm> slurm_;
};

}  // namespace dtrain
