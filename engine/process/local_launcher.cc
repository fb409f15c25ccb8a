#include "engine/process/local_launcher.h"

#include <optional>
#include <system_error>

#include "engine/base/error.h"
#include "engine/process/launch_loop.h"

namespace dtrain {
namespace {

std::filesystem::path FindHost(const char* name, const std::string& how) {
  std::error_code error;
  const std::filesystem::path program =
      std::filesystem::read_symlink("/proc/self/exe", error);
  std::filesystem::path host =
      program.parent_path().parent_path() / "libexec" / "dtrain" / name;
  if (!error && std::filesystem::exists(host, error)) return host;
  throw Error(ErrorKind::kFailed,
              host.string() +
                  ": the program that runs trials is missing; build or install "
                  "dtrain" +
                  how);
}

}  // namespace

LocalLauncher::LocalLauncher(LocalLauncherOptions options)
    : loop_(std::make_unique<LaunchLoop>(std::move(options))) {}

LocalLauncher::~LocalLauncher() = default;

std::size_t LocalLauncher::FreeSlots() const { return loop_->FreeSlots(); }

void LocalLauncher::Start(const TrialSpec& spec) { loop_->Start(spec, {}); }

void LocalLauncher::StartPart(const TrialSpec& spec, UniqueFd listener) {
  loop_->Start(spec, std::move(listener));
}

void LocalLauncher::Send(TrialId trial, const RunnerMessage& message) {
  loop_->Send(trial, message);
}

void LocalLauncher::RequestStop(TrialId trial) { loop_->RequestStop(trial); }

void LocalLauncher::Kill(TrialId trial) { loop_->Kill(trial); }

std::optional<SlotWait> LocalLauncher::LongWait() { return loop_->LongWait(); }

LaunchEvent LocalLauncher::Wait(Duration timeout) {
  return loop_->Wait(timeout);
}

void LocalLauncher::Abort() { loop_->Abort(); }

std::filesystem::path FindTrialHost() {
  return FindHost("trial-host", " with LibTorch");
}

std::filesystem::path FindCommandHost() { return FindHost("command-host", ""); }

}  // namespace dtrain
