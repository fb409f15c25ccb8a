#include "tests/engine/process/launcher_fixture.h"

#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <sstream>

#include <poll.h>
#include <unistd.h>

#include "engine/os/process.h"
#include "engine/process/trial_host.h"
#include "engine/store/file_tree.h"
#include "tests/support/patience.h"

namespace dtrain {

LauncherFixture::LauncherFixture() {
  const std::string runtime = directory.path() / "runtime";
  ::setenv("DTRAIN_RUNTIME_DIR", runtime.c_str(), /*replace=*/1);
}

LauncherFixture::~LauncherFixture() { ::unsetenv("DTRAIN_RUNTIME_DIR"); }

std::int64_t LauncherFixture::Experiment() { return 1'000'000 + ::getpid(); }

LocalLauncherOptions LauncherFixture::Options(std::int64_t count) const {
  return {.experiment = Experiment(),
          .slots = {.count = count, .cpu_tokens = count},
          .layout = StoreLayout(directory.path() / "store"),
          .host = DTRAIN_FAKE_TRIAL_HOST};
}

TrialSpec LauncherFixture::Spec(const std::string& behaviour,
                                std::int64_t number,
                                nlohmann::json hparams) const {
  const TrialId id{.experiment = Experiment(), .number = number};
  const StoreLayout layout(directory.path() / "store");
  // The runner has created it in practice.
  MakePrivateDirectories(layout.Experiment(id.experiment));
  return {.id = id,
          .entrypoint = behaviour,
          .hparams = std::move(hparams),
          .directory = layout.Trial(id)};
}

LocalLauncherOptions LauncherFixture::TwoRankOptions() const {
  LocalLauncherOptions options = Options();
  options.slots = {.count = 1,
                   .slots_per_trial = 2,
                   .cpu_tokens_per_trial = 2,
                   .cpu_tokens = 2};
  return options;
}

TrialSpec LauncherFixture::TwoRanks(const std::string& behaviour, int at,
                                    const std::string& others,
                                    nlohmann::json hparams) const {
  if (at >= 0) hparams["at"] = at;
  hparams["others"] = others;
  TrialSpec spec = Spec(behaviour, 1, std::move(hparams));
  spec.world_size = 2;
  return spec;
}

std::string LauncherFixture::Log(TrialId trial) const {
  std::ifstream file(StoreLayout(directory.path() / "store").TrialLog(trial));
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::int64_t> LivingProcesses(std::int64_t experiment) {
  const std::string mark =
      std::string(kExperimentVariable) + "=" + std::to_string(experiment);
  std::vector<std::int64_t> living;
  for (const Process& process : ReadProcesses()) {
    if (!process.zombie && WasStartedWith(process.pid, mark)) {
      living.push_back(process.pid);
    }
  }
  return living;
}

bool Within(Duration limit, const std::function<bool()>& condition) {
  const Duration deadline = Clock::System().monotonic() + Patient(limit);
  while (!condition()) {
    if (Clock::System().monotonic() >= deadline) return false;
    ::poll(nullptr, 0, /*milliseconds=*/5);
  }
  return true;
}

std::size_t OpenDescriptors() {
  const std::filesystem::directory_iterator open("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(open), end(open)));
}

}  // namespace dtrain
