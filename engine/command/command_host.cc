#include "engine/command/command_host.h"

#include <csignal>
#include <new>
#include <string>
#include <utility>

#include <sys/resource.h>
#include <unistd.h>

#include "engine/base/error.h"
#include "engine/command/command_trial.h"
#include "engine/train/log_line.h"
#include "engine/train/trial_channel.h"

namespace dtrain {
namespace {

CommandEnd Failed(EndReason reason, const std::string& message) {
  LogLine(LogLevel::kError, "dtrain: " + message);
  return {.word = Finished{reason, message}, .exit = {.code = 1}};
}

CommandEnd RunOn(TrialChannel& channel) try {
  const TrialSpec spec = channel.ReadSpec();
  channel.Start();
  if (spec.task != Task::kTrain || spec.command.empty() || !spec.until) {
    throw Error(ErrorKind::kFailed,
                "a command is only trained, and to a length; its checkpoints "
                "are for the command itself to read");
  }
  return CommandTrial(spec, channel, Clock::System()).Run();
} catch (const Error& error) {
  EndReason reason = EndReason::kError;
  // That one is marked, and an older one is gone on from.
  if (error.kind() == ErrorKind::kDamaged) reason = EndReason::kDamaged;
  if (error.kind() == ErrorKind::kDiskFull) reason = EndReason::kDiskFull;
  return Failed(reason, error.what());
} catch (const std::bad_alloc&) {
  return Failed(EndReason::kError,
                "out of memory; free some, or run fewer trials at once");
} catch (const std::exception& error) {
  return Failed(EndReason::kError, error.what());
}

// As far as anyone can see, this process ends as the program did.
[[noreturn]] void EndBySignal(int signal) {
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

}  // namespace

int RunCommandTrial(int control_fd) {
  // A full file system or a dead reader is an error code, not a death.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  CommandEnd end;
  {
    TrialChannel channel{UniqueFd(control_fd)};
    end = RunOn(channel);
    try {
      channel.Drain();
      if (end.word) channel.Send(*end.word);
    } catch (const Error& error) {
      LogLine(LogLevel::kError, error.what());
      return 1;
    }
  }
  if (!end.word && end.exit.signal != 0) EndBySignal(end.exit.signal);
  if (!end.word) return end.exit.code;
  return end.word->reason == EndReason::kError ? 1 : 0;
}

}  // namespace dtrain
