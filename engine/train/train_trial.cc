// What a trial's process does with a trial class: train it, or apply a
// checkpoint of it (evaluate, predict, features, load foreign weights).
//
// FinishedWithin turns exceptions into the reason that the runner acts upon.
// The kind of an Error decides: a wrong configuration or missing data refuses
// the trial, since a restart would fail in the same way; a full disk or lost
// directory pauses it; a damaged checkpoint makes the runner fall back to an
// older one; anything else is an error with restarts. A c10::Error is
// translated here and goes no further.
//
// Each rank seeds its generators with the trial's seed plus its rank, before
// the trial is constructed: the constructor may draw weights, which ShareModels
// then replaces by those of rank 0.
//
// For predictions the batches are divided between the ranks in turn. Rank 0
// gathers them in the original order, cuts off the samples that only made the
// ranks' batches equal, and writes them as a directory with a manifest.

#include "engine/train/train_trial.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/checkpoint/checkpoint_files.h"
#include "engine/data/cuda_half.h"
#include "engine/data/image_source.h"
#include "engine/image/image_folder.h"
#include "engine/train/checkpoint.h"
#include "engine/train/cuda_factories.h"
#include "engine/train/device.h"
#include "engine/train/log_line.h"
#include "engine/train/mixed_precision.h"
#include "engine/train/rank_group.h"
#include "engine/train/tensor_file.h"
#include "engine/train/trainer.h"
#include "engine/train/trainer_context.h"
#include "engine/train/trial.h"
#include "engine/train/validation.h"
#include "engine/wire/message.h"

namespace dtrain {

namespace {

// Logs why the trial ended abnormally, and returns it.
Finished Failed(EndReason reason, const std::string& message) {
  LogLine(LogLevel::kError, message);
  return {.reason = reason, .message = message};
}

EndReason ToEndReason(const Error& error, const TrialSpec& spec) {
  // Directories that cannot be used are a fault of the machine, as a full disk.
  if (error.kind() == ErrorKind::kDiskFull ||
      error.kind() == ErrorKind::kStore) {
    return EndReason::kDiskFull;
  }
  if (error.kind() == ErrorKind::kNotFound && spec.task != Task::kTrain) {
    return EndReason::kNotFound;
  }
  // A restart would not find data that is not there.
  if (error.kind() == ErrorKind::kUsage ||
      error.kind() == ErrorKind::kNotFound) {
    return EndReason::kRefused;
  }
  // kDamaged only if the runner can fall back to another checkpoint.
  const bool is_own =
      error.kind() == ErrorKind::kDamaged && !spec.restore.empty();
  return is_own ? EndReason::kDamaged : EndReason::kError;
}

// Graph to capture steps with; null if they are not captured.
std::unique_ptr<StepGraph> GraphFor(const TrialSpec& spec,
                                    torch::Device device) {
  const std::string& mode = spec.settings.cuda_graphs;
  if (mode == "off") return nullptr;
  if (!device.is_cuda()) {
    if (mode == "on") {
      LogLine(LogLevel::kWarning,
              "optimizations.cuda_graphs: this trial is not on a GPU");
    }
    return nullptr;
  }
  const auto make = FromCudaHalf<MakeStepGraph>(kMakeStepGraph);
  if (make == nullptr) {
    LogLine(mode == "on" ? LogLevel::kWarning : LogLevel::kInfo,
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
  Finished finished = Failed(ToEndReason(error, spec), error.what());
  if (error.kind() == ErrorKind::kUsage) {
    finished.message.insert(0, kConfigurationReason);
  }
  return finished;
} catch (const c10::Error& error) {
  return Failed(EndReason::kError, TorchMessage(error));
} catch (const std::bad_alloc&) {
  return Failed(EndReason::kError,
                "out of memory; use a smaller batch or model");
} catch (const std::exception& error) {
  return Failed(EndReason::kError, error.what());
}

int EndTrial(const Finished& finished,
             const std::function<void(const Finished&)>& report,
             RankGroup* ranks) {
  bool reported = true;
  try {
    report(finished);
  } catch (const Error& error) {
    LogLine(LogLevel::kError, error.what());
    reported = false;
  }
  const bool succeeded = finished.reason == EndReason::kCompleted ||
                         finished.reason == EndReason::kStopped;
  if (ranks != nullptr) ranks->Leave(reported && succeeded);
  return reported && finished.reason != EndReason::kError ? 0 : 1;
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

namespace {

constexpr std::int64_t kImageBatch = 64;
constexpr Duration kTellInterval = std::chrono::milliseconds(200);

// Null if the trial has no such split.
std::unique_ptr<DataSource> FindSplit(Trial& trial, const std::string& split) {
  return split == "training" ? trial.TrainingData()
         : split == "test"   ? trial.TestData()
                             : trial.ValidationData();
}

std::unique_ptr<DataSource> OpenSplit(Trial& trial, const std::string& split) {
  if (auto source = FindSplit(trial, split)) return source;
  std::vector<std::string> others;
  for (const char* other : {"training", "validation", "test"}) {
    if (other != split && FindSplit(trial, other)) others.emplace_back(other);
  }
  throw Error(ErrorKind::kNotFound,
              "this trial's data has no " + split +
                  " set of its own; it has: " + Join(others, ", ") +
                  "; name one of these with --split, or other data with "
                  "--data");
}

// The images whose paths `file` lists, all in one class.
std::shared_ptr<const ImageFolder> ImagesIn(const std::string& file) {
  auto folder = std::make_shared<ImageFolder>();
  std::ifstream in(file, std::ios::binary);
  std::string path;
  while (std::getline(in, path, '\0')) folder->samples.push_back({path, 0});
  return folder;
}

std::unique_ptr<DataSource> OpenImageSource(Trial& trial, const TrialSpec& spec,
                                            torch::Device device,
                                            const RankGroup& ranks) {
  const std::optional<ImageSteps> steps = trial.ImagePreparation();
  if (!steps) {
    throw Error(ErrorKind::kFailed,
                "this trial does not define how images are preprocessed; give "
                "it an ImagePreparation, or predict on its data with --split");
  }
  auto skipped = std::make_shared<SkippedFiles>(
      [](const std::string& line) { LogLine(LogLevel::kWarning, line); });
  return MakeImageSource(ImagesIn(spec.images),
                         {.batch_size = kImageBatch,
                          .wrap = false,
                          .rank = ranks.rank(),
                          .ranks = ranks.size()},
                         *steps,
                         {.workers = spec.threads,
                          .pinned = device.is_cuda(),
                          .normalize_on_device = device.is_cuda()},
                         std::move(skipped));
}

// Value that the checkpoint at `path` recorded under `key`, or `otherwise`.
template <typename T>
T Recorded(const std::string& path, const char* key, T otherwise) {
  std::ifstream in(path + "/" + kStateName, std::ios::binary);
  const auto state = nlohmann::json::parse(in, nullptr, false);
  return state.is_object() ? state.value(key, std::move(otherwise)) : otherwise;
}

// Class names that the model was trained with, as valid UTF-8. The data may
// have other classes by now.
std::vector<std::string> TrainedClassNames(const Trial& trial,
                                           const TrialSpec& spec) {
  std::vector<std::string> names = GetClassNames(trial);
  for (std::string& name : names) name = ToValidUtf8(name);
  // Missing in checkpoints of older versions.
  std::vector<std::string> recorded =
      Recorded(spec.warm_start, "classes", std::vector<std::string>());
  if (recorded.empty()) return names;
  if (!names.empty() && names != recorded) {
    LogLine(
        LogLevel::kWarning,
        "the data's classes differ from those of the training; class names are "
        "those of the training, and targets may be wrong");
  }
  return recorded;
}

// A restored model and a data set to apply it to.
class Use {
 public:
  Use(const TrialSpec& spec, const MakeTrial& make, const TrialLink& link,
      torch::Device device, const Clock& clock, RankGroup* ranks)
      : spec_(spec),
        device_(device),
        clock_(clock),
        context_((SeedRandom(spec.seed, device), spec), device, ranks),
        ranks_(context_.ranks()),
        link_(RankedLink(link, ranks_)),
        trial_(make(context_)) {
    link_.send(Ready{});
    if (spec.task == Task::kLoad) {
      ImportWeights(spec.warm_start, spec.directory + "/" + kImportedDirectory,
                    context_);
      return;
    }
    WarmStart(spec.warm_start, context_, *trial_);
    // The trial may ask for the number of batches, as when it was saved.
    context_.SetBatches(Recorded<std::int64_t>(spec.warm_start, "batches", 0));
    source_ = spec.images.empty()
                  ? OpenSplit(*trial_, spec.split)
                  : OpenImageSource(*trial_, spec, device_, ranks_);
    context_.SetTraining(false);
    progress_.total = progress_.batches_per_epoch = source_->BatchesPerEpoch();
    link_.send(progress_);
  }

  Finished Evaluate() {
    const Autocast autocast(device_, context_.precision());
    auto metrics = RunValidation(
        *trial_, *source_, device_, /*max_batches=*/0,
        [this] { return GoOn(); }, ranks_);
    if (!metrics) return {.reason = EndReason::kStopped};
    (void)TrainedClassNames(*trial_, spec_);  // warns about different classes
    link_.send(
        ValidationReport{.metrics = *std::move(metrics), .time = clock_.now()});
    return {.reason = EndReason::kCompleted};
  }

  Finished Predict() {
    std::vector<torch::Tensor> outputs;
    std::vector<torch::Tensor> targets;
    std::vector<torch::Tensor> numbers;  // indices of the readable images
    std::int64_t samples = 0;
    DeviceCopy to_device(device_);
    source_->Seek(0);
    // Ranks may differ by one batch, but none runs ahead.
    const std::int64_t count = ranks_.Most(progress_.total);
    for (std::int64_t i = 0; i < count; ++i) {
      if (!ranks_.Any(!Enough(samples))) break;
      if (!GoOn()) return {.reason = EndReason::kStopped};
      if (i >= progress_.total) continue;
      const Batch batch = to_device(source_->Read());
      // Empty if none of the batch's images could be read. It keeps its place
      // among the batches of the ranks.
      const bool is_empty = batch.data.defined() && batch.size() == 0;
      outputs.push_back(is_empty ? torch::empty({0}) : RunModel(batch));
      if (!spec_.images.empty()) {
        numbers.push_back(batch[kSampleNumbers].to(torch::kCPU));
      } else if (batch.target.defined() && batch.target.dim() == 1) {
        targets.push_back(batch.target.to(torch::kCPU));
      }
      samples += batch.size();
    }
    outputs = BatchesInOrder(std::move(outputs), ranks_);
    targets = BatchesInOrder(std::move(targets), ranks_);
    numbers = BatchesInOrder(std::move(numbers), ranks_);
    if (!ranks_.is_first()) return {.reason = EndReason::kCompleted};
    WritePredictions(outputs, targets, numbers);
    return {.reason = EndReason::kCompleted};
  }

 private:
  // `targets` and `numbers` may be empty.
  void WritePredictions(const std::vector<torch::Tensor>& outputs,
                        const std::vector<torch::Tensor>& targets,
                        const std::vector<torch::Tensor>& numbers) const {
    NamedTensors tensors = {{"output", JoinRows(outputs)}};
    if (!targets.empty()) tensors.emplace_back("target", JoinRows(targets));
    if (!numbers.empty()) {
      tensors.emplace_back(kSampleNumbers, JoinRows(numbers));
    }
    CheckpointWriter writer(spec_.directory + "/" + kPredictionDirectory);
    WriteTensors(writer, kPredictionFile, tensors);
    writer.Write(kClassNameFile,
                 nlohmann::json(TrainedClassNames(*trial_, spec_)).dump());
    (void)writer.Commit();
  }

  bool GoOn() {
    progress_.batches = std::min(progress_.batches + 1, progress_.total);
    if (clock_.monotonic() - last_progress_ >= kTellInterval) {
      last_progress_ = clock_.monotonic();
      link_.send(progress_);
    }
    return !link_.stop_requested();
  }

  bool Enough(std::int64_t samples) const {
    return spec_.limit > 0 && samples * ranks_.size() >= spec_.limit;
  }

  torch::Tensor RunModel(const Batch& batch) {
    const c10::InferenceMode inference;
    const Autocast autocast(device_, context_.precision());
    const bool features = spec_.task == Task::kFeatures;
    const torch::Tensor output =
        features ? trial_->Features(batch) : trial_->Predict(batch);
    if (output.defined()) return output.to(torch::kCPU, torch::kFloat);
    throw Error(ErrorKind::kFailed,
                std::string("this trial has no ") +
                    (features ? "Features" : "Predict") +
                    "; give it one to use its checkpoints so");
  }

  // All rows of `parts`, or the requested number.
  torch::Tensor JoinRows(const std::vector<torch::Tensor>& parts) const {
    const c10::InferenceMode inference;
    const torch::Tensor all = torch::cat(parts);
    // Padding that made the ranks' batches equal comes last.
    std::int64_t rows = std::min(all.size(0), source_->SamplesPerEpoch());
    if (spec_.limit > 0) rows = std::min(rows, spec_.limit);
    return all.narrow(0, 0, rows).contiguous();
  }

  const TrialSpec& spec_;
  const torch::Device device_;
  const Clock& clock_;
  TrainerContext context_;
  RankGroup& ranks_;
  const TrialLink link_;  // shared by all ranks
  const std::unique_ptr<Trial> trial_;
  std::unique_ptr<DataSource> source_;
  Progress progress_;
  Duration last_progress_{0};  // time of the last progress message
};

}  // namespace

Finished UseCheckpoint(const TrialSpec& spec, const MakeTrial& make,
                       const TrialLink& link, torch::Device device,
                       const Clock& clock, RankGroup* ranks) {
  return FinishedWithin(spec, [&] {
    Use use(spec, make, link, device, clock, ranks);
    if (spec.task == Task::kLoad) return Finished{};
    return spec.task == Task::kEvaluate ? use.Evaluate() : use.Predict();
  });
}

}  // namespace dtrain
