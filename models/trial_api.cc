// What the trial host calls in the library that has LibTorch. A trial runs in
// three steps: TrainOn reads the specification, trains or uses a checkpoint,
// and turns every exception into a Finished message; Drain waits until
// everything else is acknowledged; then that message is sent, and EndTrial
// leaves the group of ranks.
//
// A library of a user's models is compiled against the headers of one build.
// Its ABI string must be equal to ours, since classes of C++ cross the border.

#include "models/trial_api.h"

#include <csignal>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <dlfcn.h>

#include <dtrain/abi.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/os/unique_fd.h"
#include "engine/train/device.h"
#include "engine/train/log_line.h"
#include "engine/train/rank_group.h"
#include "engine/train/train_trial.h"
#include "engine/train/trial.h"
#include "engine/train/trial_channel.h"
#include "models/table.h"

namespace dtrain {

namespace {

[[noreturn]] void Reject(const std::string& library, const std::string& why) {
  throw Error(ErrorKind::kFailed, library + ": " + why);
}

std::span<const ExportedModel> Open(const std::string& library) {
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) Reject(library, ::dlerror());
  const auto function =
      reinterpret_cast<ModelsFunction>(::dlsym(handle, kModelsSymbol));
  if (function == nullptr) {
    Reject(library,
           "exports no model; end model_def.cpp with DTRAIN_TRIALS(MyTrial)");
  }
  const ExportedModels* exported = function();
  if (exported->abi != std::string_view(DTRAIN_ABI)) {
    Reject(library,
           "was compiled for another dtrain; compile it with this one");
  }
  return {exported->trials, exported->count};
}

std::vector<std::string> Names(std::span<const ExportedModel> trials) {
  std::vector<std::string> names;
  for (const ExportedModel& trial : trials) names.emplace_back(trial.name);
  return names;
}

// Names of the models in a library of a user's models. Throws Error(kFailed)
// for a file that cannot be opened, is not such a library, or was compiled for
// another dtrain.
std::vector<std::string> ModelsOfLibrary(const std::string& library) {
  return Names(Open(library));
}

// Maker of `entrypoint` ("model_def:MyTrial") in `library`, which stays open
// for the life of this process. Throws Error(kFailed) as above, and if the
// library has no such model.
MakeTrial MakerInLibrary(const std::string& library,
                         const std::string& entrypoint) {
  const std::string name = entrypoint.substr(entrypoint.find(':') + 1);
  const std::span<const ExportedModel> trials = Open(library);
  for (const ExportedModel& trial : trials) {
    if (trial.name == name) return trial.make;
  }
  Reject(library, "has no model '" + name + "'" +
                      DidYouMean(name, Names(trials)) + "; it has " +
                      Join(Names(trials), ", "));
}

MakeTrial FindMaker(const TrialSpec& spec) {
  const std::string& entrypoint = spec.entrypoint;
  if (!spec.library.empty()) {
    return MakerInLibrary(spec.library, entrypoint);
  }
  const ModelEntry* entry = FindModel(entrypoint);
  if (entry != nullptr && entry->make != nullptr) return entry->make;
  const auto known = Entrypoints();
  throw Error(ErrorKind::kFailed, "no model '" + entrypoint +
                                      "' in this build" +
                                      DidYouMean(entrypoint, known));
}

Finished Failed(const std::string& message) {
  LogLine(LogLevel::kError, message);
  return {.reason = EndReason::kError, .message = message};
}

Finished RunTask(TrialChannel& channel, const TrialSpec& spec,
                 torch::Device device, RankGroup* ranks) {
  const auto run = spec.task == Task::kTrain ? TrainTrial : UseCheckpoint;
  return run(spec, FindMaker(spec), channel.Link(), device, Clock::System(),
             ranks);
}

// Runs as one of several ranks. No rank exits before rank 0 has sent everything
// that must be recorded; a rank that fails notifies the others.
Finished RunRanked(TrialChannel& channel, const TrialSpec& spec,
                   torch::Device device, RankGroup& ranks) {
  Finished finished = RunTask(channel, spec, device, &ranks);
  const bool is_done = finished.reason == EndReason::kCompleted ||
                       finished.reason == EndReason::kStopped;
  if (!is_done) {
    ranks.Fail(finished.message);
    return finished;
  }
  if (ranks.is_first()) channel.Drain();
  ranks.Barrier();
  return finished;
}

// Sets `ranks` if the trial has several. The group outlives the trial's final
// report, see EndTrial.
Finished TrainOn(TrialChannel& channel, std::optional<RankGroup>& ranks) try {
  const TrialSpec spec = channel.ReadSpec();
  channel.Start();
  const torch::Device device = OpenDevice(spec);
  if (spec.world_size > 1) {
    return RunRanked(channel, spec, device, ranks.emplace(spec));
  }
  return RunTask(channel, spec, device, /*ranks=*/nullptr);
} catch (const c10::Error& error) {
  return Failed(TorchMessage(error));
} catch (const std::exception& error) {
  return Failed(error.what());
}

int RunTrial(UniqueFd control) {
  // A full file system or a closed pipe must be an error, not a fatal signal.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  TrialChannel channel(std::move(control));
  std::optional<RankGroup> ranks;
  const Finished finished = TrainOn(channel, ranks);
  const auto report = [&channel](const Finished& message) {
    channel.Drain();
    channel.Send(message);
  };
  return EndTrial(finished, report, ranks ? &*ranks : nullptr);
}

int OpenCuda() {
  Dl_info self{};
  ::dladdr(reinterpret_cast<const void*>(&DtrainOpenCuda), &self);
  const std::string path = self.dli_fname == nullptr ? "" : self.dli_fname;
  const std::string half =
      path.substr(0, path.rfind('/') + 1) + "libdtrain_trial_cuda.so";
  // Global, because LibTorch looks up its halves by name.
  if (::dlopen(half.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) return 0;
  LogLine(LogLevel::kWarning,
          std::string("the GPUs cannot be used: ") + ::dlerror());
  return 1;
}

int ListModels(const std::string& library, void (*print)(const char*)) try {
  print(nlohmann::json(ModelsOfLibrary(library)).dump().c_str());
  return 0;
} catch (const Error& error) {
  print(error.what());
  return 1;
}

}  // namespace

}  // namespace dtrain

int DtrainRunTrial(int control_fd) {
  return dtrain::RunTrial(dtrain::UniqueFd(control_fd));
}

int DtrainOpenCuda() { return dtrain::OpenCuda(); }

int DtrainListModels(const char* library, void (*print)(const char*)) {
  return dtrain::ListModels(library, print);
}
