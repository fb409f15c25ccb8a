#include "engine/train/evaluate_trial.h"

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "engine/base/error.h"
#include "engine/train/checkpoint.h"
#include "engine/train/random_state.h"
#include "engine/train/trainer_context.h"
#include "engine/train/validation.h"

namespace dtrain {
namespace {

constexpr Duration kProgressInterval = std::chrono::milliseconds(200);

std::unique_ptr<DataSource> SourceOf(Trial& trial, const std::string& split) {
  auto source = split == "test" ? trial.TestData() : trial.ValidationData();
  if (source == nullptr) {
    throw Error(ErrorKind::kFailed, "there is no " + split +
                                        " set in this trial's data; name "
                                        "another with --split or --data");
  }
  return source;
}

Finished Evaluate(const TrialSpec& spec, const MakeTrial& make,
                  const TrialLink& link, torch::Device device,
                  const Clock& clock) {
  SeedRandom(spec.seed, device);
  TrainerContext context(spec, device);
  const std::unique_ptr<Trial> trial = make(context);
  link.send(Ready{});
  WarmStart(spec.warm_start, context, *trial);
  const auto source = SourceOf(*trial, spec.split);
  context.SetTraining(false);
  Progress progress{.total = source->BatchesPerEpoch(),
                    .batches_per_epoch = source->BatchesPerEpoch()};
  Duration told = clock.monotonic();
  link.send(progress);
  auto metrics = RunValidation(*trial, *source, device, [&] {
    ++progress.batches;
    if (clock.monotonic() - told >= kProgressInterval) {
      told = clock.monotonic();
      link.send(progress);
    }
    return !link.stop_requested();
  });
  if (!metrics) return {.reason = EndReason::kStopped};
  link.send(
      ValidationReport{.metrics = *std::move(metrics), .time = clock.now()});
  return {.reason = EndReason::kCompleted};
}

}  // namespace

Finished EvaluateTrial(const TrialSpec& spec, const MakeTrial& make,
                       const TrialLink& link, torch::Device device,
                       const Clock& clock) {
  return FinishedWithin(
      spec, [&] { return Evaluate(spec, make, link, device, clock); });
}

}  // namespace dtrain
