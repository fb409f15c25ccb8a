#include "engine/command/command_trial.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/command/program.h"
#include "engine/context/working_tree.h"
#include "engine/os/process.h"
#include "engine/train/log_line.h"
#include "engine/wire/json_fields.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr Duration kTick = milliseconds(100);
constexpr std::size_t kMostConnections = 16;

void Log(LogLevel level, const std::string& text) {
  LogLine(level, "dtrain: " + text);
}

// An empty directory that only this user may look into.
void MakeEmptyDirectory(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  fs::create_directory(path, error);  // what is above it was moved, or is there
  fs::permissions(path, fs::perms::owner_all, error);
  if (!error) return;
  throw Error(ErrorKind::kFailed,
              path.string() + ": cannot be made: " + error.message());
}

void WriteFile(const fs::path& path, const std::string& text) {
  const UniqueFd file(
      ::open(path.c_str(),
             O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (file && WriteAll(file.get(), text)) return;
  throw Error(ErrorKind::kFailed, path.string() + ": cannot be written");
}

// 0 where there is nothing.
ino_t InodeOf(const fs::path& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}

// A checkpoint of a command has the program's files in a directory of their
// own; of another trial's, the program gets all there is.
fs::path ProgramFilesOf(const fs::path& checkpoint) {
  std::error_code ignored;
  const fs::path files = checkpoint / kProgramFiles;
  return fs::is_directory(files, ignored) ? files : checkpoint;
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
  place_ = InodeOf(spec_.directory);
  if (spec_.settings.early_stopping) {
    early_stop_.emplace(*spec_.settings.early_stopping);
  }
}

CommandTrial::~CommandTrial() {
  program_.reset();  // before what it works in
  std::error_code ignored;
  fs::remove_all(scratch_, ignored);
}

// A program may make the directories again that somebody moved away.
void CommandTrial::RequirePlace() const {
  if (place_ == 0 || InodeOf(spec_.directory) == place_) return;
  throw Error(ErrorKind::kFailed,
              spec_.directory + ": was moved away while the trial runs");
}

CommandEnd CommandTrial::Run() {
  Restore();
  Start();
  channel_.Send(Ready{});
  TellProgress();
  while (!program_->Reap()) {
    Turn(kTick);
    HearOperations();
    SeeToEnding();
  }
  Drain();
  SendMeans();
  return Judge();
}

void CommandTrial::Restore() {
  if (spec_.restore.empty()) {
    if (spec_.run > 0) {
      Log(LogLevel::kInfo, "begins anew, for it has no checkpoint");
    }
    return;
  }
  const fs::path path = spec_.CheckpointPath(spec_.restore);
  ProgramState state = LoadProgramCheckpoint(path);
  if (early_stop_ && !state.trainer.early_stop.is_null()) {
    early_stop_->Load(state.trainer.early_stop);
  }
  at_ = {.count = state.count,
         .batches = state.trainer.batches,
         .epoch = state.epoch};
  checkpoint_ = at_.count;
  Log(LogLevel::kInfo, "goes on from checkpoint " + spec_.restore + " at " +
                           FormatNumber(at_.count) + " " +
                           std::string(UnitName(units_.unit)));
  for (TrialMessage& message : state.trainer.unacknowledged) {
    channel_.Send(std::move(message));
  }
}

void CommandTrial::Start() {
  if (!spec_.master.empty()) MakeWorkingTree(spec_.master, spec_.context);
  MakeEmptyDirectory(scratch_);
  socket_.emplace(scratch_);
  ProgramSurroundings around{.description = scratch_ / "trial.json",
                             .scratch = scratch_,
                             .socket = socket_->path()};
  if (!spec_.restore.empty()) {
    around.checkpoint =
        fs::path(spec_.CheckpointPath(spec_.restore)) / kProgramFiles;
    around.at = {.epoch = at_.epoch, .count = at_.count};
    around.at.trainer.batches = at_.batches;
  } else if (!spec_.warm_start.empty()) {
    around.warm_start = ProgramFilesOf(spec_.warm_start);
  }
  WriteFile(
      around.description,
      DescribeTrial(spec_, until_, around)
              .dump(2, ' ', false, nlohmann::json::error_handler_t::replace) +
          "\n");
  const char* path = std::getenv("PATH");
  ProgramStart start{.words = spec_.command,
                     .file = FindProgram(spec_.command.front(), spec_.context,
                                         path == nullptr ? "" : path),
                     .directory = spec_.context,
                     .environment = ProgramVariables(spec_, until_, around)};
  program_.emplace(start);
  reports_.emplace(program_->TakeReports());
}

// Whether something was read.
bool CommandTrial::Turn(Duration longest) {
  const std::int64_t lines = lines_;
  std::vector<pollfd> entries = {
      {.fd = program_->Reap() ? -1 : program_->pidfd(), .events = POLLIN},
      {.fd = channel_.news(), .events = POLLIN},
      {.fd = socket_->fd(), .events = POLLIN},
      {.fd = reports_ ? reports_->fd() : -1, .events = POLLIN}};
  for (const ReportLines& connection : connections_) {
    entries.push_back({.fd = connection.fd(), .events = POLLIN});
  }
  const auto wait = std::chrono::duration_cast<milliseconds>(longest);
  const auto timeout = static_cast<int>(wait.count());
  if (::poll(entries.data(), entries.size(), timeout) < 0) return false;
  if (entries[3].revents != 0 && !ReadFrom(*reports_)) CloseReports();
  for (std::size_t i = connections_.size(); i > 0; --i) {
    if (entries[3 + i].revents == 0 || ReadFrom(connections_[i - 1])) continue;
    connections_.erase(connections_.begin() + static_cast<int>(i - 1));
  }
  if (entries[2].revents != 0) Accept();
  const Duration now = clock_.monotonic();
  if (!means_.empty() && rate_.Take(now)) SendMeans();
  if (now - progress_at_ >= kTick) TellProgress();
  return lines_ != lines;
}

void CommandTrial::CloseReports() {
  reports_.reset();
  // One that ends closes it a moment before.
  pollfd end{.fd = program_->pidfd(), .events = POLLIN, .revents = 0};
  if (::poll(&end, 1, /*milliseconds=*/100) > 0) return;
  if (!connections_.empty()) return;
  Log(LogLevel::kWarning,
      "the program has closed descriptor " + std::to_string(kReportFd) +
          " and goes on; nothing that it reports there is heard");
}

bool CommandTrial::ReadFrom(ReportLines& lines) {
  const bool more = lines.Fill();
  while (const auto line = lines.Next()) Take(*line);
  return more;
}

void CommandTrial::Accept() {
  UniqueFd connection = socket_->Accept();
  if (!connection || connections_.size() >= kMostConnections) return;
  // What it did not hear when it was said.
  if (!last_operation_.empty()) {
    (void)!::send(connection.get(), last_operation_.data(),
                  last_operation_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  connections_.emplace_back(std::move(connection));
}

void CommandTrial::HearOperations() {
  while (const auto message = channel_.TryNext()) {
    Hear(*message);
    if (std::holds_alternative<StopTrial>(*message)) return;
  }
}

void CommandTrial::Hear(const RunnerMessage& message) {
  if (const auto* operation = std::get_if<RunOperation>(&message)) {
    until_ = operation->until;
    done_ = false;
    untouched_ = true;
    progress_ = -1;
    Tell({{"type", "train"}, {"until", LengthToJson(until_)}});
    CompleteIfDone();
  } else if (std::holds_alternative<CloseTrial>(message)) {
    closed_ = true;
    Tell({{"type", "close"}});
    BeginEnding("all is done");
  } else if (!std::exchange(stop_told_, true)) {
    Tell({{"type", "stop"}});
  }
}

void CommandTrial::Tell(const nlohmann::json& operation) {
  last_operation_ = operation.dump() + "\n";
  if (!program_->Tell(last_operation_)) {
    Log(LogLevel::kWarning,
        "the program has not read its operations for long; one is lost to it");
  }
  for (const ReportLines& connection : connections_) {
    (void)!::send(connection.fd(), last_operation_.data(),
                  last_operation_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
}

}  // namespace dtrain
