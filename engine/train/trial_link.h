#pragma once

#include <functional>
#include <vector>

#include "engine/wire/message.h"

namespace dtrain {

/// The trainer's only door to its runner; a test gives its own functions, a
/// trial process those of a TrialChannel. All are called from the trial's
/// thread.
struct TrialLink {
  /// Sends a message, numbering it if its kind is acknowledged. May wait until
  /// the runner has recorded what was sent before.
  std::function<void(TrialMessage message)> send;
  /// Waits for what to do next: never an Acknowledge.
  std::function<RunnerMessage()> next;
  /// Whether the trial was asked to checkpoint and exit. Costs an atomic load.
  std::function<bool()> stop_requested;
  /// What was sent and not yet acknowledged, oldest first.
  std::function<std::vector<TrialMessage>()> unacknowledged;
};

}  // namespace dtrain
