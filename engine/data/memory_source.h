#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <torch/types.h>

#include "engine/base/api.h"
#include "engine/data/batch_sampler.h"
#include "engine/data/data_source.h"
#include "engine/data/gather_normalize.h"
#include "engine/data/tensor_source.h"
#include "engine/image/transforms.h"

namespace dtrain {

/// A set of images in memory: all of `images`, or a subset.
struct ImageSet {
  torch::Tensor images;  // uint8 [images, channels, height, width]
  torch::Tensor labels;  // int64 [images]
  // int64 [samples], on the CPU: indices of the images in the set; undefined:
  // all.
  torch::Tensor samples;

  /// Number of samples.
  std::int64_t size() const {
    return samples.defined() ? samples.size(0) : labels.size(0);
  }
};

/// Gathers the images `samples` of `set`, on any device, with ATen operations:
/// the fallback of MemorySource without a kernel. `rows`: `samples` as a tensor
/// on the set's device. `scales`: float [channels, 2], likewise.
DTRAIN_API Batch GatherByTensors(const ImageSet& set,
                                 std::span<const std::int64_t> samples,
                                 const torch::Tensor& rows,
                                 const torch::Tensor& scales,
                                 const Augmentation& augmentation,
                                 std::uint64_t pass_seed);

/// A DataSource without a loader: the set stays in memory as bytes, on the
/// trial's device. One pass gathers a batch, normalises it into float tensors
/// and, if requested, augments it; augmentation depends on the seed, the pass
/// and the image. Uses dtrain's kernel on a GPU if it was built, ATen
/// otherwise. Reuses the tensors of batches that are no longer referenced.
class DTRAIN_API MemorySource final : public DataSource, public DeviceBatches {
 public:
  /// `samples.samples` is taken from the set. Throws Error(kFailed) for a set
  /// whose types or shapes differ from those of ImageSet.
  MemorySource(const ImageSet& set, SamplerOptions samples,
               const Normalization& normalization, torch::Device device,
               Augmentation augmentation = {});

  std::int64_t BatchesPerEpoch() const override;
  std::int64_t SamplesPerEpoch() const override;
  void Seek(std::int64_t index) override { sampler_.Seek(index); }
  Batch Read() override;

  /// Null if the images are augmented, unless dtrain's kernel does it.
  DeviceBatches* on_device() override;
  std::int64_t FullBatchesLeft() const override {
    return sampler_.FullBatchesLeft();
  }
  std::int64_t Skip(std::int64_t batches) override;
  Batch Gather(const torch::Tensor& position) override;

 private:
  struct Tensors {
    torch::Tensor data;
    torch::Tensor target;
  };

  Tensors& FreeTensors(std::int64_t count);
  Tensors NewTensors(std::int64_t count) const;
  std::span<const std::int64_t> ToImages(std::span<const std::int64_t> samples);
  Batch GatherOnHost(const BatchSampler::Indices& indices);
  Batch GatherOnDevice(const BatchSampler::Indices& indices);
  Batch GatherByKernel(const torch::Tensor& samples, std::int64_t pass);
  Batch GatherBy(GatherJob& job, const Tensors& to) const;
  GatherJob Job(const Tensors& to, const std::int64_t* samples,
                std::int64_t pass) const;

  const std::uint32_t seed_;
  const Augmentation augmentation_;
  ImageSet set_;                      // on the device, except for `samples`
  std::vector<std::int64_t> chosen_;  // image indices of a batch, for a subset
  BatchSampler sampler_;
  std::vector<ChannelScale> scales_;
  torch::Tensor device_scales_;  // float [channels, 2]
  DeviceOrder order_;
  torch::Tensor device_seed_;  // of the pass of the last Skip, int64 [1]
  GatherOnCuda kernel_ = nullptr;
  std::vector<Tensors> pool_;
};

}  // namespace dtrain
