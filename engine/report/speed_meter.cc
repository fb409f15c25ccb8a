#include "engine/report/speed_meter.h"

#include <algorithm>

namespace dtrain {
namespace {

constexpr Duration kWindow = std::chrono::seconds(5);

}  // namespace

void SpeedMeter::Update(const RunStatus& status, Duration now) {
  std::erase_if(samples_, [&](const auto& entry) {
    return std::ranges::none_of(status.running, [&](const TrialStatus& trial) {
      return trial.id == entry.first;
    });
  });
  for (const TrialStatus& trial : status.running) {
    auto& samples = samples_[trial.id];
    // A trial that went back to a checkpoint begins anew.
    if (!samples.empty() && samples.back().batches > trial.batches) {
      samples.clear();
    }
    samples.push_back({now, trial.batches});
    while (samples.size() > 2 && now - samples.front().time > kWindow) {
      samples.pop_front();
    }
  }
}

double SpeedMeter::BatchesPerSecond(TrialId trial) const {
  const auto found = samples_.find(trial);
  if (found == samples_.end()) return 0;
  const Sample& first = found->second.front();
  const Sample& last = found->second.back();
  const double seconds =
      std::chrono::duration<double>(last.time - first.time).count();
  if (seconds <= 0) return 0;
  return static_cast<double>(last.batches - first.batches) / seconds;
}

}  // namespace dtrain
