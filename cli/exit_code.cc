#include <algorithm>
#include <array>

#include "cli/commands.h"
#include "engine/base/error.h"
#include "engine/run/reporter.h"
#include "engine/store/rows.h"

namespace dtrain {

int ToExitCode(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kUsage:
      return kExitUsage;
    case ErrorKind::kNotFound:
      return kExitNotFound;
    case ErrorKind::kStore:
    case ErrorKind::kDiskFull:
      return kExitStore;
    case ErrorKind::kResources:
      return kExitResources;
    case ErrorKind::kDamaged:
    case ErrorKind::kFailed:
      return kExitFailed;
  }
  return kExitFailed;
}

int ToExitCode(State state) {
  switch (state) {
    case State::kCompleted:
    case State::kStopped:
    case State::kInvalid:
      return kExitDone;
    case State::kPending:
    case State::kRunning:
    case State::kPaused:
    case State::kInterrupted:
      return kExitResumable;
    case State::kCanceled:
    case State::kError:
      return kExitFailed;
  }
  return kExitFailed;
}

int WorstExitCode(int a, int b) {
  constexpr std::array kOrder = {kExitDone, kExitResumable, kExitRequirement,
                                 kExitNotFound, kExitFailed};
  return std::ranges::find(kOrder, a) < std::ranges::find(kOrder, b) ? b : a;
}

int ToExitCode(const RunResult& result) {
  if (IsFinal(result.state)) return ToExitCode(result.state);
  // A signal that interrupts trials waiting for disk space loses training, so
  // the full disk is the more important reason.
  const bool is_full =
      !result.error.empty() && result.error_kind == ErrorKind::kDiskFull;
  if (is_full) return ToExitCode(result.error_kind);
  if (result.signal != 0) return 128 + result.signal;
  if (result.timed_out) return kExitTimeout;
  if (!result.error.empty()) return ToExitCode(result.error_kind);
  return ToExitCode(result.state);
}

}  // namespace dtrain
