#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "engine/base/clock.h"
#include "engine/base/error.h"
#include "engine/checkpoint/disk_wait.h"
#include "engine/command/program.h"
#include "engine/command/program_checkpoint.h"
#include "engine/command/program_report.h"
#include "engine/process/trial_host.h"
#include "engine/train/training_state.h"
#include "engine/train/trial_channel.h"
#include "engine/wire/trial_spec.h"

namespace dtrain {

/// Timeouts of a CommandTrial, shorter in tests.
struct CommandLimits {
  // From the end of all work to SIGTERM, and from there to SIGKILL.
  Duration ending = StopGrace();
  Duration after_term = std::chrono::seconds(5);
  // For what the program wrote when it has ended.
  Duration drain = std::chrono::seconds(1);
};

/// End of a command: its last message, or the end of its program.
struct CommandEnd {
  std::optional<Finished> word;
  ProgramExit exit;
};

/// One trial that is a program of the user's: executes it, passes the runner's
/// operations on to it, makes messages and checkpoints of its reports
/// (docs/protocol.md), and decides how the trial ended. Invalid reports are
/// ignored, with a line in the log. One thread, and that of its channel.
class CommandTrial {
 public:
  /// REQUIRES: the channel is started and outlives this.
  CommandTrial(const TrialSpec& spec, TrialChannel& channel, Clock clock,
               CommandLimits limits = {});
  ~CommandTrial();

  /// Runs the program to its end. Throws Error if it cannot be executed;
  /// kDamaged if its checkpoint is damaged.
  CommandEnd Run();

 private:
  // The program and the runner.
  void Restore();
  void Start();
  bool Turn(Duration longest);
  bool ReadFrom(ReportLines& lines);
  void CloseReports();
  void Accept();
  void HearOperations();
  void Hear(const RunnerMessage& message);
  void Tell(const nlohmann::json& operation);

  // The program's end.
  void BeginEnding(const std::string& why);
  void SeeToEnding();
  void Drain();
  CommandEnd Judge();
  void SayWhereItGoesOn() const;
  static std::string HowItEnded(const ProgramExit& exit);
  std::string HowFar() const;
  std::string IgnoredText() const;

  // The program's reports, in command_reports.cc.
  void Take(const ReportLine& line);
  void Ignore(const std::string& line, const std::string& why);
  static void RequireAhead(const ProgramPoint& point, double& last,
                           const char* what);
  void On(const ProgramTraining& report);
  void On(const ProgramValidation& report);
  void On(const ProgramCheckpoint& report);
  void RemoveFromScratch(const std::filesystem::path& source) const;
  void On(const ProgramProgress& report);
  void On(const ProgramEnd& report);
  bool TryCheckpoint(const ProgramPoint& point,
                     const std::filesystem::path& source);
  bool AwaitSpace(DiskWait& wait);
  void SaveCheckpoint(const ProgramPoint& point,
                      const std::filesystem::path& source);
  void RequirePlace() const;
  void Advance(const ProgramPoint& point);
  void AwaitRoom();
  void SendMeans();
  void ObserveForStopping(const MetricValues& metrics);
  void CompleteIfDone();
  void CompleteUnplanned();
  void Complete(bool early);
  void WarnOfOvershoot();
  void TellProgress();

  const TrialSpec spec_;
  TrialChannel& channel_;
  const Clock clock_;
  const CommandLimits limits_;
  ProgramUnits units_;
  const std::filesystem::path scratch_;
  ino_t place_ = 0;  // the trial's directory as it was at first; 0: unknown

  std::optional<ProgramSocket> socket_;
  std::optional<Program> program_;
  std::optional<ReportLines> reports_;  // none: closed
  // What came over the socket: read there, told there.
  std::vector<ReportLines> connections_;
  std::string last_operation_;  // the line, for who connects later

  Length until_;            // 0: the program decides
  bool done_ = false;       // as far as `until_`, and the runner knows
  bool untouched_ = false;  // it has said nothing since it was told `until_`
  bool closed_ = false;     // the runner wants no more
  bool stop_told_ = false;
  std::optional<ProgramEnd> said_end_;
  std::optional<Error> disk_full_;
  std::optional<EarlyStop> early_stop_;
  std::string ended_early_;  // why, or empty

  ProgramPoint at_;  // what it said last, or where it goes on from
  // The counts of its last reports.
  double training_at_ = 0;
  double validation_at_ = 0;
  double checkpoint_at_ = 0;
  std::optional<ProgramValidation> validation_;  // the last
  std::optional<double> checkpoint_;             // count of the last
  ReportRate rate_;
  TrainingMeans means_;
  bool told_of_means_ = false;
  bool told_of_overshoot_ = false;
  std::int64_t lines_ = 0;
  std::int64_t ignored_ = 0;
  std::string first_ignored_;
  Duration progress_at_{0};
  std::int64_t progress_ = -1;  // batches told
  bool told_count_ = false;     // since the program's first report

  std::optional<Duration> end_by_;
  std::string why_ending_;
  bool terminated_ = false;
};

/// Runs one trial that is a command, in a process of its own: reads its
/// TrialSpec as the first line of the control socket. Returns the exit code, or
/// ends by the signal that ended the program. This is TrialHostHooks::run_trial
/// of the command host.
int RunCommandTrial(int control_fd);

}  // namespace dtrain
