#include <filesystem>
#include <string>
#include <utility>

#include "engine/base/error.h"
#include "engine/process/launch_loop.h"
#include "engine/store/private_files.h"

namespace dtrain {
namespace {

// What `trial` is to see of the machine's GPUs: its own, or none.
std::vector<std::pair<std::string, std::string>> DeviceVariables(
    const std::vector<Gpu>& gpus) {
  std::string visible;
  for (const Gpu& gpu : gpus) {
    if (!visible.empty()) visible += ',';
    visible += gpu.uuid.empty() ? std::to_string(gpu.index) : gpu.uuid;
  }
  return {{"CUDA_DEVICE_ORDER", "PCI_BUS_ID"},
          {"CUDA_VISIBLE_DEVICES", visible}};
}

}  // namespace

void LaunchLoop::StartWaiting() {
  if (waiting_.empty() || forker_.busy()) return;
  if (trials_.size() >= static_cast<std::size_t>(options_.slots.count)) return;
  if (pool_.waiting() && options_.clock.monotonic() < pool_.retry_at()) return;
  std::optional<SlotLease> lease = pool_.TryTake();
  if (lease) {
    watching_slots_ = false;
    Waiting waiting = std::move(waiting_.front());
    waiting_.pop_front();
    StartProcess(std::move(waiting), *std::move(lease));
  } else if (!watching_slots_ && pool_.wake_fd() >= 0) {
    poller_.Add(pool_.wake_fd(), kSlotsToken);
    watching_slots_ = true;
  }
}

void LaunchLoop::StartProcess(Waiting waiting, SlotLease lease) {
  const TrialId id = waiting.spec.id;
  const std::uint64_t token = next_token_;
  next_token_ += RankProcess::kChannels;
  for (std::size_t i = 0; i < lease.gpus.size(); ++i) {
    waiting.spec.gpus.push_back(static_cast<int>(i));
  }
  try {
    if (!waiting.spec.directory.empty()) {
      MakePrivateDirectories(waiting.spec.directory);
    }
    const std::filesystem::path log = options_.layout.TrialLog(id);
    MakePrivateDirectories(log.parent_path());
    const auto variables = DeviceVariables(lease.gpus);
    auto trial = std::make_unique<LaunchedTrial>(
        std::move(waiting.spec), std::move(lease), log, options_.clock, poller_,
        token);
    for (const RunnerMessage& message : waiting.messages) {
      trial->Send(message);
    }
    std::vector<int> handed = trial->HandedFds();
    if (options_.inherited >= 0) handed.push_back(options_.inherited);
    forker_.Fork(std::move(handed), variables);
    forking_ = token;
    trials_[token] = {.trial = std::move(trial),
                      .oom_kills = oom_counter_.Read()};
    TakeForkOutcome();
  } catch (const Error& error) {
    events_.push_back(
        TrialExited{.trial = id,
                    .exit_code = 1,
                    .not_started = std::string("cannot start trial ") +
                                   ToString(id) + ": " + error.what(),
                    .last_lines = {error.what()}});
  }
}

void LaunchLoop::TakeForkOutcome() {
  std::optional<TrialForker::Outcome> outcome = forker_.TakeOutcome();
  if (!outcome) return;
  const auto found = trials_.find(*std::exchange(forking_, std::nullopt));
  LaunchedTrial& trial = *found->second.trial;
  try {
    if (outcome->pid != 0) {
      events_.push_back(
          trial.OnForked(outcome->pid, options_.layout.root().string()));
      return;
    }
  } catch (const Error& error) {
    // The child that cannot be watched is an orphan to the next sweep.
    outcome->error = error.what();
    sweep_at_ = options_.clock.monotonic();
  }
  trial.FailToStart(outcome->error);
  events_.push_back(trial.Result(/*out_of_memory=*/false));
  trials_.erase(found);
}

}  // namespace dtrain
