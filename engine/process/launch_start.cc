#include <string>
#include <utility>

#include "engine/base/error.h"
#include "engine/process/launch_loop.h"
#include "engine/process/mps.h"
#include "engine/process/spawn_texts.h"

namespace dtrain {
void LaunchLoop::StartWaiting() {
  if (waiting_.empty() || forker_.busy()) return;
  if (trials_.size() >= static_cast<std::size_t>(options_.slots.count)) return;
  if (pool_.waiting() && options_.clock.monotonic() < pool_.retry_at()) return;
  std::optional<SlotLease> lease = pool_.TryTake(Waiter());
  if (lease) {
    long_wait_.reset();
    watching_slots_ = false;
    Waiting waiting = std::move(waiting_.front());
    waiting_.pop_front();
    StartTrial(std::move(waiting), *std::move(lease));
  } else if (!watching_slots_ && pool_.wake_fd() >= 0) {
    poller_.Add(pool_.wake_fd(), kSlotsToken);
    watching_slots_ = true;
  }
}

SlotWaiter LaunchLoop::Waiter() const {
  SlotWaiter waiter{.store = options_.layout.root().string()};
  for (const Waiting& waiting : waiting_) {
    waiter.trials.push_back(ToString(waiting.spec.id));
  }
  return waiter;
}

std::optional<SlotWait> LaunchLoop::LongWait() {
  if (!pool_.waiting() ||
      options_.clock.now() - pool_.waiting_since() < kShownSlotWait) {
    long_wait_.reset();
    return std::nullopt;
  }
  const Duration now = options_.clock.monotonic();
  if (long_wait_ && now - looked_at_ < std::chrono::seconds(1)) {
    return long_wait_;
  }
  looked_at_ = now;
  const SlotWaiter waiter = Waiter();
  for (SlotWait& wait : SlotWaits()) {
    if (wait.store != waiter.store || wait.trials != waiter.trials) continue;
    long_wait_ = std::move(wait);
  }
  return long_wait_;
}

void LaunchLoop::StartTrial(Waiting waiting, SlotLease lease) {
  const TrialId id = waiting.spec.id;
  try {
    TrialOutput output = OutputOf(waiting.spec);
    auto trial = std::make_unique<LaunchedTrial>(
        std::move(waiting.spec), std::move(lease), std::move(output),
        options_.clock, poller_, next_token_, std::move(waiting.listener));
    for (const RunnerMessage& message : waiting.messages) trial->Send(message);
    const std::uint64_t token = next_token_;
    next_token_ += trial->tokens();
    const auto added = trials_.emplace(
        token,
        Running{.trial = std::move(trial), .oom_kills = oom_counter_.Read()});
    ForkNext(added.first);
    TakeForkOutcomes();
  } catch (const Error& error) {
    events_.push_back(
        TrialExited{.trial = id,
                    .exit_code = 1,
                    .not_started = std::string("cannot start trial ") +
                                   ToString(id) + ": " + error.what(),
                    .last_lines = {error.what()}});
  }
}

TrialOutput LaunchLoop::OutputOf(const TrialSpec& spec) {
  if (options_.log) {
    return TrialOutput(
        [id = spec.id, this](const LogRecord& record) {
          options_.log(id, record);
        },
        options_.clock);
  }
  return OpenTrialOutput(spec, options_.layout, options_.clock);
}

void LaunchLoop::ForkNext(Trials::iterator trial) {
  ForkOrder order = trial->second.trial->NextFork();
  for (auto& variable : MpsVariables(options_.slots.gpu_share,
                                     VariablesWith(options_.environment))) {
    order.variables.push_back(std::move(variable));
  }
  if (options_.inherited >= 0) order.fds.push_back(options_.inherited);
  forking_ = trial->first;
  forker_.Fork(std::move(order));
}

void LaunchLoop::TakeForkOutcomes() {
  while (const auto outcome = forker_.TakeOutcome()) TakeForkOutcome(*outcome);
}

void LaunchLoop::TakeForkOutcome(const TrialForker::Outcome& outcome) {
  const auto found = trials_.find(*std::exchange(forking_, std::nullopt));
  LaunchedTrial& trial = *found->second.trial;
  std::string problem = outcome.error;
  try {
    if (outcome.pid != 0) {
      const auto started =
          trial.OnForked(outcome.pid, options_.layout.root().string());
      if (started) events_.push_back(*started);
      if (trial.wants_fork()) ForkNext(found);
      return;
    }
  } catch (const Error& error) {
    // The child that cannot be watched is an orphan to the next sweep.
    problem = error.what();
  }
  sweep_at_ = options_.clock.monotonic();
  trial.FailToStart(problem);
}

}  // namespace dtrain
