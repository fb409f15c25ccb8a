// The host of a user's program (docs/protocol.md). It is between the runner,
// which it talks to like any other trial through a TrialChannel, and the
// program, which gets a description in a file and operations on one descriptor,
// and writes reports to another one, or uses a socket for both.
//
// One loop polls the program's process, its reports and the runner's messages.
// A program is not trusted to follow the protocol: a line that is not a valid
// report is counted and ignored, reports that arrive faster than the store can
// record them are averaged, and counts must not decrease.
//
// A search that stops trials answers each length at once, and may ask for more.
// A program that does not read operations goes on meanwhile, so its reports are
// held until the answer: each length has the result that was measured there.
//
// The end is always orderly: once the work is complete, or cannot continue, the
// program has `limits_.ending` to exit by itself; then it gets SIGTERM, then
// SIGKILL. Output up to then still counts. DecideEnd derives the trial's end.
#include "engine/program/command_trial.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <span>
#include <string>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/base/rounding.h"
#include "engine/base/text.h"
#include "engine/checkpoint/checkpoint_files.h"
#include "engine/context/context_links.h"
#include "engine/context/working_tree.h"
#include "engine/os/files.h"
#include "engine/os/process.h"
#include "engine/os/spawn.h"
#include "engine/os/system_error.h"
#include "engine/program/program.h"
#include "engine/train/log_line.h"
#include "engine/train/trial_channel.h"
#include "engine/wire/message.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr Duration kTick = milliseconds(100);
constexpr std::size_t kMaxConnections = 256;

void Log(LogLevel level, const std::string& text) {
  LogLine(level, "dtrain: " + text);
}

void WriteFile(const fs::path& path, const std::string& text) {
  const UniqueFd file(
      ::open(path.c_str(),
             O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file || !WriteFully(file.get(), std::as_bytes(std::span(text)))) {
    CannotWrite(path, errno);
  }
}

// Returns 0 if there is nothing.
ino_t ReadInode(const fs::path& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}

}  // namespace

CommandTrial::CommandTrial(const TrialSpec& spec, TrialChannel& channel,
                           Clock clock, CommandLimits limits)
    : spec_(spec),
      channel_(channel),
      clock_(std::move(clock)),
      limits_(limits),
      units_{.unit = spec.until.value_or(Length{}).unit,
             .planned = spec.until.value_or(Length{}).count > 0,
             .is_open = spec.until.value_or(Length{}).count == 0,
             .records_per_epoch = spec.settings.records_per_epoch},
      scratch_(fs::path(spec.directory) / "scratch"),
      until_(spec.until.value_or(Length{})),
      rate_(clock_.monotonic()) {
  directory_inode_ = ReadInode(spec_.directory);
  if (spec_.settings.early_stopping) {
    early_stop_.emplace(*spec_.settings.early_stopping);
  }
}

CommandTrial::~CommandTrial() {
  program_.reset();  // before its working directory
  std::error_code ignored;
  fs::remove_all(scratch_, ignored);
}

// A program may have created the directory again after it was moved away.
void CommandTrial::RequireDirectory() const {
  if (directory_inode_ == 0 || ReadInode(spec_.directory) == directory_inode_)
    return;
  throw Error(ErrorKind::kFailed,
              spec_.directory + ": was moved away while the trial runs");
}

CommandEnd CommandTrial::Run() {
  Restore();
  Start();
  channel_.Send(Ready{});
  SendProgress();
  // The validation at the length may be in the checkpoint.
  CompleteIfDone();
  while (!program_->Reap()) {
    PollOnce(kTick);
    ReceiveOperations();
    KeepLateReports();
    const Duration now = clock_.monotonic();
    if (!end_by_ || now < *end_by_) continue;
    if (!std::exchange(terminated_, true)) {
      Log(LogLevel::kWarning,
          why_ending_ + ", but the program did not exit within " +
              FormatDuration(limits_.ending) + "; sending SIGTERM");
      program_->Signal(SIGTERM);
    } else {
      Log(LogLevel::kWarning, "the program ignores SIGTERM; killing it");
      program_->Signal(SIGKILL);
    }
    end_by_ = now + limits_.after_term;
  }
  Drain();
  if (spec_.metrics) EndMetrics();
  SendMeans();
  KeepLateReports();
  return DecideEnd();
}

void CommandTrial::Restore() {
  if (spec_.restore.empty()) {
    if (spec_.run == 0) return;
    std::string text = "no checkpoint; starting from scratch";
    if (spec_.metrics) {
      text = "the program is run again from its beginning" +
             (units_.planned ? " to " + LengthText(until_.count, until_.unit)
                             : "") +
             ": it has saved no checkpoint with dtrain";
    }
    return Log(LogLevel::kInfo, text);
  }
  const fs::path path = spec_.CheckpointPath(spec_.restore);
  ProgramState state = LoadProgramCheckpoint(path);
  if (const auto late = ReadLateReports(spec_.directory, spec_.restore)) {
    try {
      state.trainer = TrainingState::FromJson(*late);
    } catch (const std::exception& error) {
      Log(LogLevel::kWarning, std::string("the reports that came after the "
                                          "checkpoint cannot be read: ") +
                                  error.what());
    }
  }
  if (early_stop_ && !state.trainer.early_stop.is_null()) {
    early_stop_->Load(state.trainer.early_stop);
  }
  at_ = {.count = state.count,
         .batches = state.trainer.batches,
         .epoch = state.epoch};
  checkpoint_ = at_.count;
  ended_early_ = state.trainer.ended;
  Log(LogLevel::kInfo, "resuming from checkpoint " + spec_.restore + " at " +
                           LengthText(at_.count, units_.unit));
  for (TrialMessage& message : state.trainer.unacknowledged) {
    const auto* const report = std::get_if<ValidationReport>(&message);
    if (report != nullptr && report->batches == at_.batches) {
      validation_ = ProgramValidation{.point = at_, .metrics = report->metrics};
    }
    channel_.Send(std::move(message));
  }
}

void CommandTrial::Start() {
  std::string origin = spec_.context;
  if (!spec_.master.empty()) {
    origin = ReadContextOrigin(spec_.master).directory.string();
    spec_.context = MakeWorkingTree(spec_.master, spec_.context).string();
  }
  // An empty directory that only this user may look into.
  std::error_code error;
  fs::remove_all(scratch_, error);
  fs::create_directory(scratch_, error);  // fails if its parent was moved away
  fs::permissions(scratch_, fs::perms::owner_all, error);
  if (error && IsStorageFault(error.value())) {
    CannotWrite(scratch_, error.value());
  }
  if (error) {
    throw Error(ErrorKind::kFailed,
                scratch_.string() + ": cannot be created: " + error.message());
  }
  socket_.emplace(scratch_);
  ProgramPaths paths{.description = scratch_ / "trial.json",
                     .scratch = scratch_,
                     .socket = socket_->path(),
                     .origin = std::move(origin)};
  if (!spec_.restore.empty()) {
    paths.checkpoint =
        fs::path(spec_.CheckpointPath(spec_.restore)) / kProgramFiles;
    paths.at = ProgramState{.epoch = at_.epoch, .count = at_.count};
    paths.at.trainer.batches = at_.batches;
    paths.validated = validation_.has_value();
  } else if (!spec_.warm_start.empty()) {
    // A command's checkpoint has the program's files in a subdirectory. A
    // program gets all files of another trial's checkpoint.
    const fs::path files = fs::path(spec_.warm_start) / kProgramFiles;
    std::error_code ignored;
    paths.warm_start =
        fs::is_directory(files, ignored) ? files : fs::path(spec_.warm_start);
  }
  WriteFile(
      paths.description,
      DescribeTrial(spec_, until_, paths)
              .dump(2, ' ', false, nlohmann::json::error_handler_t::replace) +
          "\n");
  const char* path = std::getenv("PATH");
  const std::vector<std::string> words = ProgramWords(spec_, until_, paths);
  if (spec_.placeholders) {
    constexpr std::size_t kMaxBytes = 2000;
    std::string line;
    for (const std::string& word : words) {
      line += (line.empty() ? "" : " ") + QuoteForShell(word);
    }
    Log(LogLevel::kInfo,
        "runs " + Truncate(EscapeForTerminal(line), kMaxBytes));
  }
  ProgramStart start{.words = words,
                     .file = FindProgram(words.front(), spec_.context,
                                         path == nullptr ? "" : path),
                     .directory = spec_.context,
                     .environment = ProgramVariables(spec_, until_, paths)};
  if (spec_.metrics) ObserveMetrics();
  program_.emplace(start);
  reports_.emplace(program_->ReleaseReports());
  output_.emplace(program_->ReleaseOutput(), STDOUT_FILENO);
  errors_.emplace(program_->ReleaseErrors(), STDERR_FILENO);
  active_at_ = clock_.monotonic();
}

// Returns true if something was read.
bool CommandTrial::PollOnce(Duration longest) {
  const std::int64_t before = lines_ + activity_;
  std::vector<pollfd> entries = {
      {.fd = program_->Reap() ? -1 : program_->exit_fd(), .events = POLLIN},
      {.fd = channel_.news(), .events = POLLIN},
      {.fd = socket_->fd(), .events = POLLIN},
      {.fd = reports_ ? reports_->fd() : -1, .events = POLLIN},
      {.fd = output_ ? output_->fd() : -1, .events = POLLIN},
      {.fd = errors_ ? errors_->fd() : -1, .events = POLLIN}};
  const std::size_t fixed = entries.size();
  // The pipes are not read while reports are held, so the program is blocked
  // when they are full; it loses nothing.
  const bool holds = HoldsReports();
  if (holds) entries[3].fd = -1;
  for (const Connection& connection : connections_) {
    entries.push_back(
        {.fd = holds ? -1 : connection.lines.fd(), .events = POLLIN});
  }
  const auto wait = std::chrono::duration_cast<milliseconds>(longest);
  const auto timeout = static_cast<int>(wait.count());
  if (::poll(entries.data(), entries.size(), timeout) < 0) return false;
  // Before the reports, which may end the trial: the program printed it first.
  if (entries[4].revents != 0) ReadFrom(*output_);
  if (entries[5].revents != 0) ReadFrom(*errors_);
  if (entries[3].revents != 0 && !ReadFrom(*reports_)) {
    reports_.reset();
    // A program that is exiting closes it a moment before.
    pollfd end{.fd = program_->exit_fd(), .events = POLLIN, .revents = 0};
    const bool exits = ::poll(&end, 1, /*milliseconds=*/100) > 0;
    if (!exits && connections_.empty() && !spec_.metrics) {
      Log(LogLevel::kWarning,
          "the program has closed descriptor " + std::to_string(kReportFd) +
              " and continues to run; its reports there are not received");
    }
  }
  for (std::size_t i = connections_.size(); i > 0; --i) {
    Connection& connection = connections_[i - 1];
    if (entries[fixed + i - 1].revents == 0) continue;
    if (ReadFrom(connection.lines, &connection)) continue;
    stop_followed_ = stop_followed_ || HasReadStop(connection);
    connections_.erase(connections_.begin() + static_cast<int>(i - 1));
  }
  if (entries[2].revents != 0) Accept();
  if (spec_.metrics) PollMetrics();
  const Duration now = clock_.monotonic();
  if (!means_.empty() && rate_.TryAcquire(now)) SendMeans();
  if (now - progress_at_ >= kTick) SendProgress();
  return lines_ + activity_ != before;
}

// Returns false at the end of the stream, once all of it was taken.
bool CommandTrial::ReadFrom(ReportLines& lines, Connection* connection) {
  const bool more = lines.Fill();
  ReadReportLines(lines, connection);
  return more || HoldsReports();
}

// True while reports may belong to a length that the search has not asked for.
bool CommandTrial::HoldsReports() const {
  return done_ && spec_.stops_trials && units_.planned && !spec_.metrics &&
         ended_early_.empty() && !closed_ && !stop_sent_;
}

void CommandTrial::ReadReportLines(ReportLines& lines, Connection* connection) {
  while (!HoldsReports()) {
    const auto line = lines.Next();
    if (!line) return;
    OnLine(*line, connection);
  }
}

// Answers a hello. Two programs that both count as rank 0 would mix their
// counts, so the second is refused.
void CommandTrial::Welcome(Connection& connection, std::int64_t rank) {
  const auto is_first = [](const Connection& other) { return other.rank == 0; };
  connection.refused = rank == 0 && std::ranges::any_of(connections_, is_first);
  nlohmann::json answer = {{"type", "welcome"}};
  if (connection.refused) {
    const std::string why =
        "another process of this trial already reports as rank 0; set RANK and "
        "WORLD_SIZE, or call dtrain.init() in one process only";
    answer = {{"type", "refused"}, {"message", why}};
    Log(LogLevel::kWarning, "refused a connection: " + why);
  } else {
    connection.rank = rank;
  }
  const std::string line = answer.dump() + "\n";
  (void)!::send(connection.lines.fd(), line.data(), line.size(),
                MSG_NOSIGNAL | MSG_DONTWAIT);
}

void CommandTrial::Accept() {
  UniqueFd connection = socket_->Accept();
  if (!connection || connections_.size() >= kMaxConnections) return;
  // The last operation was sent before it connected.
  const bool told =
      !last_operation_.empty() && SendLastOperation(connection.get());
  connections_.push_back({.lines = ReportLines(std::move(connection)),
                          .told_to_stop = told && stop_sent_,
                          .told_at_once = told && stop_sent_});
}

void CommandTrial::ReceiveOperations() {
  while (const auto message = channel_.TryNext()) {
    OnOperation(*message);
    if (reports_) ReadReportLines(*reports_, nullptr);
    for (Connection& connection : connections_) {
      ReadReportLines(connection.lines, &connection);
    }
    if (std::holds_alternative<StopTrial>(*message)) return;
  }
}

void CommandTrial::OnOperation(const RunnerMessage& message) {
  if (const auto* operation = std::get_if<RunOperation>(&message)) {
    until_ = operation->until;
    done_ = false;
    awaits_first_report_ = true;
    progress_ = -1;
    SendOperation({{"type", "train"}, {"until", LengthToJson(until_)}});
    CompleteIfDone();
    ReportFindings();
    if (!done_) Resume();
  } else if (std::holds_alternative<CloseTrial>(message)) {
    closed_ = true;
    SendOperation({{"type", "close"}});
    if (!EndsByItself()) return EndNow("the search has stopped the trial");
    Resume();
    BeginEnding("all operations are complete");
  } else if (!std::exchange(stop_sent_, true)) {
    SendOperation({{"type", "stop"}});
    if (!EndsByItself()) return EndNow("the trial is to stop");
    Resume();
  }
}

void CommandTrial::SendOperation(const nlohmann::json& operation) {
  last_operation_ = operation.dump() + "\n";
  if (!program_->WriteLine(last_operation_)) {
    Log(LogLevel::kWarning,
        "the program does not read its operations; one is lost");
  }
  for (Connection& connection : connections_) {
    connection.told_to_stop =
        SendLastOperation(connection.lines.fd()) && stop_sent_;
  }
}

// Returns false if the program can not read it: it has closed its end, or left
// much there unread.
bool CommandTrial::SendLastOperation(int fd) const {
  return ::send(fd, last_operation_.data(), last_operation_.size(),
                MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(last_operation_.size());
}

// A program whose first line is a hello has to read up to the answer, so that
// is no sign; the module `dtrain` reports that it follows the order.
bool CommandTrial::HasReadStop(const Connection& connection) {
  const bool has_to_read = connection.rank && connection.told_at_once;
  return connection.told_to_stop && !has_to_read &&
         connection.rank.value_or(0) == 0 && !connection.lines.HasUnread();
}

void CommandTrial::BeginEnding(const std::string& why) {
  if (end_by_) return;
  end_by_ = clock_.monotonic() + limits_.ending;
  why_ending_ = why;
}

// A fast program may have reported several lengths and ended. A search that
// stops trials answers soon whether it wants them.
void CommandTrial::AwaitDecision() {
  const Duration deadline = clock_.monotonic() + 10 * limits_.drain;
  while (done_ && spec_.stops_trials &&
         (HoldsReports() || !findings_.reports.empty()) && !closed_ &&
         !stop_sent_ && clock_.monotonic() < deadline) {
    pollfd news{.fd = channel_.news(), .events = POLLIN, .revents = 0};
    (void)::poll(&news, 1, /*milliseconds=*/20);
    ReceiveOperations();
  }
}

// Later output of its children is not read.
void CommandTrial::Drain() {
  AwaitDecision();
  const Duration deadline = clock_.monotonic() + limits_.drain;
  bool more = PollOnce(Duration(0));
  const auto open = [](const std::optional<ProgramOutput>& output) {
    return output && output->fd() >= 0;
  };
  while (reports_ || !connections_.empty() || open(output_) || open(errors_)) {
    const Duration limit = more ? deadline + 9 * limits_.drain : deadline;
    if (clock_.monotonic() >= limit) break;
    more = PollOnce(milliseconds(20));
    AwaitDecision();
  }
  ReceiveOperations();
}

CommandEnd CommandTrial::DecideEnd() {
  const ExitStatus exit = *program_->Reap();
  // The first rule that applies decides: a wrong configuration, what the
  // program said itself, a checkpoint that could not be saved, an order to
  // stop, the exit code, and last whether there is a result.
  const auto finish = [&](EndReason reason, const std::string& message = "") {
    return CommandEnd{.finished = Finished{reason, message, unread_},
                      .exit = exit};
  };
  if (!refusal_.empty()) {
    return finish(EndReason::kRefused,
                  std::string(kConfigurationReason) + refusal_);
  }
  if (end_report_) {
    if (end_report_->reason == EndReason::kUserStop && validation_) {
      CompleteOpenEnded();
    }
    return finish(end_report_->reason, end_report_->message);
  }
  // The result is known, but the training behind it was not saved: the runner
  // stops with the disk's error and repeats the length later.
  if (unsaved_ && (done_ || stop_sent_)) {
    return finish(EndReason::kDiskFull, unsaved_->what());
  }
  const bool ended_by_itself = exit.code == 0 && !terminated_;
  // If the program knows that it was to stop, its exit is not the end of its
  // training.
  const bool follows_stop = stop_followed_ || program_->HasReadAll() ||
                            std::ranges::any_of(connections_, HasReadStop);
  if (stop_sent_ && !units_.planned && validation_ && ended_by_itself &&
      !follows_stop) {
    CompleteOpenEnded();
    Log(LogLevel::kInfo,
        "the program did not read the order to stop, and has ended with its "
        "result");
    return finish(EndReason::kStopped);
  }
  if (stop_sent_) {
    const std::string next =
        checkpoint_ ? "resume from its checkpoint at " +
                          LengthText(*checkpoint_, units_.unit)
                    : "start from scratch, because it has no checkpoint";
    Log(LogLevel::kInfo, "stopped at " + PositionText() + "; will " + next);
    return finish(EndReason::kStopped, terminated_ ? why_ending_ : "");
  }
  if (exit.code != 0 && !terminated_) {
    Log(LogLevel::kError,
        std::string("the program ") + (exit.signal != 0 ? "was " : "") +
            FormatExit(exit) + " at " + PositionText() + IgnoredText());
    return {.exit = exit};
  }
  if (closed_) return finish(EndReason::kCompleted);
  CompleteOpenEnded();
  // The program may end with code 0 without a result if nothing is searched,
  // and no length or place of its metrics is given.
  if (!done_ && !spec_.settings.requires_metric && !units_.planned &&
      !spec_.metrics && !validation_ && !terminated_) {
    Log(LogLevel::kInfo, "the program ended without a validation of '" +
                             spec_.settings.searcher_metric +
                             "', so it has no result");
    Complete(/*early=*/false);
  }
  // The runner starts the program again for later operations.
  if (done_ || awaits_first_report_) return finish(EndReason::kStopped);
  const std::string why =
      "the program ended at " + PositionText() + " without a validation of '" +
      spec_.settings.searcher_metric + "'" + (units_.planned ? " there" : "") +
      MissingText() + FoundText() + IgnoredText();
  Log(LogLevel::kError, why);
  return finish(EndReason::kError, why);
}

std::string CommandTrial::PositionText() const {
  if (!units_.planned) return LengthText(at_.count, units_.unit);
  return FormatNumber(at_.count) + " of " + std::to_string(until_.count) + " " +
         std::string(UnitName(units_.unit));
}

// Returns what a script that reports should have done, as a part of a sentence.
std::string CommandTrial::MissingText() const {
  if (spec_.metrics) return "";
  if (!validation_ && trained_metric_) {
    return "; it was reported as a training metric: report it as a validation, "
           "in Python by trial.validate()";
  }
  if (!validation_) return "";
  return "; its last validation is at " +
         FormatNumber(validation_->point.count) +
         ": if training has ended early, report that, in Python by "
         "trial.finish()";
}

std::string CommandTrial::IgnoredText() const {
  if (ignored_ == 0) return "";
  return "; " + CountText(ignored_, "line was", "lines were") +
         " ignored, the first: " + first_ignored_;
}

namespace {

CommandEnd Failed(EndReason reason, const std::string& message) {
  LogLine(LogLevel::kError, "dtrain: " + message);
  return {.finished = Finished{reason, message}, .exit = ExitStatus{.code = 1}};
}

CommandEnd RunOn(TrialChannel& channel) try {
  const TrialSpec spec = channel.ReadSpec();
  channel.Start();
  if (spec.task != Task::kTrain || spec.command.empty() || !spec.until) {
    throw Error(ErrorKind::kFailed,
                "a command can only be trained, up to a length; only the "
                "command itself can read its checkpoints");
  }
  return CommandTrial(spec, channel, Clock::System()).Run();
} catch (const Error& error) {
  EndReason reason = EndReason::kError;
  // kDamaged: the runner marks the checkpoint and resumes from an older one.
  if (error.kind() == ErrorKind::kDamaged) reason = EndReason::kDamaged;
  // Directories that cannot be used are a fault of the machine, as a full disk.
  if (error.kind() == ErrorKind::kDiskFull ||
      error.kind() == ErrorKind::kStore) {
    reason = EndReason::kDiskFull;
  }
  return Failed(reason, error.what());
} catch (const std::bad_alloc&) {
  return Failed(EndReason::kError,
                "out of memory; free some, or run fewer trials at once");
} catch (const std::exception& error) {
  return Failed(EndReason::kError, error.what());
}

}  // namespace

int RunCommandTrial(int control_fd) {
  // A full file system or a closed pipe is an error code, not a signal.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  CommandEnd end;
  {
    TrialChannel channel{UniqueFd(control_fd)};
    end = RunOn(channel);
    try {
      channel.Drain();
      if (end.finished) channel.Send(*end.finished);
    } catch (const Error& error) {
      LogLine(LogLevel::kError, error.what());
      return 1;
    }
  }
  if (!end.finished && end.exit.signal != 0) {
    // Ends this process by the signal that ended the program, as seen by
    // waitpid.
    const int signal = end.exit.signal;
    const rlimit no_core{};
    ::setrlimit(RLIMIT_CORE, &no_core);
    std::signal(signal, SIG_DFL);
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, signal);
    ::sigprocmask(SIG_UNBLOCK, &one, nullptr);
    std::raise(signal);
    ::_exit(128 + signal);
  }
  if (!end.finished) return end.exit.code;
  return end.finished->reason == EndReason::kError ? 1 : 0;
}

}  // namespace dtrain
