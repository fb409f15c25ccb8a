#pragma once

#include <string_view>

namespace dtrain {

/// States as CONTRACT names them. kInterrupted is never stored: it is a
/// RUNNING or PENDING experiment that no runner holds.
enum class State {
  kPending,
  kRunning,
  kPaused,
  kInterrupted,
  kCompleted,
  kCanceled,
  kError,
  kStopped,  // trials only: ended early by the searcher
};

/// "PENDING" … "STOPPED", and back (throws Error(kUsage) with the names).
std::string_view StateName(State state);
State StateFromName(std::string_view name);

/// COMPLETED, CANCELED, ERROR or STOPPED: nothing more will happen.
bool IsFinal(State state);

}  // namespace dtrain
