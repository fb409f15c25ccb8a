#include "tests/bench/all_reduce.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <span>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/error.h"
#include "engine/os/system_error.h"
#include "engine/ranks/rank_memory.h"
#include "engine/ranks/shared_group.h"
#include "tests/support/cpu_time.h"

namespace dtrain {
namespace {

using nlohmann::json;
using std::chrono::steady_clock;

constexpr int kWarmUps = 3;
constexpr int kTimes = 31;

double MillisecondsOf(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

double MedianOf(std::vector<double> values) {
  std::ranges::sort(values);
  return values.at(values.size() / 2);
}

// All ranks take part; the figures are this one's.
json TimeRank(int memory_fd, int rank, int ranks, std::int64_t bytes) {
  SharedGroup group(memory_fd, rank, ranks);
  std::vector<float> gradients(static_cast<std::size_t>(bytes) / sizeof(float));
  std::vector<double> wall;
  std::vector<double> cpu;
  for (int i = 0; i < kWarmUps + kTimes; ++i) {
    std::ranges::fill(gradients, static_cast<float>(rank + 1));
    group.Barrier();
    const auto start = steady_clock::now();
    const auto cpu_start = CpuTime();
    group.AllReduce(gradients);
    if (i < kWarmUps) continue;
    wall.push_back(MillisecondsOf(steady_clock::now() - start));
    cpu.push_back(MillisecondsOf(CpuTime() - cpu_start));
  }
  const auto sum = static_cast<float>(ranks * (ranks + 1) / 2);
  if (std::ranges::count(gradients, sum) != std::ssize(gradients)) {
    throw Error(ErrorKind::kFailed, "the ranks got wrong sums");
  }
  return {{"ranks", ranks},
          {"bytes", bytes},
          {"times", kTimes},
          {"wall_ms_median", MedianOf(wall)},
          {"wall_ms_min", *std::ranges::min_element(wall)},
          {"cpu_ms_median", MedianOf(cpu)}};
}

pid_t StartRank(int memory_fd, int rank, int ranks, std::int64_t bytes) {
  const pid_t child = ::fork();
  if (child < 0) ThrowSystemError("start a rank");
  if (child > 0) return child;
  try {
    TimeRank(memory_fd, rank, ranks, bytes);
    ::_exit(0);
  } catch (const std::exception& error) {
    std::cerr << "dtrain-bench: rank " << rank << ": " << error.what() << "\n";
    ::_exit(1);
  }
}

}  // namespace

json AllReduceTime(int ranks, std::int64_t bytes) {
  const UniqueFd memory = MakeRankMemory(ranks);
  std::vector<pid_t> others;
  for (int rank = 1; rank < ranks; ++rank) {
    others.push_back(StartRank(memory.get(), rank, ranks, bytes));
  }
  const json result = TimeRank(memory.get(), 0, ranks, bytes);
  for (const pid_t other : others) ::waitpid(other, nullptr, 0);
  return result;
}

}  // namespace dtrain
