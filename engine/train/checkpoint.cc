#include "engine/train/checkpoint.h"

#include <map>
#include <utility>

#include "engine/base/error.h"
#include "engine/checkpoint/checkpoint_reader.h"
#include "engine/train/optimizer_state.h"
#include "engine/train/random_state.h"
#include "engine/train/tensor_file.h"

namespace dtrain {

namespace {

using nlohmann::json;
using TensorMap = std::map<std::string, torch::Tensor>;

constexpr char kModelFile[] = "model.safetensors";
constexpr char kOptimizerFile[] = "optimizer.safetensors";
constexpr char kExtraFile[] = "extra.safetensors";
constexpr char kGradient[] = "gradient/";
constexpr char kTrial[] = "trial/";
constexpr int kVersion = 1;

json SchedulesToJson(const NamedOptimizer& entry) {
  json schedules = json::array();
  for (const auto& paced : entry.schedules) {
    schedules.push_back(paced.schedule.Save());
  }
  return schedules;
}

// Gradients of an accumulation under way, and what the trial keeps itself.
NamedTensors ExtraTensors(const TrainerContext& context, Trial& trial) {
  NamedTensors extra;
  const auto& models = context.objects().models;
  for (const auto& [name, tensor] : StateOf(models)) {
    if (tensor.grad().defined()) {
      extra.emplace_back(kGradient + name, tensor.grad());
    }
  }
  for (const auto& [name, tensor] : trial.Save()) {
    if (tensor.defined()) extra.emplace_back(kTrial + name, tensor);
  }
  return extra;
}

// The optimizers' tensors go to `tensors`, the rest of their state is the
// result.
json SaveOptimizers(const TrainedObjects& objects, NamedTensors& tensors) {
  const ParameterNames names = NamesOf(objects.models);
  json facts = json::array();
  for (const NamedOptimizer& entry : objects.optimizers) {
    OptimizerState saved = SaveOptimizer(entry, names);
    std::move(saved.tensors.begin(), saved.tensors.end(),
              std::back_inserter(tensors));
    saved.facts["schedules"] = SchedulesToJson(entry);
    facts.push_back(std::move(saved.facts));
  }
  return facts;
}

std::int64_t BytesOf(const NamedTensors& tensors) {
  std::int64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) {
    bytes += static_cast<std::int64_t>(tensor.nbytes());
  }
  return bytes;
}

// Parses what a verified file holds: it can only be from another version.
json ParseState(const CheckpointFiles& files) {
  const auto bytes = files[kStateName];
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  json state = json::parse(text, text + bytes.size(), nullptr, false);
  if (!state.is_object() || state.value("version", 0) != kVersion) {
    throw Error(ErrorKind::kFailed,
                "checkpoint " + files.path() +
                    ": 'state.json' is of another version; use the dtrain "
                    "that wrote it");
  }
  return state;
}

void LoadModels(const CheckpointFiles& files, const Ties& ties,
                const TrainedObjects& objects) {
  const TensorMap tensors = ReadTensors(files[kModelFile], kModelFile);
  TensorMap loaded;
  for (auto& [name, target] : StateOf(objects.models)) {
    const auto tie = ties.find(name);
    const std::string& source = tie == ties.end() ? name : tie->second;
    const auto found = tensors.find(source);
    if (found == tensors.end()) {
      throw Error(ErrorKind::kFailed,
                  "checkpoint " + files.path() + ": has no tensor '" + name +
                      "'; use the hyperparameters it was made with");
    }
    CopyInto(target, found->second, "tensor '" + name + "'");
    // What shared memory when it was saved does so again.
    const auto first = loaded.find(source);
    if (tie != ties.end() && first != loaded.end() &&
        first->second.const_data_ptr() != target.const_data_ptr()) {
      torch::Tensor handle = target;
      handle.set_data(first->second.detach());
    }
    loaded.emplace(name, target);
  }
}

void LoadOptimizers(const CheckpointFiles& files, const json& facts,
                    TrainedObjects& objects, bool goes_on) {
  const TensorMap tensors = ReadTensors(files[kOptimizerFile], kOptimizerFile);
  const ParameterNames names = NamesOf(objects.models);
  for (NamedOptimizer& entry : objects.optimizers) {
    const json* found = nullptr;
    for (const json& fact : facts) {
      if (fact.at("name") == entry.name) found = &fact;
    }
    if (found == nullptr) {
      throw Error(ErrorKind::kFailed, "checkpoint " + files.path() +
                                          ": has no optimizer '" + entry.name +
                                          "'");
    }
    LoadOptimizer(entry, names, tensors, *found, goes_on);
    const json& schedules = found->at("schedules");
    if (!goes_on || schedules.size() != entry.schedules.size()) continue;
    for (std::size_t i = 0; i < schedules.size(); ++i) {
      entry.schedules[i].schedule.Load(schedules[i]);
    }
  }
}

void LoadExtra(const CheckpointFiles& files, const TrainedObjects& objects,
               Trial& trial) {
  TensorMap own;
  TensorMap gradients;
  if (files.Has(kExtraFile)) {
    for (auto& [name, tensor] : ReadTensors(files[kExtraFile], kExtraFile)) {
      if (name.starts_with(kTrial)) {
        own.emplace(name.substr(std::char_traits<char>::length(kTrial)),
                    tensor);
      } else {
        gradients.emplace(name, tensor);
      }
    }
  }
  for (auto& [name, target] : StateOf(objects.models)) {
    const auto found = gradients.find(kGradient + name);
    if (found == gradients.end()) continue;
    target.mutable_grad() = found->second.to(target.device());
  }
  trial.Load(own);
}

// Loads the checkpoint and gives its state.json back.
json Load(const std::string& path, TrainerContext& context, Trial& trial,
          bool goes_on) try {
  const CheckpointFiles files = CheckpointFiles::Read(path);
  json state = ParseState(files);
  TrainedObjects& objects = context.objects();
  LoadModels(files, state.at("ties").get<Ties>(), objects);
  // One that was imported has weights and nothing else.
  if (state.value("imported", false)) return state;
  LoadOptimizers(files, state.at("optimizers"), objects, goes_on);
  LoadExtra(files, objects, trial);
  LoadRandomState(state.at("random"), context.device());
  return state;
} catch (const json::exception& error) {
  throw Error(
      ErrorKind::kFailed,
      "checkpoint " + path + ": 'state.json' makes no sense: " + error.what());
}

}  // namespace

WrittenCheckpoint SaveCheckpoint(const std::string& path,
                                 const TrainerContext& context, Trial& trial,
                                 const TrainingState& state, double epoch) {
  const TrainedObjects& objects = context.objects();
  NamedTensors models = StateOf(objects.models);
  const Ties ties = TakeOutTies(models);
  NamedTensors moments;
  json optimizers = SaveOptimizers(objects, moments);
  const NamedTensors extra = ExtraTensors(context, trial);
  CheckpointWriter writer(path);
  writer.RequireSpace(BytesOf(models) + BytesOf(moments) + BytesOf(extra));
  WriteTensors(writer, kModelFile, models);
  WriteTensors(writer, kOptimizerFile, moments);
  if (!extra.empty()) WriteTensors(writer, kExtraFile, extra);
  const json facts = {{"version", kVersion},
                      {"batches", state.batches},
                      {"epoch", epoch},
                      {"data_position", state.batches},
                      {"trainer", state.ToJson()},
                      {"optimizers", std::move(optimizers)},
                      {"ties", ties},
                      {"random", SaveRandomState(context.device())},
                      {"hparams", context.spec().hparams},
                      {"entrypoint", context.spec().entrypoint}};
  // Names may hold what is no UTF-8; they are for people.
  writer.Write(kStateName,
               facts.dump(-1, ' ', false, json::error_handler_t::replace));
  return writer.Commit();
}

TrainingState LoadCheckpoint(const std::string& path, TrainerContext& context,
                             Trial& trial) {
  const json state = Load(path, context, trial, /*goes_on=*/true);
  try {
    TrainingState trainer = TrainingState::FromJson(state.at("trainer"));
    context.SetBatches(trainer.batches);
    return trainer;
  } catch (const json::exception& error) {
    throw Error(ErrorKind::kFailed,
                "checkpoint " + path +
                    ": 'state.json' makes no sense: " + error.what());
  }
}

void WarmStart(const std::string& path, TrainerContext& context, Trial& trial) {
  Load(path, context, trial, /*goes_on=*/false);
}

}  // namespace dtrain
