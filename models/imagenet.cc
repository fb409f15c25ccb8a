// ImageNetTrial: PyTorch's ImageNet example (examples/imagenet) with
// torchvision's networks, on folders of images, CIFAR-10, or noise.
//
// ImageNetData hides where the images come from. Folders are read by several
// threads, with an optional cache of shrunk images (cached_images.cc); CIFAR-10
// is in memory; noise is generated and needs no files. Hyperparameters keep the
// names and defaults of the script, among them its StepLR by epochs, which
// `schedule` replaces by a schedule by batches.
//
// Pretrained weights are loaded only when a trial begins: one that continues
// gets all weights from its checkpoint.

#include "models/imagenet.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/data/data_directory.h"
#include "engine/data/dataset_readers.h"
#include "engine/data/image_source.h"
#include "engine/data/memory_source.h"
#include "engine/data/seeds.h"
#include "engine/data/thread_loader.h"
#include "engine/image/cached_images.h"
#include "engine/train/log_line.h"
#include "models/building_blocks.h"
#include "models/data_files.h"
#include "models/data_sets.h"
#include "models/nets/image_classifier.h"
#include "models/ops/softmax_cross_entropy.h"
#include "models/optimizers.h"

namespace dtrain {

namespace {

// ImageNet's normalisation in the original script.
const Normalization kImageNetNormalization = {.mean = {0.485F, 0.456F, 0.406F},
                                              .std = {0.229F, 0.224F, 0.225F}};
const Normalization kCifarNormalization = {.mean = {0.5F, 0.5F, 0.5F},
                                           .std = {0.5F, 0.5F, 0.5F}};

std::string Counts(std::int64_t training, std::int64_t validation,
                   std::int64_t classes) {
  return std::to_string(training) + " images for training, " +
         std::to_string(validation) + " for validation, " +
         std::to_string(classes) + " classes";
}

constexpr std::int64_t kMaxSide = 16'384;
constexpr std::int64_t kMaxWorkers = 256;
constexpr std::int64_t kMaxCount = 1'000'000'000;  // of classes or samples

// Integer hyperparameter `name`, which must be in the range.
std::int64_t InRange(std::int64_t min, std::int64_t max,
                     const TrialContext& context, const char* name,
                     std::int64_t fallback) {
  const auto value = context.Get<std::int64_t>(name, fallback);
  if (value >= min && value <= max) return value;
  throw InvalidHyperparameters(
      std::string("hyperparameter '") + name + "' is " + std::to_string(value) +
      "; expected an integer from " + std::to_string(min) + " to " +
      std::to_string(max));
}

std::int64_t CropSize(const TrialContext& context) {
  return InRange(1, kMaxSide, context, "crop_size", 224);
}

// Keeps the usual margin around the crop.
std::int64_t ResizeSize(const TrialContext& context) {
  const std::int64_t usual =
      std::min(kMaxSide, (CropSize(context) * 256 + 112) / 224);
  return InRange(1, kMaxSide, context, "resize_size", usual);
}

// Shorter side of images in the cache; 0: no cache.
std::int64_t CacheSide(const TrialContext& context) {
  const std::int64_t side = InRange(0, kMaxSide, context, "image_cache", 0);
  const std::int64_t min = std::max(CropSize(context), ResizeSize(context));
  if (side == 0 || side >= min) return side;
  throw InvalidHyperparameters(
      "hyperparameter 'image_cache' is " + std::to_string(side) +
      ", less than 'crop_size' or 'resize_size': images would be enlarged "
      "again; give at least " +
      std::to_string(min) + ", or 0 for no cache");
}

LoaderOptions Loading(const TrialContext& context) {
  return {.workers =
              static_cast<int>(InRange(0, kMaxWorkers, context, "workers", 4)),
          .pinned = context.device().is_cuda(),
          .normalize_on_device = context.device().is_cuda()};
}

class FolderData final : public ImageNetData {
 public:
  explicit FolderData(const TrialContext& context)
      : loading_(Loading(context)),
        steps_{.crop = CropSize(context),
               .resize = ResizeSize(context),
               .normalization = kImageNetNormalization},
        cache_side_(CacheSide(context)),
        skipped_(std::make_shared<SkippedFiles>([](const std::string& line) {
          LogLine(LogLevel::kWarning, line);
        })) {
    const ImageNetFiles files(context.Get<std::string>("data", ""));
    const auto directory = files.Folders();
    if (!directory) {
      throw Error(ErrorKind::kNotFound, files.MissingFolders());
    }
    directory_ = directory->string();
    training_ = List(*directory / "train");
    validation_ = List(*directory / "val");
    training_cache_ = Cache(training_, *directory / "train");
    validation_cache_ = Cache(validation_, *directory / "val");
    const std::string differing = CompareClasses(*training_, *validation_);
    if (!differing.empty()) {
      throw Error(ErrorKind::kFailed,
                  EscapeForTerminal(directory_) +
                      ": train/ and val/ have different classes, " + differing +
                      "; give both the same directories");
    }
  }

  std::int64_t classes() const override {
    return static_cast<std::int64_t>(training_->classes.size());
  }
  std::vector<std::string> class_names() const override {
    return training_->classes;
  }
  std::int64_t side() const override { return steps_.crop; }
  ImageSteps steps() const override { return steps_; }
  std::string description() const override {
    const std::int64_t ignored = training_->ignored + validation_->ignored;
    return EscapeForTerminal(directory_) + ": " +
           Counts(Size(*training_), Size(*validation_), classes()) +
           (ignored == 0 ? ""
                         : "; ignored: " + std::to_string(ignored) +
                               " files that are neither .jpg, .jpeg nor .png");
  }
  std::size_t skipped() const override { return skipped_->count(); }

  std::unique_ptr<DataSource> Training(SamplerOptions samples) override {
    ImageSteps steps = steps_;
    steps.augment = true;
    return MakeImageSource(training_, samples, steps, loading_, skipped_,
                           training_cache_);
  }
  std::unique_ptr<DataSource> Validation(SamplerOptions samples) override {
    return MakeImageSource(validation_, samples, steps_, loading_, skipped_,
                           validation_cache_);
  }

 private:
  static std::shared_ptr<const ImageFolder> List(
      const std::filesystem::path& directory) {
    auto folder =
        std::make_shared<const ImageFolder>(ListImageFolder(directory));
    for (const std::string& fault :
         FindFolderFaults(*folder, directory.string())) {
      LogLine(LogLevel::kWarning, fault);
    }
    return folder;
  }
  // Opens nothing before the first image is requested.
  std::shared_ptr<CachedImages> Cache(
      const std::shared_ptr<const ImageFolder>& folder,
      const std::filesystem::path& root) const {
    if (cache_side_ == 0) return nullptr;
    const auto logged = [](LogLevel level) {
      return [level](const std::string& line) { LogLine(level, line); };
    };
    CachedImages::Options options;
    options.file =
        ImageCachePath(CacheDirectory(ProcessVariable), root, cache_side_);
    options.side = cache_side_;
    options.threads = loading_.workers;
    options.listener = {.say = logged(LogLevel::kInfo),
                        .warn = logged(LogLevel::kWarning)};
    return std::make_shared<CachedImages>(folder, std::move(options));
  }
  static std::int64_t Size(const ImageFolder& folder) {
    return static_cast<std::int64_t>(folder.samples.size());
  }

  LoaderOptions loading_;
  ImageSteps steps_;
  std::int64_t cache_side_;
  std::shared_ptr<SkippedFiles> skipped_;
  std::string directory_;
  std::shared_ptr<const ImageFolder> training_;
  std::shared_ptr<const ImageFolder> validation_;
  std::shared_ptr<CachedImages> training_cache_;  // may be null
  std::shared_ptr<CachedImages> validation_cache_;
};

class Cifar10Data final : public ImageNetData {
 public:
  explicit Cifar10Data(const TrialContext& context)
      : device_(context.device()),
        sets_(LoadCifar10(context.Get<std::string>("data", ""))) {
    if (sets_.test.size() == 0) {
      throw Error(
          ErrorKind::kFailed,
          sets_.description +
              ", which validates; put test_batch.bin beside the others");
    }
  }

  std::int64_t classes() const override { return kCifar10Classes; }
  std::vector<std::string> class_names() const override {
    return Cifar10ClassNames();
  }
  std::int64_t side() const override { return kCifar10Side; }
  ImageSteps steps() const override {
    return {.crop = kCifar10Side,
            .resize = kCifar10Side,
            .normalization = kCifarNormalization};
  }
  std::string description() const override {
    return sets_.description + ": " +
           Counts(sets_.training.size(), sets_.test.size(), classes());
  }

  std::unique_ptr<DataSource> Training(SamplerOptions samples) override {
    return Source(sets_.training, samples);
  }
  std::unique_ptr<DataSource> Validation(SamplerOptions samples) override {
    if (!sets_.whole_test) {
      LogLine(LogLevel::kWarning,
              "the test set is incomplete: val_loss, val_top1 and val_top5 are "
              "not CIFAR-10 test results");
    }
    return Source(sets_.test, samples);
  }

 private:
  std::unique_ptr<DataSource> Source(const ImageSet& set,
                                     const SamplerOptions& samples) const {
    return std::make_unique<MemorySource>(set, samples, kCifarNormalization,
                                          device_);
  }

  torch::Device device_;
  Cifar10Sets sets_;
};

// Noise, with a quarter for validation, like torchvision's FakeData: for
// debugging and measuring.
class FakeData final : public ImageNetData {
 public:
  explicit FakeData(const TrialContext& context)
      : loading_(Loading(context)),
        side_(CropSize(context)),
        classes_(InRange(1, kMaxCount, context, "num_classes", 1000)),
        training_(InRange(4, kMaxCount, context, "fake_samples", 1024)) {}

  std::int64_t classes() const override { return classes_; }
  std::int64_t side() const override { return side_; }
  ImageSteps steps() const override {
    return {.crop = side_,
            .resize = side_,
            .normalization = kImageNetNormalization};
  }
  std::string description() const override {
    return "synthetic images of " + std::to_string(side_) + "x" +
           std::to_string(side_) + ": " +
           Counts(training_, training_ / 4, classes_);
  }

  std::unique_ptr<DataSource> Training(SamplerOptions samples) override {
    samples.samples = training_;
    return Source(samples, /*seed=*/0);
  }
  std::unique_ptr<DataSource> Validation(SamplerOptions samples) override {
    samples.samples = training_ / 4;
    return Source(samples, /*seed=*/1);
  }

 private:
  std::unique_ptr<DataSource> Source(const SamplerOptions& samples,
                                     std::uint32_t seed) const {
    // Image and label follow from the number of the sample alone, so nothing is
    // stored and any thread can make any sample.
    const auto load = [side = side_, classes = classes_, seed](
                          std::span<const std::int64_t> of, std::uint64_t) {
      std::vector<torch::Tensor> images;
      std::vector<std::int64_t> labels;
      for (const std::int64_t sample : of) {
        const std::uint64_t bits = SampleSeed(PassSeed(seed, 0), sample);
        images.push_back(torch::randn({3, side, side},
                                      at::detail::createCPUGenerator(bits)));
        labels.push_back(static_cast<std::int64_t>(
            bits % static_cast<std::uint64_t>(classes)));
      }
      return Batch{.data = torch::stack(images),
                   .target = torch::tensor(labels, torch::kInt64)};
    };
    return std::make_unique<ThreadLoader>(samples, load, loading_);
  }

  LoaderOptions loading_;
  std::int64_t side_;
  std::int64_t classes_;
  std::int64_t training_;
};

}  // namespace

std::unique_ptr<ImageNetData> OpenImageNetData(const TrialContext& context) {
  const auto dataset = context.Get<std::string>("dataset", "imagefolder");
  if (dataset == "imagefolder") return std::make_unique<FolderData>(context);
  if (dataset == "cifar10") return std::make_unique<Cifar10Data>(context);
  if (dataset == "fake") return std::make_unique<FakeData>(context);
  throw InvalidHyperparameters(UnknownDataset(dataset));
}

namespace {

constexpr std::int64_t kImageNetClasses = 1000;  // of ImageNet
constexpr OptimizerDefaults kImageNetDefaults = {
    .optimizer = "sgd", .lr = 0.1, .momentum = 0.9, .weight_decay = 1e-4};

Metrics Measure(const torch::Tensor& logits, const torch::Tensor& target,
                const LossAndAccuracy& measured, const std::string& prefix) {
  return {{prefix + "loss", measured.loss.detach()},
          {prefix + "top1", measured.accuracy},
          {prefix + "top5", TopKAccuracy(logits, target, 5)}};
}

// Smaller images are empty after the last pooling.
void CheckSide(const std::string& arch, std::int64_t side) {
  std::int64_t min = 1;
  if (arch == "alexnet") min = 63;
  if (arch.starts_with("vgg")) min = 32;
  if (side >= min) return;
  throw InvalidHyperparameters(
      arch + " needs images of at least " + std::to_string(min) +
      " pixels a side, and these have " + std::to_string(side) +
      "; take another 'arch' or a larger 'crop_size'");
}

}  // namespace

ImageNetTrial::ImageNetTrial(TrialContext& context)
    : context_(context), data_(OpenImageNetData(context)), net_(MakeNet()) {
  LogLine(LogLevel::kInfo, "data: " + data_->description());
  context.Add(net_);  // moves it to the device: before the optimizer
  optimizer_ = MakeOptimizer(context, net_->parameters(), kImageNetDefaults);
  context.Add(optimizer_);
  AddSchedule();
}

std::shared_ptr<ImageClassifier> ImageNetTrial::MakeNet() const {
  const auto arch = context_.Get<std::string>("arch", "resnet18");
  if (std::ranges::find(kImageArchs, arch) == kImageArchs.end()) {
    throw InvalidHyperparameters(UnknownArch(arch));
  }
  CheckSide(arch, data_->side());
  const auto classes =
      context_.Get<std::int64_t>("num_classes", kImageNetClasses);
  if (classes < data_->classes()) {
    throw InvalidHyperparameters(
        "hyperparameter 'num_classes' is " + std::to_string(classes) +
        ", and the data have " + std::to_string(data_->classes()) +
        " classes; set it to that or more");
  }
  const bool pretrained =
      context_.Get<bool>("pretrained", false) && !context_.continues();
  // Log lines of the original script. A checkpoint contains all weights itself.
  LogLine(LogLevel::kInfo, (pretrained ? "=> using pre-trained model '"
                                       : "=> creating model '") +
                               arch + "'");
  auto net = MakeImageClassifier(arch, classes);
  if (classes != kImageNetClasses) {
    LogLine(LogLevel::kInfo,
            "num_classes: " + arch + " has a head of its own, " + net->head() +
                ", with " + std::to_string(classes) + " classes");
  }
  if (!pretrained) return net;
  const ImageNetFiles files(context_.Get<std::string>("data", ""));
  const auto weights = files.Weights(arch);
  if (!weights) throw Error(ErrorKind::kNotFound, files.MissingWeights(arch));
  LogLine(LogLevel::kInfo,
          LoadPretrained(*net, *weights,
                         classes == kImageNetClasses ? OtherHead::kError
                                                     : OtherHead::kKeepNew));
  return net;
}

// StepLR(step_size=2, gamma=0.1), stepped every epoch, unless `schedule` names
// another.
void ImageNetTrial::AddSchedule() {
  const auto start = context_.Get<std::int64_t>("start-epoch", 0);
  if (context_.Get<std::string>("schedule", "step") != "step") {
    if (start != 0) {
      throw InvalidHyperparameters(
          "hyperparameter 'start-epoch' is for 'schedule: step' only");
    }
    const auto source = data_->Training(TrainingSamples());
    if (auto schedule = MakeSchedule(context_, source->BatchesPerEpoch(),
                                     kImageNetDefaults)) {
      context_.Add(*std::move(schedule), *optimizer_, StepMode::kEveryBatch);
    }
    return;
  }
  const auto every = context_.Get<std::int64_t>("step_epochs", 2);
  const auto gamma = context_.Get<double>("gamma", 0.1);
  constexpr std::int64_t kMaxEpochs = 1'000'000;
  if (start < 0 || start > kMaxEpochs || every < 1 || !(gamma > 0)) {
    throw InvalidHyperparameters(
        "hyperparameters 'start-epoch', 'step_epochs' and 'gamma' must be from "
        "0 to 1000000, at least 1 and above 0");
  }
  LrSchedule schedule(StepLr{.step_size = every, .gamma = gamma});
  for (std::int64_t epoch = 0; epoch < start; ++epoch) schedule.Step();
  context_.Add(std::move(schedule), *optimizer_, StepMode::kEveryEpoch);
}

SamplerOptions ImageNetTrial::TrainingSamples() const {
  return {.batch_size = context_.batch_size(),
          .shuffle = true,
          .seed = context_.seed(),
          .drop_last = context_.Get<bool>("drop_last", false),
          .rank = context_.rank(),
          .ranks = context_.world_size()};
}

std::unique_ptr<DataSource> ImageNetTrial::TrainingData() {
  return data_->Training(TrainingSamples());
}

std::unique_ptr<DataSource> ImageNetTrial::ValidationData() {
  return data_->Validation({.batch_size = context_.batch_size(),
                            .wrap = false,
                            .rank = context_.rank(),
                            .ranks = context_.world_size()});
}

Metrics ImageNetTrial::TrainBatch(const Batch& batch, BatchIndex) {
  const torch::Tensor logits = net_->forward(batch.data);
  const auto measured = CrossEntropyAndAccuracy(logits, batch.target);
  Metrics metrics = Measure(logits.detach(), batch.target, measured, "");
  context_.Backward(measured.loss);
  context_.Step(*optimizer_);
  return metrics;
}

Metrics ImageNetTrial::EvaluateBatch(const Batch& batch) {
  const torch::Tensor logits = net_->forward(batch.data);
  return Measure(logits, batch.target,
                 CrossEntropyAndAccuracy(logits, batch.target), "val_");
}

torch::Tensor ImageNetTrial::Predict(const Batch& batch) {
  return net_->forward(batch.data).softmax(/*dim=*/1);
}

std::optional<ImageSteps> ImageNetTrial::ImagePreparation() {
  return data_->steps();
}

torch::Tensor ImageNetTrial::Features(const Batch& batch) {
  return net_->Features(batch.data);
}

void ImageNetTrial::OnValidationReport(const ReportPoint&, const MetricValues&,
                                       const MetricValues&) {
  if (data_->skipped() == skipped_) return;
  skipped_ = data_->skipped();
  LogLine(LogLevel::kWarning,
          std::to_string(skipped_) +
              " image files could not be read so far and were skipped");
}

std::unique_ptr<Trial> MakeImageNetTrial(TrialContext& context) {
  return std::make_unique<ImageNetTrial>(context);
}

}  // namespace dtrain
