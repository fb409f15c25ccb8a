// Only formats that are the same in all versions of Slurm are read: the fields
// of `squeue -o`, of `sacct -P` and of `scontrol -o`. The JSON of squeue is not
// used, because its fields have changed their types from version to version and
// not every installation can print it.
//
// Exit codes do not distinguish a refusal from a controller that is being
// restarted, and messages are not to be interpreted. But a query cannot be
// refused: if squeue fails, too, the controller is away.

#include "engine/slurm/slurm.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include <unistd.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/config/slurm_config.h"
#include "engine/os/process.h"
#include "engine/os/spawn.h"
#include "engine/os/system_error.h"
#include "engine/slurm/job_request.h"

namespace dtrain {
namespace {

using Phase = SlurmJob::Phase;

// Id, state, reason, nodes, time left, name, comment. Only the last two can
// contain a separator, and the names of dtrain's jobs do not.
constexpr const char* kSqueueFormat = "--format=%A|%T|%r|%N|%L|%j|%k";
constexpr std::size_t kSqueueFields = 7;

constexpr std::array<std::string_view, 7> kPendingStates = {
    "PENDING",      "CONFIGURING",   "REQUEUED",    "REQUEUE_FED",
    "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"};
constexpr std::array<std::string_view, 12> kEndedStates = {
    "BOOT_FAIL", "CANCELLED", "COMPLETED",     "COMPLETING",
    "DEADLINE",  "EXPIRED",   "FAILED",        "LAUNCH_FAILED",
    "NODE_FAIL", "PREEMPTED", "OUT_OF_MEMORY", "TIMEOUT"};

// Returns the lines as one.
std::string OneLine(std::string_view text) {
  std::vector<std::string> lines;
  for (const std::string& line : Split(text, '\n')) {
    const std::string_view trimmed = Trim(line);
    if (!trimmed.empty()) lines.push_back(EscapeForTerminal(trimmed));
  }
  return Truncate(Join(lines, "; "), 1000);
}

// Returns the text before the first `separator`, and removes both.
std::string ConsumeUntil(std::string_view& text, char separator) {
  const std::size_t end = std::min(text.find(separator), text.size());
  std::string taken(text.substr(0, end));
  text.remove_prefix(std::min(end + 1, text.size()));
  return taken;
}

// True if `output`, lines of "up|idle" from sinfo, has a partition or nodes
// that start no jobs now.
bool ListsAbsence(std::string_view output) {
  constexpr std::array<std::string_view, 7> kAbsent = {
      "drain", "down", "fail", "inval", "maint", "reserved", "unknown"};
  while (!output.empty()) {
    const std::string line = ConsumeUntil(output, '\n');
    std::string_view state = line;
    if (ConsumeUntil(state, '|') != "up" || state.ends_with('*')) return true;
    const auto begins = [state](std::string_view word) {
      return state.starts_with(word);
    };
    if (std::ranges::any_of(kAbsent, begins)) return true;
  }
  return false;
}

// Returns the state in "State=TIMEOUT Reason=…" or "CANCELLED by 0".
std::string FirstWord(std::string_view text) {
  return std::string(text.substr(0, text.find_first_of(" \n")));
}

}  // namespace

Phase ParsePhase(std::string_view state) {
  if (std::ranges::find(kPendingStates, state) != kPendingStates.end()) {
    return Phase::kPending;
  }
  return std::ranges::find(kEndedStates, state) != kEndedStates.end()
             ? Phase::kEnded
             : Phase::kRunning;
}

std::vector<SlurmJob> ParseJobs(std::string_view output) {
  std::vector<SlurmJob> jobs;
  while (!output.empty()) {
    const std::string line = ConsumeUntil(output, '\n');
    if (std::ranges::count(line, '|') + 1 <
        static_cast<std::ptrdiff_t>(kSqueueFields)) {
      continue;
    }
    std::string_view rest = line;
    SlurmJob job;
    job.id = ConsumeUntil(rest, '|');
    job.state = ConsumeUntil(rest, '|');
    job.phase = ParsePhase(job.state);
    job.reason = ConsumeUntil(rest, '|');
    job.nodes = ConsumeUntil(rest, '|');
    job.left = ReadSlurmTime(ConsumeUntil(rest, '|'));
    job.name = ConsumeUntil(rest, '|');
    if (rest != "(null)") job.owner = rest;  // squeue prints an empty one so
    jobs.push_back(std::move(job));
  }
  return jobs;
}

Slurm::Slurm(std::vector<std::pair<std::string, std::string>> changes,
             Duration limit)
    : limit_(limit) {
  changes.emplace_back("LC_ALL", "C");
  path_ = VariablesWith(changes)("PATH").value_or("");
  environment_ = EnvironmentWith(changes);
  // Variables that change what the commands print or wait for.
  constexpr std::array<std::string_view, 5> kPrefixes = {
      "SACCT_", "SBATCH_WAIT=", "SCONTROL_", "SLURM_TIME_FORMAT=", "SQUEUE_"};
  std::erase_if(environment_, [&](const std::string& assignment) {
    return std::ranges::any_of(kPrefixes, [&](std::string_view prefix) {
      return assignment.starts_with(prefix);
    });
  });
}

SlurmAnswer<std::string> Slurm::Call(
    const std::vector<std::string>& words) const {
  std::string program;
  try {
    program = FindProgram(words.front(), "/", path_).string();
  } catch (const Error&) {
    return SlurmFailure{words.front() + ": not found in PATH (" +
                        EscapeForTerminal(path_) +
                        "); load Slurm's module, or add the directory of its "
                        "commands to PATH"};
  }
  std::vector<std::string> command = words;
  command.front() = program;
  CapturedRun run = RunCaptured(command, environment_, limit_);
  if (run.succeeded()) return std::move(run.output);
  if (run.end == CapturedRun::End::kNotStarted) {
    return SlurmFailure{program +
                        ": cannot be started: " + ErrnoText(run.error)};
  }
  if (run.end == CapturedRun::End::kTooLate) {
    return SlurmFailure{
        words.front() + ": no answer within " + FormatDuration(limit_),
        /*away=*/true};
  }
  const std::string said = OneLine(run.errors);
  return SlurmFailure{said.empty() ? words.front() + " failed, exit code " +
                                         std::to_string(run.status.code)
                                   : said};
}

std::string Slurm::CheckSubmission(const JobRequest& request) const {
  std::vector<std::string> words = request.SubmitCommand();
  words.insert(words.begin() + 1, "--test-only");
  words.back() = "--wrap=true";  // there may be no script yet
  const auto answer = Call(words);
  const auto* failure = std::get_if<SlurmFailure>(&answer);
  if (failure == nullptr) return "";
  const auto refused = [failure] {
    return Error(ErrorKind::kResources, "Slurm: " + failure->text);
  };
  // So it answers, too, if nodes are drained, for which sbatch lets a job wait.
  // Slurm does not translate its messages.
  if (failure->text.find("Requested node configuration is not available") ==
      std::string::npos) {
    throw refused();
  }
  std::vector<std::string> query = {"sinfo", "--noheader", "--format=%a|%T"};
  if (!request.config.partition.empty()) {
    query.push_back("--partition=" + request.config.partition);
  }
  const auto nodes = Call(query);
  const auto* states = std::get_if<std::string>(&nodes);
  if (states != nullptr && ListsAbsence(*states)) return failure->text;
  throw refused();
}

SlurmAnswer<std::string> Slurm::Submit(const JobRequest& request) const {
  auto answer = Call(request.SubmitCommand());
  if (auto* failure = std::get_if<SlurmFailure>(&answer)) {
    // It is away if it does not answer queries either.
    failure->away =
        failure->away || std::holds_alternative<SlurmFailure>(Jobs());
    return std::move(*failure);
  }
  // "1234", or "1234;cluster".
  std::string_view output = std::get<std::string>(answer);
  const std::string first = ConsumeUntil(output, '\n');
  const std::string id = first.substr(0, first.find(';'));
  if (id.empty() || id.find_first_not_of("0123456789") != std::string::npos) {
    return SlurmFailure{"sbatch printed '" +
                        Truncate(EscapeForTerminal(first), 100) +
                        "' in place of the number of a job"};
  }
  return id;
}

SlurmAnswer<std::vector<SlurmJob>> Slurm::Jobs() const {
  auto answer = Call({"squeue", "--noheader", "--states=all",
                      "--user=" + std::to_string(::getuid()), kSqueueFormat});
  if (auto* failure = std::get_if<SlurmFailure>(&answer)) {
    failure->away = true;
    return std::move(*failure);
  }
  return ParseJobs(std::get<std::string>(answer));
}

std::string Slurm::FindState(const std::string& id) const {
  const auto accounting =
      Call({"sacct", "--noheader", "--parsable2", "--allocations",
            "--jobs=" + id, "--format=State"});
  if (const auto* output = std::get_if<std::string>(&accounting);
      output != nullptr && !output->empty()) {
    return FirstWord(*output);
  }
  const auto memory = Call({"scontrol", "--oneliner", "show", "job", id});
  if (const auto* output = std::get_if<std::string>(&memory)) {
    constexpr std::string_view kField = " JobState=";
    const std::size_t at = output->find(kField);
    if (at != output->npos) {
      return FirstWord(std::string_view(*output).substr(at + kField.size()));
    }
  }
  return "";
}

std::optional<SlurmFailure> Slurm::Cancel(
    const std::vector<std::string>& ids) const {
  if (ids.empty()) return std::nullopt;
  std::vector<std::string> words = {"scancel"};
  words.insert(words.end(), ids.begin(), ids.end());
  auto answer = Call(words);
  auto* failure = std::get_if<SlurmFailure>(&answer);
  if (failure == nullptr) return std::nullopt;
  const auto jobs = Jobs();
  failure->away = std::holds_alternative<SlurmFailure>(jobs);
  if (failure->away) return std::move(*failure);
  // It also fails for jobs that have ended meanwhile.
  const bool alive = std::ranges::any_of(
      std::get<std::vector<SlurmJob>>(jobs), [&](const SlurmJob& job) {
        return job.phase != Phase::kEnded &&
               std::ranges::find(ids, job.id) != ids.end();
      });
  return alive ? std::optional(std::move(*failure)) : std::nullopt;
}

}  // namespace dtrain
