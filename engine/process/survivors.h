#pragma once

#include <span>
#include <string>

#include "engine/base/clock.h"
#include "engine/process/trial_fork.h"

namespace dtrain {

/// Called by a trial host whose runner is dead: gives the runner's trials
/// `grace` to end by themselves, then kills them and all that they started
/// (their descendants, their sessions, and every process that was started with
/// `mark`, "NAME=value", in its environment) until none lives.
void EndSurvivors(std::span<const ForkedTrial> trials, const std::string& mark,
                  Duration grace);

}  // namespace dtrain
