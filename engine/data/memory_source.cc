#include "engine/data/memory_source.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>

#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/types.h>

#include "engine/base/error.h"
#include "engine/data/cuda_half.h"
#include "engine/data/seeds.h"

// Small data sets stay in memory as bytes, a quarter of their size as floats,
// on the device of the trial. Reading a batch is then one pass: for each sample
// and channel, a byte is looked up (shifted and mirrored by the augmentation),
// scaled, and written as a float. There are three implementations with the same
// results: loops on the CPU, a CUDA kernel (gather_normalize.cu), and ATen
// operations for GPUs without that kernel.

namespace dtrain {
namespace {

// A batch in training, one being read, one whose metrics are pending, and one
// spare.
constexpr std::size_t kMaxTensors = 4;

void CheckSet(const ImageSet& set, const Normalization& normalization,
              const Augmentation& augmentation) {
  const bool good =
      set.images.defined() && set.images.scalar_type() == torch::kUInt8 &&
      set.images.dim() == 4 && set.labels.defined() &&
      set.labels.scalar_type() == torch::kInt64 && set.labels.dim() == 1 &&
      set.labels.size(0) == set.images.size(0);
  const bool good_choice =
      !set.samples.defined() ||
      (set.samples.scalar_type() == torch::kInt64 && set.samples.dim() == 1 &&
       set.samples.is_cpu() && set.samples.is_contiguous());
  if (!good || !good_choice) {
    throw Error(
        ErrorKind::kFailed,
        "an image set is bytes [images, channels, height, width], int64 "
        "labels [images] and, on the CPU, int64 samples [samples]; "
        "give MemorySource such tensors");
  }
  const auto channels = static_cast<std::size_t>(set.images.size(1));
  if (normalization.mean.size() != channels ||
      normalization.std.size() != channels) {
    throw Error(ErrorKind::kFailed,
                "the images have " + std::to_string(channels) +
                    " channels; give the normalization as many means and "
                    "deviations");
  }
  const std::int64_t shorter_side =
      std::min(set.images.size(2), set.images.size(3));
  if (augmentation.padding < 0 || augmentation.padding > shorter_side) {
    throw Error(ErrorKind::kFailed,
                "a padding of " + std::to_string(augmentation.padding) +
                    " pixels; it is from 0 to the images' shorter side, " +
                    std::to_string(shorter_side));
  }
}

SamplerOptions WithSamples(SamplerOptions options, const ImageSet& set) {
  options.samples = set.size();
  return options;
}

// True if only the pool refers to the tensor, views included.
bool IsFree(const torch::Tensor& tensor) {
  return tensor.use_count() == 1 && tensor.storage().use_count() == 1;
}

// Image `sample` without augmentation: one plane at a time, in loops that
// vectorise.
void GatherPlain(const GatherJob& job, const std::uint8_t* from, float* to) {
  const std::int64_t pixels = job.height * job.width;
  for (std::int64_t c = 0; c < job.channels; ++c) {
    const ChannelScale scale = job.scales[c];
    for (std::int64_t i = 0; i < pixels; ++i) {
      to[i] = NormalizePixel(from[i], scale);
    }
    from += pixels;
    to += pixels;
  }
}

void GatherRow(const GatherJob& job, std::int64_t row) {
  const std::int64_t sample = SampleAt(job, row);
  const std::int64_t size = job.size();
  const std::uint8_t* from = job.images + sample * size;
  float* to = job.data + row * size;
  job.target[row] = job.labels[sample];
  const Placement placement = PlacementIn(job, sample);
  if (placement == Placement{}) return GatherPlain(job, from, to);
  for (std::int64_t i = 0; i < size; ++i) {
    to[i] = GatheredNumber(job, from, placement, i);
  }
}

torch::Tensor Numbers(std::span<const std::int64_t> numbers) {
  const torch::Tensor tensor =
      torch::empty({static_cast<std::int64_t>(numbers.size())}, torch::kInt64);
  std::ranges::copy(numbers, tensor.mutable_data_ptr<std::int64_t>());
  return tensor;
}

// For each of `size` positions along a side, [samples, size]: the position in
// the image it is read from, and whether that is inside the image.
struct SourceIndex {
  torch::Tensor index;
  torch::Tensor is_inside;
};

SourceIndex SourceIndexAlong(const std::vector<std::int64_t>& shift,
                             const std::vector<std::int64_t>& mirrored,
                             std::int64_t size, torch::Device device) {
  const torch::Tensor place = torch::arange(size).unsqueeze(0);
  const torch::Tensor turned = torch::where(
      Numbers(mirrored).unsqueeze(1).to(torch::kBool), size - 1 - place, place);
  const torch::Tensor at =
      (turned + Numbers(shift).unsqueeze(1)).to(device, /*non_blocking=*/true);
  return {.index = at.clamp(0, size - 1),
          .is_inside = at.ge(0).logical_and(at.lt(size))};
}

// Crops and flips these images, [samples, channels, height, width].
torch::Tensor Augmented(const torch::Tensor& images,
                        std::span<const std::int64_t> samples,
                        const Augmentation& augmentation,
                        std::uint64_t pass_seed) {
  std::vector<std::int64_t> down;
  std::vector<std::int64_t> right;
  std::vector<std::int64_t> mirrored;
  for (const std::int64_t sample : samples) {
    const Placement placement =
        DrawPlacement(augmentation, SampleSeed(pass_seed, sample));
    down.push_back(placement.down);
    right.push_back(placement.right);
    mirrored.push_back(placement.mirrored ? 1 : 0);
  }
  const std::int64_t height = images.size(2);
  const std::int64_t width = images.size(3);
  const std::vector<std::int64_t> never(samples.size());
  const SourceIndex rows =
      SourceIndexAlong(down, never, height, images.device());
  const SourceIndex columns =
      SourceIndexAlong(right, mirrored, width, images.device());
  return images.gather(2, rows.index.view({-1, 1, height, 1}).expand_as(images))
      .gather(3, columns.index.view({-1, 1, 1, width}).expand_as(images))
      .mul(rows.is_inside.view({-1, 1, height, 1})
               .logical_and(columns.is_inside.view({-1, 1, 1, width})));
}

}  // namespace

MemorySource::MemorySource(const ImageSet& set, SamplerOptions samples,
                           const Normalization& normalization,
                           torch::Device device, Augmentation augmentation)
    : seed_(samples.seed),
      augmentation_(augmentation),
      sampler_((CheckSet(set, normalization, augmentation),
                WithSamples(samples, set))),
      scales_(ChannelScales(normalization)),
      order_(device) {
  set_.images = set.images.to(device).contiguous();
  set_.labels = set.labels.to(device).contiguous();
  set_.samples = set.samples;
  device_scales_ =
      torch::from_blob(scales_.data(),
                       {static_cast<std::int64_t>(scales_.size()), 2})
          .to(device, /*non_blocking=*/false, /*copy=*/true);
  if (device.is_cpu()) return;
  kernel_ = FromCudaHalf<GatherOnCuda>(kGatherOnCuda);
}

std::int64_t MemorySource::BatchesPerEpoch() const {
  return sampler_.BatchesPerEpoch();
}

std::int64_t MemorySource::SamplesPerEpoch() const {
  return sampler_.SamplesPerEpoch();
}

Batch MemorySource::Read() {
  const BatchSampler::Indices indices = sampler_.Next();
  if (set_.images.is_cpu()) return GatherOnHost(indices);
  return GatherOnDevice(indices);
}

// Unreferenced tensors for `count` samples, from the pool if possible.
MemorySource::Tensors& MemorySource::FreeTensors(std::int64_t count) {
  for (Tensors& tensors : pool_) {
    const bool fits = tensors.target.size(0) == count;
    if (fits && IsFree(tensors.data) && IsFree(tensors.target)) return tensors;
  }
  if (pool_.size() >= kMaxTensors) pool_.erase(pool_.begin());
  pool_.push_back(NewTensors(count));
  return pool_.back();
}

MemorySource::Tensors MemorySource::NewTensors(std::int64_t count) const {
  std::vector<std::int64_t> shape = set_.images.sizes().vec();
  shape[0] = count;
  return {
      .data = torch::empty(shape, set_.images.options().dtype(torch::kFloat)),
      .target = torch::empty({count}, set_.labels.options())};
}

// Image indices of these samples. Valid until the next call.
std::span<const std::int64_t> MemorySource::ToImages(
    std::span<const std::int64_t> samples) {
  if (!set_.samples.defined()) return samples;
  const std::int64_t* images = set_.samples.const_data_ptr<std::int64_t>();
  chosen_.clear();
  for (const std::int64_t sample : samples) chosen_.push_back(images[sample]);
  return chosen_;
}

Batch MemorySource::GatherOnHost(const BatchSampler::Indices& indices) {
  Tensors& to = FreeTensors(static_cast<std::int64_t>(indices.samples.size()));
  GatherJob job = Job(to, ToImages(indices.samples).data(), indices.pass);
  job.scales = scales_.data();
  for (std::int64_t row = 0; row < job.batch; ++row) GatherRow(job, row);
  return {.data = to.data, .target = to.target};
}

Batch GatherByTensors(const ImageSet& set,
                      std::span<const std::int64_t> samples,
                      const torch::Tensor& rows, const torch::Tensor& scales,
                      const Augmentation& augmentation,
                      std::uint64_t pass_seed) {
  torch::Tensor pixels = set.images.index_select(0, rows);
  if (augmentation.padding != 0 || augmentation.flip) {
    pixels = Augmented(pixels, samples, augmentation, pass_seed);
  }
  const torch::Tensor scale = scales.view({1, -1, 1, 1, 2});
  return {.data = pixels.to(torch::kFloat)
                      .mul_(scale.select(-1, 0))
                      .add_(scale.select(-1, 1)),
          .target = set.labels.index_select(0, rows)};
}

Batch MemorySource::GatherOnDevice(const BatchSampler::Indices& indices) {
  const torch::Tensor rows =
      order_.Rows(indices, [&] { return ToImages(sampler_.order()); });
  if (kernel_ != nullptr) return GatherByKernel(rows, indices.pass);
  return GatherByTensors(set_, ToImages(indices.samples), rows, device_scales_,
                         augmentation_, PassSeed(seed_, indices.pass));
}

Batch MemorySource::GatherByKernel(const torch::Tensor& samples,
                                   std::int64_t pass) {
  // Torch's device allocator recycles memory in stream order.
  const Tensors to = NewTensors(samples.size(0));
  GatherJob job = Job(to, samples.const_data_ptr<std::int64_t>(), pass);
  return GatherBy(job, to);
}

DeviceBatches* MemorySource::on_device() {
  const bool augments = augmentation_.padding != 0 || augmentation_.flip;
  return augments && kernel_ == nullptr ? nullptr : this;
}

// For CUDA graphs: the position and the seed of the pass are in device memory,
// so that a captured batch reads another part of the order at each replay.
std::int64_t MemorySource::Skip(std::int64_t batches) {
  const BatchSampler::Indices first = sampler_.Skip(batches);
  order_.Rows(first, [&] { return ToImages(sampler_.order()); });
  if (!device_seed_.defined()) {
    device_seed_ = torch::empty({1}, set_.labels.options());
  }
  device_seed_.fill_(static_cast<std::int64_t>(PassSeed(seed_, first.pass)));
  return first.first;
}

Batch MemorySource::Gather(const torch::Tensor& position) {
  const std::int64_t count = sampler_.batch_size();
  if (kernel_ == nullptr) {
    return GatherByTensors(set_, /*samples=*/{}, order_.RowsAt(position, count),
                           device_scales_, /*augmentation=*/{},
                           /*pass_seed=*/0);
  }
  const Tensors to = NewTensors(count);
  GatherJob job = Job(to, order_.order().const_data_ptr<std::int64_t>(),
                      /*pass=*/0);
  job.position = position.const_data_ptr<std::int64_t>();
  job.pass_seed_at = device_seed_.const_data_ptr<std::int64_t>();
  return GatherBy(job, to);
}

Batch MemorySource::GatherBy(GatherJob& job, const Tensors& to) const {
  job.scales =
      static_cast<const ChannelScale*>(device_scales_.const_data_ptr());
  const torch::Device device = set_.images.device();
  const c10::Stream stream =
      c10::impl::VirtualGuardImpl(device.type()).getStream(device);
  if (const int error = kernel_(&job, stream.native_handle()); error != 0) {
    throw Error(ErrorKind::kFailed,
                "gathering a batch on the GPU failed with CUDA error " +
                    std::to_string(error) + "; see the driver's log");
  }
  return {.data = to.data, .target = to.target};
}

GatherJob MemorySource::Job(const Tensors& to, const std::int64_t* samples,
                            std::int64_t pass) const {
  const torch::Tensor& images = set_.images;
  return {.images = images.const_data_ptr<std::uint8_t>(),
          .labels = set_.labels.const_data_ptr<std::int64_t>(),
          .samples = samples,
          .data = to.data.mutable_data_ptr<float>(),
          .target = to.target.mutable_data_ptr<std::int64_t>(),
          .batch = to.target.size(0),
          .channels = images.size(1),
          .height = images.size(2),
          .width = images.size(3),
          .augmentation = augmentation_,
          .pass_seed = PassSeed(seed_, pass)};
}

}  // namespace dtrain
