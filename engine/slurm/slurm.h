#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "engine/base/clock.h"

namespace dtrain {

struct JobRequest;

/// A job as Slurm reports it.
struct SlurmJob {
  enum class Phase { kPending, kRunning, kEnded };

  std::string id;  // "1234"
  Phase phase = Phase::kPending;
  std::string state;             // Slurm's word: "RUNNING", "PREEMPTED"
  std::string reason;            // Slurm's word for why it is pending
  std::string nodes;             // "n[1-3]"; empty while it is pending
  std::optional<Duration> left;  // until its walltime
  std::string name;
  std::string owner;  // its comment

  friend bool operator==(const SlurmJob&, const SlurmJob&) = default;
};

/// Failure of a command of Slurm.
struct SlurmFailure {
  std::string text;   // one line, in Slurm's words
  bool away = false;  // the controller does not answer: try again later
};

template <typename Result>
using SlurmAnswer = std::variant<Result, SlurmFailure>;

/// Calls the commands of Slurm, sbatch, squeue, sacct, scontrol and scancel, as
/// child processes. Their output is read by fixed formats, in the C locale.
/// Each function blocks until the command has ended, at most `limit`. Threads
/// may share it.
class Slurm {
 public:
  /// `changes` is applied to the environment of the commands.
  explicit Slurm(std::vector<std::pair<std::string, std::string>> changes = {},
                 Duration limit = std::chrono::seconds(60));

  /// Throws Error(kResources) if sbatch is not found, or, in Slurm's words, if
  /// Slurm would refuse the job. Returns Slurm's words if it would accept the
  /// job and no node is available for it now; otherwise an empty text. Submits
  /// nothing and needs no script.
  std::string CheckSubmission(const JobRequest& request) const;
  /// Submits a job and returns its id. REQUIRES: the script exists.
  SlurmAnswer<std::string> Submit(const JobRequest& request) const;
  /// Returns this user's jobs, those that have ended in the last minutes
  /// included.
  SlurmAnswer<std::vector<SlurmJob>> Jobs() const;
  /// Returns Slurm's word for the state of a job that Jobs does not list any
  /// more, from its accounting, or from the controller's memory; empty if
  /// neither has it.
  std::string FindState(const std::string& id) const;
  /// Asks Slurm to end jobs. Jobs that have already ended are not an error.
  std::optional<SlurmFailure> Cancel(const std::vector<std::string>& ids) const;

 private:
  SlurmAnswer<std::string> Call(const std::vector<std::string>& words) const;

  std::vector<std::string> environment_;
  std::string path_;  // where the commands are searched for
  Duration limit_;
};

/// Returns the jobs that squeue has printed in the format of Slurm::Jobs.
std::vector<SlurmJob> ParseJobs(std::string_view output);

/// Returns the meaning of Slurm's word for a state. An unknown word means
/// kRunning, so that the job counts until Slurm has forgotten it.
SlurmJob::Phase ParsePhase(std::string_view state);

}  // namespace dtrain
