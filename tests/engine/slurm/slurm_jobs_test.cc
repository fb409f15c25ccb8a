// The supply of jobs against a real controller. A program takes the place of
// the worker, and the test says which workers are connected.

#include "engine/slurm/slurm_jobs.h"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/slurm/slurm_fixture.h"
#include "tests/support/patience.h"

namespace dtrain {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

class SlurmJobsTest : public SlurmTest {
 protected:
  SlurmJobsOptions OptionsFor(std::vector<std::string> worker) const {
    return {.request = RequestFor(std::move(worker)),
            .plan = {.max_jobs = 2,
                     .slots_per_job = 2,
                     .idle_timeout = std::chrono::milliseconds(100),
                     .first_pause = std::chrono::milliseconds(50),
                     .useful_time = Duration{0}},
            .slurm = Slurm(cluster_->impatient_environment()),
            .interval = std::chrono::milliseconds(200),
            .max_interval = std::chrono::milliseconds(400),
            .end_patience = std::chrono::milliseconds(300)};
  }
  // Waits until `condition` is true; false if it never becomes true.
  static bool Until(const std::function<bool()>& condition) {
    const auto end =
        std::chrono::steady_clock::now() + Patient(std::chrono::seconds(60));
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return true;
  }
  // Waits for so many jobs in this state.
  static bool AwaitJobs(SlurmJobs& jobs, std::ptrdiff_t count,
                        const std::string& state) {
    return Until([&] {
      return std::ranges::count(jobs.Jobs(), state, &SlurmJob::state) == count;
    });
  }
};

TEST_F(SlurmJobsTest, FollowTheDemandAndEndWithTheRunner) {
  SlurmJobs jobs(OptionsFor({"sleep", "600"}));
  EXPECT_TRUE(jobs.Jobs().empty());
  jobs.Update(100, {});
  ASSERT_TRUE(AwaitJobs(jobs, 2, "RUNNING"));

  const std::string first = jobs.Jobs()[0].id;
  const std::string second = jobs.Jobs()[1].id;
  jobs.Update(2, {{.job = first, .slots = 2, .used = 2},
                  {.job = second, .slots = 2, .used = 0}});
  std::vector<std::string> released;
  EXPECT_TRUE(Until([&] {
    for (const std::string& id : jobs.Drain().release) released.push_back(id);
    return !released.empty();
  }));
  EXPECT_EQ(released, std::vector<std::string>{second});

  EXPECT_EQ(jobs.End(), "");
  EXPECT_EQ(Await(first, {"CANCELLED"}), "CANCELLED");
}

TEST_F(SlurmJobsTest, JobWhoseWorkersExitEndsByItself) {
  const auto gate = cluster_->directory() / "gate";
  SlurmJobsOptions options = OptionsFor(
      {"sh", "-c", "until [ -e " + gate.string() + " ]; do sleep 0.1; done"});
  options.end_patience = Patient(std::chrono::seconds(60));
  SlurmJobs jobs(std::move(options));
  jobs.Update(2, {});
  ASSERT_TRUE(AwaitJobs(jobs, 1, "RUNNING"));
  const std::string id = jobs.Jobs()[0].id;
  jobs.Update(2, {{.job = id, .slots = 2, .used = 2}});

  std::ofstream(gate) << "open";
  EXPECT_EQ(jobs.End(), "");
  EXPECT_EQ(Await(id, {"COMPLETED", "CANCELLED", "FAILED"}), "COMPLETED");
}

TEST_F(SlurmJobsTest, PendingJobIsCanceledAtOnce) {
  SlurmJobsOptions options = OptionsFor({"true"});
  options.request.config.sbatch_args = {"--hold"};
  options.end_patience = std::chrono::hours(1);
  SlurmJobs jobs(std::move(options));
  jobs.Update(2, {});
  ASSERT_TRUE(AwaitJobs(jobs, 1, "PENDING"));
  const std::string id = jobs.Jobs()[0].id;

  EXPECT_EQ(jobs.End(), "");
  EXPECT_EQ(Await(id, {"COMPLETED", "CANCELLED"}), "CANCELLED");
}

TEST_F(SlurmJobsTest, SubmitTheFirstJobAtOnce) {
  SlurmJobsOptions options = OptionsFor({"sleep", "600"});
  options.interval = std::chrono::hours(1);
  SlurmJobs jobs(std::move(options));
  EXPECT_TRUE(Until([&] {
    jobs.Update(1, {});  // the runner does it every second
    const auto found = ListJobs(*slurm_, "store.7");
    const auto* const list = std::get_if<std::vector<SlurmJob>>(&found);
    return list != nullptr && list->size() == 1;
  }));
}

// Signals of other threads, as the kernel reports them.
TEST(SlurmJobsThreadTest, LeavesSignalsToTheMainThread) {
  const SlurmJobs jobs({});
  const std::filesystem::path tasks = "/proc/self/task";
  int others = 0;
  for (const auto& task : std::filesystem::directory_iterator(tasks)) {
    if (task.path().filename() == std::to_string(::getpid())) continue;
    std::ifstream status(task.path() / "status");
    for (std::string line; std::getline(status, line);) {
      if (!line.starts_with("SigBlk:")) continue;
      ++others;
      const auto blocked = std::stoull(line.substr(7), nullptr, 16);
      for (const int signal : {SIGHUP, SIGINT, SIGTERM}) {
        EXPECT_TRUE(blocked >> (signal - 1) & 1) << signal;
      }
    }
  }
  EXPECT_GE(others, 1);
}

TEST_F(SlurmJobsTest, ReplaceAJobThatSomeoneHasCanceled) {
  SlurmJobs jobs(OptionsFor({"sleep", "600"}));
  jobs.Update(2, {});
  ASSERT_TRUE(AwaitJobs(jobs, 1, "RUNNING"));
  const std::string first = jobs.Jobs()[0].id;
  jobs.Update(2, {{.job = first, .slots = 2, .used = 2}});

  cluster_->Run({"scancel", first});
  EXPECT_TRUE(Until([&] {
    const auto running = jobs.Jobs();
    return running.size() == 1 && running[0].id != first;
  }));
}

TEST_F(SlurmJobsTest, ReportWhatTheLastSilentJobHasPrinted) {
  SlurmJobs jobs(OptionsFor({"sh", "-c", "echo no such module; exit 1"}));
  jobs.Update(2, {});
  SlurmJobs::News news;
  EXPECT_TRUE(Until([&] {
    news = jobs.Drain();
    return !news.failure.empty();
  }));
  EXPECT_THAT(news.failure,
              AllOf(HasSubstr("no worker of the last 3 jobs of Slurm has "
                              "connected"),
                    HasSubstr("has printed: "), HasSubstr("no such module"),
                    HasSubstr("/slurm-")));
}

TEST_F(SlurmJobsTest, GiveUpInSlurmsWordsAfterThreeRefusals) {
  SlurmJobsOptions options = OptionsFor({"true"});
  options.request.config.partition = "nix";
  SlurmJobs jobs(std::move(options));
  jobs.Update(1, {});
  std::string failure;
  EXPECT_TRUE(Until([&] { return !(failure = jobs.Drain().failure).empty(); }));
  EXPECT_THAT(failure, HasSubstr("invalid partition specified: nix"));
  EXPECT_EQ(cluster_->Run({"squeue", "--noheader", "--states=pending,running"}),
            "");
}

TEST_F(SlurmJobsTest, SurviveARestartOfTheController) {
  SlurmJobs jobs(OptionsFor({"sleep", "600"}));
  jobs.Update(2, {});
  ASSERT_TRUE(AwaitJobs(jobs, 1, "RUNNING"));
  const std::string first = jobs.Jobs()[0].id;
  std::vector<std::string> notices;
  const auto hears = [&](const std::string& text) {
    return Until([&] {
      for (const std::string& line : jobs.Drain().notices) {
        notices.push_back(line);
      }
      return testing::Value(notices, Contains(HasSubstr(text)));
    });
  };

  cluster_->StopController();
  EXPECT_TRUE(hears("Slurm does not answer, trying again: slurm_load_jobs"));
  cluster_->StartController();
  EXPECT_TRUE(hears("Slurm answers again"));
  ASSERT_EQ(jobs.Jobs().size(), 1);
  EXPECT_EQ(jobs.Jobs()[0].id, first);
}

TEST_F(SlurmJobsTest, LeftoversAreFoundByTheirOwner) {
  JobRequest request = RequestFor({"sleep", "600"});
  const std::string id = Submit(request);
  request.owner = "store.8";
  Submit(request);
  const auto left = ListJobs(*slurm_, "store.7");
  ASSERT_EQ(std::get<std::vector<SlurmJob>>(left).size(), 1);
  EXPECT_EQ(std::get<std::vector<SlurmJob>>(left)[0].id, id);
}

}  // namespace
}  // namespace dtrain
