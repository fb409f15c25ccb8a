#include "engine/train/train_trial.h"

#include <exception>
#include <string>

#include "engine/base/error.h"
#include "engine/data/cuda_half.h"
#include "engine/train/log_line.h"
#include "engine/train/random_state.h"
#include "engine/train/ranked_link.h"
#include "engine/train/step_graph.h"
#include "engine/train/torch_error.h"
#include "engine/train/trainer.h"
#include "engine/train/trainer_context.h"

namespace dtrain {

namespace {

// Says in the log how the trial ended, if that was not as it should.
Finished Failed(EndReason reason, const std::string& message) {
  LogLine(LogLevel::kError, message);
  return {.reason = reason, .message = message};
}

EndReason ReasonOf(const Error& error, const TrialSpec& spec) {
  if (error.kind() == ErrorKind::kDiskFull) return EndReason::kDiskFull;
  if (error.kind() == ErrorKind::kNotFound && spec.task != Task::kTrain) {
    return EndReason::kNotFound;
  }
  if (error.kind() == ErrorKind::kUsage) return EndReason::kRefused;
  // Only where there is another one to go on from instead.
  const bool is_own =
      error.kind() == ErrorKind::kDamaged && !spec.restore.empty();
  return is_own ? EndReason::kDamaged : EndReason::kError;
}

// What the trial's steps are captured with; null: they are not.
std::unique_ptr<StepGraph> GraphFor(const TrialSpec& spec,
                                    torch::Device device) {
  const std::string& wanted = spec.settings.cuda_graphs;
  if (wanted == "off") return nullptr;
  if (!device.is_cuda()) {
    if (wanted == "on") {
      LogLine(LogLevel::kWarning,
              "optimizations.cuda_graphs: this trial is not on a GPU");
    }
    return nullptr;
  }
  const auto make = FromCudaHalf<MakeStepGraph>(kMakeStepGraph);
  if (make == nullptr) {
    LogLine(wanted == "on" ? LogLevel::kWarning : LogLevel::kInfo,
            "this build of dtrain has no CUDA graphs");
    return nullptr;
  }
  return std::unique_ptr<StepGraph>(make());
}

}  // namespace

Finished FinishedWithin(const TrialSpec& spec,
                        const std::function<Finished()>& work) try {
  return work();
} catch (const InvalidHyperparameters& error) {
  return Failed(EndReason::kInvalidHp, error.what());
} catch (const Error& error) {
  return Failed(ReasonOf(error, spec), error.what());
} catch (const c10::Error& error) {
  return Failed(EndReason::kError, TorchMessage(error));
} catch (const std::bad_alloc&) {
  return Failed(EndReason::kError,
                "out of memory; use a smaller batch or model");
} catch (const std::exception& error) {
  return Failed(EndReason::kError, error.what());
}

Finished TrainTrial(const TrialSpec& spec, const MakeTrial& make,
                    const TrialLink& link, torch::Device device,
                    const Clock& clock, RankGroup* ranks) {
  return FinishedWithin(spec, [&] {
    SeedRandom(std::uint64_t{spec.seed} + spec.rank, device);
    TrainerContext context(spec, device, ranks);
    const std::unique_ptr<Trial> trial = make(context);
    const TrialLink ranked = RankedLink(link, context.ranks());
    ranked.send(Ready{});
    Trainer trainer(context, *trial, ranked, clock, GraphFor(spec, device));
    trainer.Restore();
    Finished finished = trainer.Run();
    finished.unread = context.UnreadHparams();
    return finished;
  });
}

}  // namespace dtrain
