#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "cli/checkpoint_use.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/options.h"
#include "cli/output.h"
#include "engine/base/error.h"
#include "engine/base/json_number.h"
#include "engine/base/scratch_directory.h"
#include "engine/base/text.h"
#include "engine/checkpoint/checkpoint_reader.h"
#include "engine/checkpoint/prediction_files.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/report/format.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

struct PredictOptions : TableOptions, CheckpointUseOptions {
  bool features = false;
  std::int64_t limit = 0;
  std::string out;
};

// What the trial wrote.
class Predictions {
 public:
  explicit Predictions(const fs::path& directory)
      : files_(CheckpointFiles::Read(directory / kPredictionDirectory)) {
    for (const TensorBytes& tensor :
         ReadSafetensors(files_[kPredictionFile], kPredictionFile)) {
      if (tensor.name == "output") {
        shape_ = tensor.shape;
        output_.resize(tensor.bytes.size() / sizeof(float));
        std::memcpy(output_.data(), tensor.bytes.data(), tensor.bytes.size());
      } else if (tensor.dtype == "I64") {
        target_.resize(tensor.bytes.size() / sizeof(std::int64_t));
        std::memcpy(target_.data(), tensor.bytes.data(), tensor.bytes.size());
      }
    }
  }

  std::int64_t samples() const { return shape_.empty() ? 0 : shape_[0]; }
  const std::vector<std::int64_t>& shape() const { return shape_; }
  std::span<const float> Row(std::int64_t sample) const {
    const std::size_t size =
        output_.size() / static_cast<std::size_t>(samples());
    return std::span(output_).subspan(static_cast<std::size_t>(sample) * size,
                                      size);
  }
  std::optional<std::int64_t> Target(std::int64_t sample) const {
    const auto index = static_cast<std::size_t>(sample);
    return index < target_.size() ? std::optional(target_[index])
                                  : std::nullopt;
  }

 private:
  CheckpointFiles files_;
  std::vector<std::int64_t> shape_;
  std::vector<float> output_;
  std::vector<std::int64_t> target_;
};

struct Prediction {
  std::int64_t sample = 0;
  std::int64_t label = 0;
  float probability = 0;
  std::optional<std::int64_t> target;
};

Prediction PredictionOf(const Predictions& all, std::int64_t sample) {
  const auto row = all.Row(sample);
  const auto best = std::ranges::max_element(row);
  return {.sample = sample,
          .label = best - row.begin(),
          .probability = *best,
          .target = all.Target(sample)};
}

void PrintJsonDocument(const Predictions& all, const CheckpointRow& checkpoint,
                       const PredictOptions& options) {
  nlohmann::json document = {{"checkpoint", checkpoint.uuid},
                             {"trial", ToString(checkpoint.trial)},
                             {"split", options.split},
                             {"predictions", nlohmann::json::array()}};
  for (std::int64_t i = 0; i < all.samples(); ++i) {
    const Prediction one = PredictionOf(all, i);
    nlohmann::json row = {{"sample", i},
                          {"class", one.label},
                          {"probability", JsonNumber(one.probability)},
                          {"probabilities", nlohmann::json::array()}};
    for (const float value : all.Row(i)) {
      row["probabilities"].push_back(JsonNumber(value));
    }
    if (one.target) row["target"] = *one.target;
    document["predictions"].push_back(std::move(row));
  }
  PrintJson(document);
}

void PrintRows(const Predictions& all, const PredictOptions& options,
               const GlobalOptions& globals) {
  Table table({{.name = "sample", .right = true},
               {.name = "class", .right = true},
               {.name = "probability", .right = true},
               {.name = "target", .right = true}});
  std::int64_t right = 0;
  std::int64_t judged = 0;
  for (std::int64_t i = 0; i < all.samples(); ++i) {
    const Prediction one = PredictionOf(all, i);
    judged += one.target.has_value();
    right += one.target == one.label;
    table.AddRow(
        {std::to_string(i), std::to_string(one.label),
         Cell(FormatMetric(one.probability), FormatNumber(one.probability)),
         one.target ? std::to_string(*one.target) : ""});
  }
  PrintTable(table, options.format(), globals);
  if (judged == 0) return;
  Say(globals, std::to_string(right) + " of " + std::to_string(judged) +
                   " are of the class that was predicted");
}

void CopyTo(const fs::path& from, const std::string& to) {
  std::error_code error;
  fs::copy_file(from, to, fs::copy_options::overwrite_existing, error);
  if (!error) return;
  throw Error(ErrorKind::kFailed, "--out: cannot write '" + to +
                                      "': " + error.message() +
                                      "; name a file in a directory that is "
                                      "yours");
}

std::string ShapeText(const std::vector<std::int64_t>& shape) {
  std::vector<std::string> sizes;
  for (const std::int64_t size : shape) sizes.push_back(std::to_string(size));
  return "[" + Join(sizes, ", ") + "]";
}

int PredictWith(const PredictOptions& options, const GlobalOptions& globals) {
  if (options.features && options.out.empty()) {
    throw Error(ErrorKind::kUsage,
                "predict --features: they are too many to print; name a file "
                "for them with --out FILE.safetensors");
  }
  const ScratchDirectory scratch;
  const Task task = options.features ? Task::kFeatures : Task::kPredict;
  const CheckpointUse use =
      RunCheckpointUse(options, task, options.limit, scratch.path(), globals);
  if (use.evaluation.signal != 0) return 128 + use.evaluation.signal;
  const Predictions all(scratch.path());
  if (!options.out.empty()) {
    CopyTo(scratch.path() / kPredictionDirectory / kPredictionFile,
           options.out);
    Say(globals, "wrote " + options.out + ": output " + ShapeText(all.shape()) +
                     (all.Target(0) ? ", target" : ""));
    return kExitDone;
  }
  if (all.shape().size() != 2) {
    throw Error(ErrorKind::kUsage,
                "predict: this trial gives " + ShapeText(all.shape()) +
                    " and no probabilities of classes; write it to a file with "
                    "--out FILE.safetensors");
  }
  if (options.json) {
    PrintJsonDocument(all, use.checkpoint, options);
  } else {
    PrintRows(all, options, globals);
  }
  return kExitDone;
}

}  // namespace

void SetUpPredict(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<PredictOptions>();
  AddCheckpointUseOptions(app, *options);
  AddOption(app, "--limit", options->limit, "At most so many samples (0: all)")
      .AtLeast(0);
  AddOption(app, "--out", options->out,
            "Write all of it to this safetensors file instead")
      .TypeName("FILE");
  AddFlag(app, "--features", options->features,
          "What the model makes of a sample before it judges it");
  AddTableOptions(app, *options);
  OnParsed(app, [options, &invocation] {
    invocation.run = [options, &invocation] {
      return PredictWith(*options, invocation.globals);
    };
  });
}

}  // namespace dtrain
