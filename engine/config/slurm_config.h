#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/clock.h"

namespace dtrain {

/// The section `slurm` of a configuration: the jobs that start workers. An
/// empty text or a missing number leaves the choice to Slurm.
struct SlurmConfig {
  std::string partition;
  std::string account;
  std::string qos;
  Duration time = std::chrono::hours(4);  // walltime of a job, whole minutes
  std::int64_t nodes = 1;                 // of a job, with one worker on each
  std::optional<std::int64_t> gpus_per_node;
  std::optional<std::int64_t> cpus_per_task;  // CPUs of a worker
  std::string mem;                            // of a node, as sbatch takes it
  std::string constraint;
  std::int64_t max_jobs = 8;  // at one time, pending ones included
  std::int64_t min_jobs = 0;  // kept even if there is nothing to do
  Duration idle_timeout = std::chrono::seconds(60);
  // From the signal that asks a worker to end until the walltime.
  Duration grace = std::chrono::seconds(120);
  std::vector<std::string> sbatch_args;  // further options of sbatch
  std::vector<std::string> prologue;     // lines of shell before the worker
};

/// The formats of ParseSlurmTime, for messages.
inline constexpr std::string_view kSlurmTimeFormats =
    "MINUTES, MINUTES:SECONDS, HOURS:MINUTES:SECONDS, DAYS-HOURS, "
    "DAYS-HOURS:MINUTES or DAYS-HOURS:MINUTES:SECONDS";

/// Returns the time that `text` means to Slurm, such as "59:58" or "1-12";
/// nothing for another text.
std::optional<Duration> ReadSlurmTime(std::string_view text);

/// Returns the walltime that `text` means to sbatch, rounded up to whole
/// minutes as Slurm does: "90" is 90 minutes, "4:00:00" four hours, "1-12" a
/// day and a half. Nothing for another text, and for times below a minute or
/// above a year.
std::optional<Duration> ParseSlurmTime(std::string_view text);

/// Formats a time for sbatch: "04:00:00", "1-12:00:00".
std::string FormatSlurmTime(Duration time);

/// Returns the name of the option that `word` sets if dtrain sets it itself, so
/// that `slurm.sbatch_args` must not; empty otherwise.
std::string_view ReservedOption(std::string_view word);

}  // namespace dtrain
