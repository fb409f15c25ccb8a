#pragma once

#include <cstdint>
#include <filesystem>

#include <nlohmann/json.hpp>

namespace dtrain {

/// Simulation of a search on many workers.
struct ScaleOptions {
  std::filesystem::path directory;  // of the store; empty or new
  std::int64_t slots = 1000;        // of all workers, 8 each
  std::int64_t trials = 10'000;
  std::int64_t seconds = 10;  // of a trial of mean speed in the lowest rung
  // The clock runs with the runner's processor time, without waits for the disk
  // and for processors that are busy with other programs.
  bool cpu_time = false;
};

/// Runs ASHA with four rungs and divisor 4 on workers that are simulated in
/// this thread, and measures the runner.
///
/// Real: Experiment, searcher, store on the disk, NodesLauncher, Nodes, one
/// proved and authenticated loopback connection for each worker, all messages
/// and the logs' directories. Simulated: the workers' ends of the connections
/// (no process runs), and time. The clock runs with the machine's while the
/// runner works, stands still while workers do, and jumps over waits. A trial
/// sends a training report of two metrics and its progress every second, and at
/// the end of an operation a validation and a checkpoint, whose files do not
/// exist. The fastest trial is four times as fast as the slowest. Its process
/// takes 10 ms to start and 10 ms to end.
///
/// The time from a free slot to the next start is counted while trials are left
/// to create: from the end of a trial's process until the order to start the
/// next one is written to the connection. Throws Error.
nlohmann::json SearchAtScale(const ScaleOptions& options);

}  // namespace dtrain
