// `dtrain predict`: runs a checkpoint's model on images or a data split.
//
// The trial's process writes its outputs to safetensors files, which are copied
// for --out or formatted here. Images that cannot be read are replaced within a
// batch, so that batches keep their size; each row names the image it belongs
// to, and rows of replacements are skipped.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "engine/app/checkpoint_use.h"
#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/base/text.h"
#include "engine/checkpoint/checkpoint_files.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/image/image_folder.h"
#include "engine/os/files.h"
#include "engine/report/format.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> ImagesBelow(const fs::path& directory) try {
  std::vector<fs::path> images;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (entry.is_regular_file() && IsImageName(entry.path().filename())) {
      images.push_back(entry.path());
    }
  }
  if (images.empty()) {
    throw Error(ErrorKind::kUsage,
                directory.string() +
                    ": contains no .jpg, .jpeg or .png file; give images, or a "
                    "directory of images");
  }
  std::ranges::sort(images);
  return images;
} catch (const fs::filesystem_error& error) {
  throw Error(ErrorKind::kUsage, error.path1().string() + ": cannot read: " +
                                     error.code().message());
}

// Returns the images that a user names: files as they are named, and of each
// directory all .jpg, .jpeg and .png files of its tree, sorted by name. Opens
// none of them. Throws Error(kUsage) for a path that does not exist and for a
// directory without images.
std::vector<fs::path> FindImages(const std::vector<std::string>& inputs) {
  std::vector<fs::path> images;
  for (const std::string& input : inputs) {
    std::error_code ignored;
    if (fs::is_directory(input, ignored)) {
      const auto below = ImagesBelow(input);
      images.insert(images.end(), below.begin(), below.end());
    } else if (fs::exists(input, ignored)) {
      images.emplace_back(input);
    } else {
      throw Error(ErrorKind::kUsage, input + ": no such image or directory");
    }
  }
  return images;
}

struct PredictOptions : TableOptions, CheckpointUseOptions {
  std::vector<std::string> inputs;
  bool features = false;
  std::int64_t limit = 0;
  std::string out;
};

// The output that the trial wrote.
class Predictions {
 public:
  explicit Predictions(const fs::path& directory)
      : files_(CheckpointFiles::Read(directory / kPredictionDirectory)) {
    const auto names = files_[kClassNameFile];
    const auto* text = reinterpret_cast<const char*>(names.data());
    names_ = nlohmann::json::parse(text, text + names.size())
                 .get<std::vector<std::string>>();
    for (const TensorBytes& tensor :
         ReadSafetensors(files_[kPredictionFile], kPredictionFile)) {
      if (tensor.name == "output") {
        shape_ = tensor.shape;
        output_.resize(tensor.bytes.size() / sizeof(float));
        std::memcpy(output_.data(), tensor.bytes.data(), tensor.bytes.size());
      } else if (tensor.dtype == "I64") {
        auto& numbers = tensor.name == "target" ? target_ : images_;
        numbers.resize(tensor.bytes.size() / sizeof(std::int64_t));
        std::memcpy(numbers.data(), tensor.bytes.data(), tensor.bytes.size());
      }
    }
  }

  // Names of all classes; empty if they have none.
  const std::vector<std::string>& names() const { return names_; }
  // Name of a class; empty if it has none.
  std::string ClassName(std::int64_t label) const {
    const bool known = label >= 0 && label < std::ssize(names_);
    return known ? names_[static_cast<std::size_t>(label)] : "";
  }
  std::int64_t samples() const { return shape_.empty() ? 0 : shape_[0]; }
  const std::vector<std::int64_t>& shape() const { return shape_; }
  std::span<const float> Row(std::int64_t sample) const {
    const std::size_t size =
        output_.size() / static_cast<std::size_t>(samples());
    return std::span(output_).subspan(static_cast<std::size_t>(sample) * size,
                                      size);
  }
  // Index of a sample's image among the inputs; of a data split, the sample's
  // own number.
  std::int64_t Image(std::int64_t sample) const {
    const auto index = static_cast<std::size_t>(sample);
    return index < images_.size() ? images_[index] : sample;
  }
  std::optional<std::int64_t> Target(std::int64_t sample) const {
    const auto index = static_cast<std::size_t>(sample);
    return index < target_.size() ? std::optional(target_[index])
                                  : std::nullopt;
  }

 private:
  CheckpointFiles files_;
  std::vector<std::string> names_;
  std::vector<std::int64_t> shape_;
  std::vector<float> output_;
  std::vector<std::int64_t> target_;
  std::vector<std::int64_t> images_;
};

// The inputs of a prediction: images, or the samples of a data split.
class Samples {
 public:
  Samples(const Predictions& all, std::vector<fs::path> images)
      : images_(std::move(images)) {
    std::set<std::int64_t> seen;
    for (std::int64_t i = 0; i < all.samples(); ++i) {
      // A sample that replaced unreadable images occurs several times.
      if (seen.insert(all.Image(i)).second) rows_.push_back(i);
    }
    for (std::size_t i = 0; i < images_.size(); ++i) {
      if (!seen.contains(static_cast<std::int64_t>(i))) {
        unread_.push_back(images_[i].string());
      }
    }
  }

  bool images() const { return !images_.empty(); }
  const std::vector<std::int64_t>& rows() const { return rows_; }
  const std::vector<std::string>& unread() const { return unread_; }
  std::string Name(std::int64_t number) const {
    return images() ? images_[static_cast<std::size_t>(number)].string()
                    : std::to_string(number);
  }

 private:
  std::vector<fs::path> images_;
  std::vector<std::int64_t> rows_;
  std::vector<std::string> unread_;
};

struct Prediction {
  std::int64_t sample = 0;
  std::int64_t label = 0;
  float probability = 0;
  std::optional<std::int64_t> target;
};

Prediction MakePrediction(const Predictions& all, std::int64_t sample) {
  const auto row = all.Row(sample);
  const auto best = std::ranges::max_element(row);
  return {.sample = all.Image(sample),
          .label = best - row.begin(),
          .probability = *best,
          .target = all.Target(sample)};
}

void PrintJsonDocument(const Predictions& all, const Samples& samples,
                       const CheckpointRow& checkpoint,
                       const PredictOptions& options) {
  nlohmann::json document = {{"checkpoint", checkpoint.uuid},
                             {"trial", ToString(checkpoint.trial)},
                             {"predictions", nlohmann::json::array()}};
  if (samples.images()) {
    document["unread"] = samples.unread();
  } else {
    document["split"] = options.split;
  }
  if (!all.names().empty()) document["classes"] = all.names();
  for (const std::int64_t i : samples.rows()) {
    const Prediction one = MakePrediction(all, i);
    nlohmann::json row = {{"class", one.label},
                          {"probability", JsonNumber(one.probability)},
                          {"probabilities", nlohmann::json::array()}};
    for (const float value : all.Row(i)) {
      row["probabilities"].push_back(JsonNumber(value));
    }
    if (samples.images()) {
      row["image"] = ToValidUtf8(samples.Name(one.sample));
    } else {
      row["sample"] = one.sample;
    }
    if (one.target) row["target"] = *one.target;
    if (!all.names().empty()) {
      row["class_name"] = all.ClassName(one.label);
      if (one.target) row["target_name"] = all.ClassName(*one.target);
    }
    document["predictions"].push_back(std::move(row));
  }
  PrintJson(document);
}

void PrintRows(const Predictions& all, const Samples& samples,
               const PredictOptions& options, const GlobalOptions& globals) {
  std::vector<Column> columns = {{.name = samples.images() ? "image" : "sample",
                                  .right = !samples.images()},
                                 {.name = "class", .right = true},
                                 {.name = "probability", .right = true}};
  const bool named = !all.names().empty();
  if (!samples.images()) columns.push_back({.name = "target", .right = true});
  if (named) columns.push_back({.name = "class_name"});
  if (named && !samples.images()) columns.push_back({.name = "target_name"});
  Table table(std::move(columns));
  std::int64_t right = 0;
  std::int64_t judged = 0;
  for (const std::int64_t i : samples.rows()) {
    const Prediction one = MakePrediction(all, i);
    std::vector<Cell> row = {
        samples.Name(one.sample), std::to_string(one.label),
        Cell(FormatMetric(one.probability), FormatNumber(one.probability))};
    if (!samples.images()) {
      judged += one.target.has_value();
      right += one.target == one.label;
      row.push_back(one.target ? std::to_string(*one.target) : "");
    }
    if (named) row.push_back(all.ClassName(one.label));
    if (named && !samples.images()) {
      row.push_back(one.target ? all.ClassName(*one.target) : "");
    }
    table.AddRow(std::move(row));
  }
  PrintTable(table, options.format(), globals);
  if (judged == 0) return;
  PrintNotice(globals, "accuracy " +
                           FormatPercent(static_cast<double>(right) /
                                         static_cast<double>(judged)) +
                           " (" + std::to_string(right) + "/" +
                           std::to_string(judged) + ")");
}

void CopyTo(const fs::path& from, const std::string& to) {
  std::error_code error;
  fs::copy_file(from, to, fs::copy_options::overwrite_existing, error);
  if (!error) return;
  throw Error(ErrorKind::kFailed,
              "--out: cannot write '" + to + "': " + error.message() +
                  "; choose a file in a writable directory");
}

std::string ShapeText(const std::vector<std::int64_t>& shape) {
  std::vector<std::string> sizes;
  for (const std::int64_t size : shape) sizes.push_back(std::to_string(size));
  return "[" + Join(sizes, ", ") + "]";
}

// Writes the paths for the trial, each terminated by a zero byte.
std::string WriteImages(const std::vector<fs::path>& images,
                        const fs::path& directory) {
  const fs::path file = directory / "images";
  std::ofstream out(file, std::ios::binary);
  for (const fs::path& image : images) {
    out << fs::absolute(image).string() << '\0';
  }
  if (out << std::flush) return file.string();
  throw Error(ErrorKind::kDiskFull,
              file.string() + ": cannot write; free some space");
}

int WriteOutputs(const Predictions& all, const CheckpointRow& checkpoint,
                 const fs::path& scratch, const PredictOptions& options,
                 const GlobalOptions& globals) {
  CopyTo(scratch / kPredictionDirectory / kPredictionFile, options.out);
  if (options.json) {
    PrintJson({{"checkpoint", checkpoint.uuid},
               {"trial", ToString(checkpoint.trial)},
               {"file", options.out},
               {"shape", all.shape()},
               {"classes", all.names()}});
  }
  PrintNotice(globals, "wrote " + options.out + ": output " +
                           ShapeText(all.shape()) +
                           (all.Target(0) ? ", target" : ""));
  return kExitDone;
}

int PredictWith(const PredictOptions& original, const GlobalOptions& globals) {
  PredictOptions options = original;
  if (options.features && options.out.empty()) {
    throw Error(ErrorKind::kUsage,
                "predict: --features requires --out FILE.safetensors");
  }
  const ScratchDirectory scratch;
  std::vector<fs::path> images = FindImages(options.inputs);
  if (!images.empty()) options.images = WriteImages(images, scratch.path());
  const Task task = options.features ? Task::kFeatures : Task::kPredict;
  const CheckpointUse use =
      RunCheckpointUse(options, task, options.limit, scratch.path(), globals);
  if (use.evaluation.signal != 0) return 128 + use.evaluation.signal;
  const Predictions all(scratch.path());
  if (!options.out.empty()) {
    return WriteOutputs(all, use.checkpoint, scratch.path(), options, globals);
  }
  if (all.shape().size() != 2) {
    throw Error(ErrorKind::kUsage,
                "predict: the output of this model has the shape " +
                    ShapeText(all.shape()) +
                    ", not that of class probabilities; write it to a file "
                    "with --out FILE.safetensors");
  }
  const Samples samples(all, std::move(images));
  if (options.json) {
    PrintJsonDocument(all, samples, use.checkpoint, options);
  } else {
    PrintRows(all, samples, options, globals);
  }
  return kExitDone;
}

}  // namespace

CommandRun SetUpPredict(CLI::App& app) {
  auto options = std::make_shared<PredictOptions>();
  AddCheckpointUseOptions(app, *options);
  AddOption(app, "INPUT", options->inputs,
            "Images, or directories of images (default: the data split)")
      .IsPath();
  AddOption(app, "--limit", options->limit, "Use at most N samples (0: all)")
      .TypeName("N")
      .AtLeast(0);
  AddOption(app, "--out", options->out,
            "Write all outputs to a safetensors file instead of printing")
      .TypeName("FILE")
      .IsPath();
  AddFlag(app, "--features", options->features,
          "Output features (penultimate layer) instead of predictions");
  AddTableOptions(app, *options);
  SetHelp(
      app,
      {.exits = {{kExitDone},
                 {kExitFailed,
                  "the prediction failed, or no image could be read"},
                 {kExitUsage},
                 {kExitNotFound, "no such checkpoint, or no such data split"},
                 {kExitStore},
                 {kExitResources}},
       .examples = {
           {"Classify all images of a directory", "dtrain predict 3 photos/"},
           {"Write the outputs for the test set to a file",
            "dtrain predict 3.7 --split test --out outputs.safetensors"}}});
  return RunWith(PredictWith, options);
}

}  // namespace dtrain
