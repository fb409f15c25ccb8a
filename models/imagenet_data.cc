#include "models/imagenet_data.h"

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
#include "models/cifar10_data.h"
#include "models/imagenet_files.h"

namespace dtrain {
namespace {

// Of ImageNet, as the original script has them.
const Normalization kImageNetNormalization = {.mean = {0.485F, 0.456F, 0.406F},
                                              .std = {0.229F, 0.224F, 0.225F}};
const Normalization kCifarNormalization = {.mean = {0.5F, 0.5F, 0.5F},
                                           .std = {0.5F, 0.5F, 0.5F}};

std::string Counts(std::int64_t training, std::int64_t validation,
                   std::int64_t classes) {
  return std::to_string(training) + " images to train on, " +
         std::to_string(validation) + " to validate, " +
         std::to_string(classes) + " classes";
}

constexpr std::int64_t kMostSide = 16'384;
constexpr std::int64_t kMostWorkers = 256;
constexpr std::int64_t kMostCount = 1'000'000'000;  // of classes or samples

// The integer hyperparameter `name`, which must be in that range.
std::int64_t InRange(std::int64_t least, std::int64_t most,
                     const TrialContext& context, const char* name,
                     std::int64_t fallback) {
  const auto value = context.Get<std::int64_t>(name, fallback);
  if (value >= least && value <= most) return value;
  throw InvalidHyperparameters(
      std::string("hyperparameter '") + name + "' is " + std::to_string(value) +
      "; give an integer from " + std::to_string(least) + " to " +
      std::to_string(most));
}

std::int64_t CropSize(const TrialContext& context) {
  return InRange(1, kMostSide, context, "crop_size", 224);
}

// What leaves the usual margin around the crop.
std::int64_t ResizeSize(const TrialContext& context) {
  const std::int64_t usual =
      std::min(kMostSide, (CropSize(context) * 256 + 112) / 224);
  return InRange(1, kMostSide, context, "resize_size", usual);
}

// The shorter side of the images in the cache; 0: there is none.
std::int64_t CacheSide(const TrialContext& context) {
  const std::int64_t side = InRange(0, kMostSide, context, "image_cache", 0);
  const std::int64_t least = std::max(CropSize(context), ResizeSize(context));
  if (side == 0 || side >= least) return side;
  throw InvalidHyperparameters(
      "hyperparameter 'image_cache' is " + std::to_string(side) +
      ", less than 'crop_size' or 'resize_size': images would be enlarged "
      "again; give at least " +
      std::to_string(least) + ", or 0 for no cache");
}

LoaderOptions Loading(const TrialContext& context) {
  return {.workers =
              static_cast<int>(InRange(0, kMostWorkers, context, "workers", 4)),
          .pinned = context.device().is_cuda()};
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
    if (!directory) throw Error(ErrorKind::kFailed, files.MissingFolders());
    directory_ = directory->string();
    training_ = List(*directory / "train");
    validation_ = List(*directory / "val");
    training_cache_ = Cache(training_, *directory / "train");
    validation_cache_ = Cache(validation_, *directory / "val");
    if (training_->classes != validation_->classes) {
      throw Error(ErrorKind::kFailed,
                  EscapeForTerminal(directory_) +
                      ": train/ and val/ have other classes; give both the "
                      "same directories");
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
                         : "; left out: " + std::to_string(ignored) +
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
    return std::make_shared<const ImageFolder>(ListImageFolder(directory));
  }
  // Nothing is opened or made before the first image is asked for.
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
  std::shared_ptr<CachedImages> training_cache_;  // null: there is none
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
              "no CIFAR-10 test results");
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

// Noise, a quarter of it to validate on, as FakeData of torchvision: to debug
// and to measure.
class FakeData final : public ImageNetData {
 public:
  explicit FakeData(const TrialContext& context)
      : loading_(Loading(context)),
        side_(CropSize(context)),
        classes_(InRange(1, kMostCount, context, "num_classes", 1000)),
        training_(InRange(4, kMostCount, context, "fake_samples", 1024)) {}

  std::int64_t classes() const override { return classes_; }
  std::int64_t side() const override { return side_; }
  ImageSteps steps() const override {
    return {.crop = side_,
            .resize = side_,
            .normalization = kImageNetNormalization};
  }
  std::string description() const override {
    return "made-up images of " + std::to_string(side_) + "x" +
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

}  // namespace dtrain
