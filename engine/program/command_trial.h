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
#include "engine/process/trial_host.h"
#include "engine/program/event_metrics.h"
#include "engine/program/metric_file.h"
#include "engine/program/metric_steps.h"
#include "engine/program/printed_metrics.h"
#include "engine/program/program.h"
#include "engine/program/program_report.h"
#include "engine/train/training_state.h"
#include "engine/train/trial_channel.h"
#include "engine/wire/trial_spec.h"

namespace dtrain {

/// Timeouts of a CommandTrial, shorter in tests.
struct CommandLimits {
  // From the end of all work to SIGTERM, and from there to SIGKILL.
  Duration ending = StopGrace();
  Duration after_term = std::chrono::seconds(5);
  // Time to read remaining output after the program has ended.
  Duration drain = std::chrono::seconds(1);
  // Time without output after which the last step of a program whose metrics
  // are found is over.
  Duration quiet = std::chrono::seconds(30);
};

/// End of a command: its last message, or the end of its program.
struct CommandEnd {
  std::optional<Finished> finished;
  ExitStatus exit;
};

/// Runs one trial that is a user's program: executes it, forwards the runner's
/// operations to it, turns its reports into messages and checkpoints
/// (docs/protocol.md), and decides how the trial ended. Invalid reports are
/// ignored, with a line in the log. One thread, besides that of its channel.
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
  // A process of the program that has connected to the socket.
  struct Connection {
    ReportLines lines;
    std::optional<std::int64_t> rank = {};  // as its hello says
    bool refused = false;                   // its reports are ignored
    // It was sent the order to stop; the hello's answer came after it.
    bool told_to_stop = false;
    bool told_at_once = false;
  };

  // The program and the runner.
  void Restore();
  void Start();
  bool PollOnce(Duration longest);
  bool ReadFrom(ReportLines& lines, Connection* connection = nullptr);
  bool HoldsReports() const;
  void ReadReportLines(ReportLines& lines, Connection* connection);
  void Welcome(Connection& connection, std::int64_t rank);
  void Accept();
  void ReceiveOperations();
  void OnOperation(const RunnerMessage& message);
  void SendOperation(const nlohmann::json& operation);
  bool SendLastOperation(int fd) const;

  // Metrics that the program does not report, in command_metrics.cc.
  void ObserveMetrics();
  void ReadFrom(ProgramOutput& output);
  void SetActive();
  void PollMetrics();
  void EndMetrics();
  void ReportFindings();
  void Record(const FoundReport& found);
  void RefuseBothSources(const ProgramReport& report);
  void Refuse(const std::string& why);
  bool EndsByItself() const;
  void Suspend();
  void Resume();
  void EndNow(const std::string& why);
  std::string FoundText() const;

  // The program's end.
  void AwaitDecision();
  void BeginEnding(const std::string& why);
  void Drain();
  CommandEnd DecideEnd();
  static bool HasReadStop(const Connection& connection);
  std::string PositionText() const;
  std::string IgnoredText() const;
  std::string MissingText() const;

  // The program's reports, in command_reports.cc.
  void OnLine(const ReportLine& line, Connection* connection);
  void Ignore(const std::string& line, const std::string& why);
  void CountIgnored(const std::string& text);
  static void RequireMonotonic(const ProgramPoint& point, double& last,
                               const char* what);
  void On(const ProgramTraining& report);
  void On(const ProgramValidation& report);
  void On(const ProgramCheckpoint& report);
  ValidationReport MakeMessage(const ProgramValidation& report);
  void Record(ValidationReport message, const ProgramValidation& report);
  void MarkIfLate(const ProgramPoint& point);
  void SetStopping(TrainingState& state) const;
  void KeepLateReports();
  void RemoveFromScratch(const std::filesystem::path& source) const;
  void On(const ProgramProgress& report);
  void On(const ProgramEnd& report);
  void On(const ProgramUnread& report);
  void On(const ProgramStopping& report);
  bool TryCheckpoint(const ProgramPoint& point,
                     const std::filesystem::path& source,
                     const std::optional<ValidationReport>& validation);
  bool AwaitSpace(DiskWait& wait);
  void SaveCheckpoint(const ProgramPoint& point,
                      const std::filesystem::path& source,
                      const std::optional<ValidationReport>& validation);
  void RequireDirectory() const;
  bool IsUnwanted(const ProgramPoint& point);
  void Advance(const ProgramPoint& point);
  void AwaitReportBudget();
  void SendMeans();
  void ObserveForStopping(const MetricValues& metrics);
  void CompleteIfDone();
  void CompleteOpenEnded();
  void Complete(bool early);
  void SendProgress();

  TrialSpec spec_;  // from Start on, `context` is the working directory
  TrialChannel& channel_;
  const Clock clock_;
  const CommandLimits limits_;
  ProgramUnits units_;
  const std::filesystem::path scratch_;
  ino_t directory_inode_ = 0;  // of the trial's directory; 0: unknown

  std::optional<ProgramSocket> socket_;
  std::optional<Program> program_;
  std::optional<ReportLines> reports_;  // none: closed
  std::optional<ProgramOutput> output_;
  std::optional<ProgramOutput> errors_;
  // Signs of life besides reports: output, and metrics in files.
  std::int64_t activity_ = 0;
  Duration active_at_{0};           // the last one
  std::int64_t sent_activity_ = 0;  // to the runner
  Duration activity_at_{0};         // when it was sent
  // Connections to the socket, for reports and operations.
  std::vector<Connection> connections_;
  std::string last_operation_;  // line for later connections

  // With TrialSpec::metrics.
  MetricFindings findings_;                // not yet recorded
  std::optional<PrintedMetrics> printed_;  // or:
  std::optional<MetricFile> file_;         // or:
  std::optional<EventMetrics> events_;
  bool first_value_ = false;       // the first values of a step count
  std::optional<double> ends_at_;  // the count where the program ends
  bool suspended_ = false;         // until the runner answers
  bool warned_of_far_ = false;
  std::string refusal_;  // why the trial ends, or empty

  Length until_;                      // 0: the program decides
  bool done_ = false;                 // `until_` is reached and reported
  bool awaits_first_report_ = false;  // since `until_` was sent
  bool closed_ = false;               // the runner has no more operations
  bool stop_sent_ = false;
  bool stop_followed_ = false;  // the program has read it, or saved since
  std::optional<ProgramEnd> end_report_;
  std::vector<std::string> unread_;  // hyperparameters, as it says
  // Those that it named before its first validation, which takes them along.
  std::optional<std::vector<std::string>> unread_so_far_;
  // Why the last checkpoint could not be written.
  std::optional<Error> unsaved_;
  std::optional<EarlyStop> early_stop_;
  std::string ended_early_;  // why, or empty

  ProgramPoint at_;  // its last report, or the checkpoint it resumes from
  // The counts of its last reports.
  double training_at_ = 0;
  double validation_at_ = 0;
  double checkpoint_at_ = 0;
  std::optional<ProgramValidation> validation_;  // the last
  std::optional<double> checkpoint_;             // count of the last
  // The last that this process has saved, and its state with the reports of its
  // count that came later; empty: none.
  std::string saved_;
  TrainingState saved_state_;
  bool late_ = false;  // such reports are not written yet
  ReportRate rate_;
  TrainingMeans means_;
  bool warned_of_means_ = false;
  bool warned_of_overshoot_ = false;
  bool warned_of_unwanted_ = false;
  std::int64_t lines_ = 0;
  std::int64_t ignored_ = 0;
  std::string first_ignored_;
  bool trained_metric_ = false;  // the searcher's metric came as a training one
  Duration progress_at_{0};
  std::int64_t progress_ = -1;  // batches sent
  bool sent_position_ = false;  // since the program's first report

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
