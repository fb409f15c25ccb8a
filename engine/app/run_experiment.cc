#include "engine/app/run_experiment.h"

#include <utility>

#include "engine/process/local_launcher.h"

namespace dtrain {

RunResult RunExperiment(Store& store, std::int64_t id,
                        const ExperimentConfig& config,
                        const RunOptions& options, Reporter& reporter,
                        bool detached, const MakeLauncher& make_launcher) {
  const Clock clock = Clock::System();
  ExperimentRunner runner(store, id, config, clock);
  const bool on_gpus = !runner.slots().gpus.empty();
  LocalLauncherOptions local{
      .experiment = id,
      .slots = runner.slots(),
      .layout = store.layout(),
      .host = IsCommand(config) ? FindCommandHost() : FindTrialHost(),
      .environment = config.environment.For(on_gpus),
      .inherited = runner.trials_lock(),
      .clock = clock,
      .ignore_hangup = detached};
  const std::unique_ptr<Launcher> launcher =
      make_launcher ? make_launcher(std::move(local))
                    : MakeLocalLauncher(std::move(local));
  return runner.Run(*launcher, options, reporter);
}

}  // namespace dtrain
