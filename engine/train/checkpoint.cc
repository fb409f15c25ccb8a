#include "engine/train/checkpoint.h"

#include <map>
#include <utility>

#include "engine/base/error.h"
#include "engine/checkpoint/checkpoint_files.h"
#include "engine/train/device.h"
#include "engine/train/optimizer_state.h"
#include "engine/train/rank_group.h"
#include "engine/train/tensor_file.h"
#include "engine/train/trainer_context.h"
#include "engine/train/trial.h"

// A checkpoint is a directory:
//
//   model.safetensors      parameters and buffers, as in PyTorch's state_dict
//   optimizer.safetensors  tensors of the optimizers' state
//   extra.safetensors      accumulated gradients and the trial's own state;
//                          one more file for each further rank
//   state.json             everything else: counters, schedules, loss scale,
//                          random states, partial sums of metrics, unrecorded
//                          reports
//
// It contains all that the next batch depends on, so that a resumed training is
// bit-identical on a CPU. State is stored by name, never by position or
// address. CheckpointWriter makes it durable and adds checksums; rank 0 writes
// for all ranks, whose shares it gathers.

namespace dtrain {
namespace {

using nlohmann::json;
using TensorMap = std::map<std::string, torch::Tensor>;

constexpr char kModelFile[] = "model.safetensors";
constexpr char kOptimizerFile[] = "optimizer.safetensors";
constexpr char kExtraFile[] = "extra.safetensors";  // of rank 0
constexpr char kGradient[] = "gradient/";
constexpr char kTrial[] = "trial/";
constexpr int kVersion = 1;

std::string ExtraFileName(int rank) {
  return rank == 0 ? kExtraFile
                   : "extra_" + std::to_string(rank) + ".safetensors";
}

json ScalerToJson(const TrainerContext& context) {
  const LossScaler* scaler = context.scaler();
  return scaler == nullptr ? json() : scaler->Save();
}

json SchedulesToJson(const NamedOptimizer& entry) {
  json schedules = json::array();
  for (const auto& paced : entry.schedules) {
    schedules.push_back(paced.schedule.Save());
  }
  return schedules;
}

// Accumulated gradients, and the trial's own state.
NamedTensors ExtraTensors(const TrainerContext& context, Trial& trial) {
  NamedTensors extra;
  const auto& models = context.objects().models;
  for (const auto& [name, tensor] : CollectState(models)) {
    if (tensor.grad().defined()) {
      extra.emplace_back(kGradient + name, tensor.grad());
    }
  }
  for (const auto& [name, tensor] : trial.Save()) {
    if (tensor.defined()) extra.emplace_back(kTrial + name, tensor);
  }
  return extra;
}

// Adds the optimizers' tensors to `tensors`; returns the rest of their state.
json SaveOptimizers(const TrainedObjects& objects, NamedTensors& tensors) {
  const ParameterNames names = NameParameters(objects.models);
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

std::int64_t CountBytes(const NamedTensors& tensors) {
  std::int64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) {
    bytes += static_cast<std::int64_t>(tensor.nbytes());
  }
  return bytes;
}

// Parses a verified file, which can only be invalid if another version wrote
// it.
json ParseState(const CheckpointFiles& files) {
  const auto bytes = files[kStateName];
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  json state = json::parse(text, text + bytes.size(), nullptr, false);
  if (!state.is_object() || state.value("version", 0) != kVersion) {
    throw Error(ErrorKind::kFailed,
                "checkpoint " + files.path() +
                    ": 'state.json' has another version; use the dtrain "
                    "that wrote it");
  }
  return state;
}

// Throws if the checkpoint has tensors that no model uses.
void RequireNoneLeft(const CheckpointFiles& files, const TensorMap& tensors,
                     const TensorMap& loaded) {
  std::vector<std::string> left;
  for (const auto& [name, tensor] : tensors) {
    if (!loaded.contains(name)) left.push_back(name);
  }
  if (left.empty()) return;
  throw Error(ErrorKind::kFailed,
              "checkpoint " + files.path() + ": " +
                  DescribeDifference(left, {}) +
                  "; use the hyperparameters it was made with");
}

void LoadModels(const CheckpointFiles& files, const Ties& ties,
                const TrainedObjects& objects, bool resumes) {
  const TensorMap tensors = ReadTensors(files[kModelFile], kModelFile);
  TensorMap loaded;
  for (auto& [name, target] : CollectState(objects.models)) {
    const auto tie = ties.find(name);
    const std::string& source = tie == ties.end() ? name : tie->second;
    const auto found = tensors.find(source);
    if (found == tensors.end()) {
      throw Error(ErrorKind::kFailed,
                  "checkpoint " + files.path() + ": has no tensor '" + name +
                      "'; use the hyperparameters it was made with");
    }
    CopyInto(target, found->second, "tensor '" + name + "'");
    // Restores shared storage.
    const auto first = loaded.find(source);
    if (tie != ties.end() && first != loaded.end() &&
        first->second.const_data_ptr() != target.const_data_ptr()) {
      torch::Tensor handle = target;
      handle.set_data(first->second.detach());
    }
    loaded.emplace(source, target);
  }
  if (!resumes) RequireNoneLeft(files, tensors, loaded);
}

void LoadOptimizers(const CheckpointFiles& files, const json& facts,
                    TrainedObjects& objects, bool resumes) {
  const TensorMap tensors = ReadTensors(files[kOptimizerFile], kOptimizerFile);
  const ParameterNames names = NameParameters(objects.models);
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
    LoadOptimizer(entry, names, tensors, *found, resumes);
    const json& schedules = found->at("schedules");
    if (!resumes || schedules.size() != entry.schedules.size()) continue;
    for (std::size_t i = 0; i < schedules.size(); ++i) {
      entry.schedules[i].schedule.Load(schedules[i]);
    }
  }
}

// `rank`: whose state to load. Without a share of its own (`has_share`), a rank
// loads the trial state of rank 0, and no gradients.
void LoadExtra(const CheckpointFiles& files, const TrainedObjects& objects,
               Trial& trial, int rank, bool has_share) {
  const std::string file = ExtraFileName(has_share ? rank : 0);
  TensorMap own;
  TensorMap gradients;
  if (files.Has(file)) {
    for (auto& [name, tensor] : ReadTensors(files[file], file)) {
      if (name.starts_with(kTrial)) {
        own.emplace(name.substr(std::char_traits<char>::length(kTrial)),
                    tensor);
      } else if (has_share) {
        gradients.emplace(name, tensor);
      }
    }
  }
  for (auto& [name, target] : CollectState(objects.models)) {
    const auto found = gradients.find(kGradient + name);
    if (found == gradients.end()) continue;
    target.mutable_grad() = found->second.to(target.device());
  }
  trial.Load(own);
}

// Part of `state` that belongs to `rank`; null if there is none.
const json* FindRankState(const json& state, int rank) {
  if (rank == 0) return &state;
  const auto shares = state.find("ranks");
  const auto index = static_cast<std::size_t>(rank) - 1;
  if (shares == state.end() || index >= shares->size()) return nullptr;
  return &shares->at(index);
}

// Loads the checkpoint; returns its state.json with the sums of this rank.
json Load(const std::string& path, TrainerContext& context, Trial& trial,
          bool resumes) try {
  const CheckpointFiles files = CheckpointFiles::Read(path);
  json state = ParseState(files);
  TrainedObjects& objects = context.objects();
  LoadModels(files, state.at("ties").get<Ties>(), objects, resumes);
  // An imported checkpoint has weights only.
  if (state.value("imported", false)) return state;
  LoadOptimizers(files, state.at("optimizers"), objects, resumes);
  const int rank = context.rank();
  const json* share = FindRankState(state, rank);
  LoadExtra(files, objects, trial, rank, share != nullptr);
  // mixed_precision may differ from that of the checkpoint.
  const json scaler = state.value("scaler", json());
  if (resumes && context.scaler() != nullptr && !scaler.is_null()) {
    context.scaler()->Load(scaler);
  }
  // A rank that the checkpoint does not have keeps its own seed.
  if (share != nullptr) {
    LoadRandomState(share->at("random"), context.device());
    if (rank > 0) state["trainer"]["sums"] = share->at("sums");
  } else {
    state["trainer"]["sums"] = json::object();
  }
  return state;
} catch (const json::exception& error) {
  throw Error(
      ErrorKind::kFailed,
      "checkpoint " + path + ": 'state.json' is invalid: " + error.what());
}

}  // namespace

std::vector<RankShare> GatherShares(
    const TrainerContext& context, Trial& trial,
    const std::map<std::string, MetricSum>& sums, RankGroup& ranks) {
  if (ranks.is_alone()) return {};
  const NamedTensors extra = ExtraTensors(context, trial);
  const json facts = {{"random", SaveRandomState(context.device())},
                      {"sums", SumsToJson(sums)}};
  const auto all_facts = ranks.Gather(facts.dump());
  auto all_tensors = ranks.Gather(extra.empty() ? "" : TensorFile(extra));
  std::vector<RankShare> shares;
  for (std::size_t rank = 1; rank < all_facts.size(); ++rank) {
    shares.push_back({.facts = json::parse(all_facts[rank]),
                      .tensors = std::move(all_tensors[rank])});
  }
  return shares;
}

namespace {

// state.json without the facts about optimizers, ties and other ranks.
json MakeStateJson(const TrainerContext& context, const Trial& trial,
                   const TrainingState& state, double epoch) {
  return {{"version", kVersion},
          {"batches", state.batches},
          {"epoch", epoch},
          {"data_position", state.batches},
          {"trainer", state.ToJson()},
          {"random", SaveRandomState(context.device())},
          {"scaler", ScalerToJson(context)},
          {"classes", GetClassNames(trial)},
          {"hparams", context.spec().hparams},
          {"entrypoint", context.spec().entrypoint}};
}

}  // namespace

WrittenCheckpoint SaveCheckpoint(const std::string& path,
                                 const TrainerContext& context, Trial& trial,
                                 const TrainingState& state, double epoch,
                                 const std::vector<RankShare>& shares) {
  const TrainedObjects& objects = context.objects();
  NamedTensors models = CollectState(objects.models);
  const Ties ties = ExtractTies(models);
  NamedTensors moments;
  json optimizers = SaveOptimizers(objects, moments);
  const NamedTensors extra = ExtraTensors(context, trial);
  std::int64_t bytes =
      CountBytes(models) + CountBytes(moments) + CountBytes(extra);
  json others = json::array();
  for (const RankShare& share : shares) {
    bytes += static_cast<std::int64_t>(share.tensors.size());
    others.push_back(share.facts);
  }
  CheckpointWriter writer(path);
  writer.RequireSpace(bytes);
  WriteTensors(writer, kModelFile, models);
  WriteTensors(writer, kOptimizerFile, moments);
  if (!extra.empty()) WriteTensors(writer, kExtraFile, extra);
  for (std::size_t i = 0; i < shares.size(); ++i) {
    if (shares[i].tensors.empty()) continue;
    writer.Write(ExtraFileName(static_cast<int>(i) + 1), shares[i].tensors);
  }
  json facts = MakeStateJson(context, trial, state, epoch);
  facts["optimizers"] = std::move(optimizers);
  facts["ties"] = ties;
  facts["ranks"] = std::move(others);
  // Class names, which are only displayed, may contain invalid UTF-8.
  writer.Write(kStateName,
               facts.dump(-1, ' ', false, json::error_handler_t::replace));
  return writer.Commit();
}

TrainingState LoadCheckpoint(const std::string& path, TrainerContext& context,
                             Trial& trial) {
  const json state = Load(path, context, trial, /*resumes=*/true);
  try {
    TrainingState trainer = TrainingState::FromJson(state.at("trainer"));
    context.SetBatches(trainer.batches);
    return trainer;
  } catch (const json::exception& error) {
    throw Error(
        ErrorKind::kFailed,
        "checkpoint " + path + ": 'state.json' is invalid: " + error.what());
  }
}

void WarmStart(const std::string& path, TrainerContext& context, Trial& trial) {
  Load(path, context, trial, /*resumes=*/false);
}

void ImportWeights(const std::filesystem::path& file, const std::string& path,
                   const TrainerContext& context) {
  NamedTensors models = CollectState(context.objects().models);
  LoadWeights(models, file,
              {.advice = "check the entrypoint and the hyperparameters that "
                         "set the network's size"});
  const Ties ties = ExtractTies(models);
  CheckpointWriter writer(path);
  WriteTensors(writer, kModelFile, models);
  const json facts = {{"version", kVersion},
                      {"imported", true},
                      {"batches", 0},
                      {"epoch", 0},
                      {"ties", ties},
                      {"hparams", context.spec().hparams},
                      {"entrypoint", context.spec().entrypoint}};
  writer.Write(kStateName,
               facts.dump(-1, ' ', false, json::error_handler_t::replace));
  (void)writer.Commit();
}

}  // namespace dtrain
