// The device of a trial: its setup, copies of batches to it, texts of its
// errors, and the states of its random generators. See DeviceCopy below for how
// copies overlap with work.

#include "engine/train/device.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <malloc.h>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/data/cuda_half.h"
#include "engine/train/gpu.h"

namespace dtrain {

namespace {

// LibTorch frees its large tensors after each step. A heap that returns them to
// the system costs a page fault for every 4 KiB of the next step.
void KeepHeapMemory() {
  ::mallopt(M_MMAP_THRESHOLD, 1 << 30);
  ::mallopt(M_TRIM_THRESHOLD, 2047 << 20);
  ::mallopt(M_TOP_PAD, 256 << 20);
}

// Steps can be captured on any stream but the default one.
void UseOwnStream(torch::Device device) {
  const c10::impl::VirtualGuardImpl guard(device.type());
  guard.exchangeStream(guard.getStreamFromGlobalPool(device));
}

// Selects deterministic algorithms, or else the fastest ones for recurring
// shapes.
void ChooseAlgorithms(const TrainerSettings& settings) {
  at::Context& context = at::globalContext();
  context.setBenchmarkCuDNN(!settings.deterministic);
  // LibTorch allows it in convolutions by default.
  if (settings.mixed_precision == "tf32") context.setAllowTF32CuBLAS(true);
  if (!settings.deterministic) return;
  context.setDeterministicCuDNN(true);
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  context.setDeterministicFillUninitializedMemory(false);
  // cuBLAS is deterministic only with a fixed workspace. It reads this variable
  // when it is loaded.
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
}

// Returns the names of the trial's GPUs, by which nvidia-smi knows them too.
std::string GpuNames(const TrialSpec& spec) {
  const char* names = std::getenv(kGpuNamesVariable);
  if (names != nullptr && *names != '\0') return names;
  std::vector<std::string> ordinals;
  for (const int gpu : spec.gpus) ordinals.push_back(std::to_string(gpu));
  return "GPU " + Join(ordinals, ", ");
}

// Protects the memory of the other trials on a shared GPU.
void LimitToShare(double share, const ContextMeter& meter) {
  const auto limit = FromCudaHalf<LimitGpuMemory>(kLimitGpuMemory);
  const auto memory = ReadGpu();  // makes the context
  if (limit == nullptr || !memory || memory->total <= 0) return;
  const std::int64_t most = LimitOfShare(share, memory->total, meter.Bytes());
  limit(static_cast<double>(most) / static_cast<double>(memory->total));
}

// Makes the context of the first visible GPU. Throws c10::Error.
torch::Device OpenGpu(const TrialSpec& spec) {
  std::optional<ContextMeter> meter;
  if (spec.gpu_share < 1) meter.emplace(std::getenv("CUDA_VISIBLE_DEVICES"));
  at::globalContext().lazyInitDevice(torch::kCUDA);
  const torch::Device device(torch::kCUDA, 0);
  UseOwnStream(device);
  if (meter) LimitToShare(spec.gpu_share, *meter);
  return device;
}

}  // namespace

torch::Device OpenDevice(const TrialSpec& spec) {
  KeepHeapMemory();
  ChooseAlgorithms(spec.settings);
  at::set_num_threads(spec.threads);
  at::set_num_interop_threads(1);
  if (spec.gpus.empty()) return torch::kCPU;
  std::vector<std::string> ordinals;
  for (const int gpu : spec.gpus) ordinals.push_back(std::to_string(gpu));
  // Kept if the parent process has set it.
  ::setenv("CUDA_VISIBLE_DEVICES", Join(ordinals, ",").c_str(),
           /*overwrite=*/0);
  ::setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", /*overwrite=*/0);
  // CUDA's own error tells more than a check whether there is a GPU.
  try {
    return OpenGpu(spec);
  } catch (const c10::Error& error) {
    const bool is_loaded =
        FromCudaHalf<LimitGpuMemory>(kLimitGpuMemory) != nullptr;
    throw Error(ErrorKind::kFailed,
                GpuNames(spec) + " cannot be used: " +
                    (is_loaded ? TorchMessage(error)
                               : "the CUDA libraries of LibTorch are not "
                                 "loaded") +
                    "; see what nvidia-smi prints, or train with "
                    "resources.slots: cpu");
  }
}

// DeviceCopy is a ring of device batches. An event of the working stream says
// when a slot may be overwritten, an event of the copy stream when it is ready.
//
// LibTorch's own means for two streams, record_stream, would delay the reuse of
// memory for as long as the host runs ahead. Worse, it records an event when a
// tensor is freed, which throws after a CUDA error, in a destructor, and ends
// the process before the error is reported. The same holds for pinned memory
// that LibTorch copies from; copies are therefore issued directly.

namespace {

// True if only the ring refers to the tensor, views included.
bool IsFree(const torch::Tensor& tensor) {
  return tensor.use_count() == 1 && tensor.storage().use_count() == 1;
}

bool HasSameLayout(const torch::Tensor& one, const torch::Tensor& other) {
  return one.defined() && one.sizes() == other.sizes() &&
         one.strides() == other.strides() &&
         one.scalar_type() == other.scalar_type();
}

// Tensor whose bytes are to be copied as they are; undefined if `tensor` must
// be moved by LibTorch or is on the device already.
torch::Tensor PlainOnHost(const torch::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_cpu() ||
      tensor.layout() != torch::kStrided) {
    return {};
  }
  const torch::Tensor plain = tensor.resolve_conj().resolve_neg().detach();
  return plain.is_non_overlapping_and_dense() ? plain : plain.contiguous();
}

// The batch, with an alias for each tensor that was copied to the device.
Batch Copied(const Batch& batch, const std::vector<torch::Tensor>& to,
             torch::Device device) {
  auto next = to.begin();
  const auto one = [&](const torch::Tensor& tensor) {
    const torch::Tensor& copy = *next++;
    if (copy.defined()) return copy.detach();
    return tensor.defined() ? tensor.to(device, /*non_blocking=*/true) : tensor;
  };
  // In the order of tensors().
  Batch copied;
  copied.data = one(batch.data);
  copied.target = one(batch.target);
  for (const auto& [name, tensor] : batch.extra) {
    copied.extra[name] = one(tensor);
  }
  return copied;
}

// Slots of failed GPUs. Their memory is never freed: freeing may throw, and the
// process ends anyway.
template <typename Slots>
void Abandon(Slots slots) {
  static auto* const abandoned = new std::vector<Slots>;
  abandoned->push_back(std::move(slots));
}

}  // namespace

DeviceCopy::DeviceCopy(torch::Device device) : device_(device) {
  if (device.is_cpu()) return;
  // One stream for all copies of this process: the allocator keeps freed memory
  // by stream.
  static const c10::Stream stream = c10::impl::VirtualGuardImpl(device.type())
                                        .getStreamFromGlobalPool(device);
  stream_ = stream;
  for (std::size_t i = 0; i < kSlots; ++i) {
    slots_.push_back({.to = {},
                      .from = {},
                      .copied = c10::Event(device.type()),
                      .is_free = c10::Event(device.type())});
  }
}

DeviceCopy::~DeviceCopy() {
  try {
    for (const Slot& slot : slots_) slot.copied.synchronize();
  } catch (const c10::Error&) {
    Abandon(std::move(slots_));
  }
}

Batch DeviceCopy::operator()(const Batch& batch) {
  Batch there = OnDevice(batch);
  if (!batch.scales.defined()) return there;
  // A source has the same scales in all its batches.
  if (!host_scales_.is_same(batch.scales)) {
    host_scales_ = batch.scales;
    scales_ = host_scales_.to(device_);
  }
  there.scales = scales_;
  return there.Normalized();
}

Batch DeviceCopy::OnDevice(const Batch& batch) {
  const auto tensors = batch.tensors();
  const bool is_there =
      std::ranges::all_of(tensors, [&](const torch::Tensor& tensor) {
        return !tensor.defined() || tensor.device() == device_;
      });
  if (is_there) return batch;
  return stream_ ? CopyBeside(batch) : batch.To(device_);
}

Batch DeviceCopy::CopyBeside(const Batch& batch) {
  const c10::Stream working =
      c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
  if (copies_ > 0) slots_[(copies_ - 1) % kSlots].is_free.record(working);
  Slot& slot = slots_[copies_ % kSlots];
  // Waits on the host until the step that read this slot's last batch is done,
  // which also keeps the host from running more than kSlots batches ahead.
  slot.is_free.synchronize();
  slot.from.clear();
  for (const torch::Tensor& tensor : batch.tensors()) {
    slot.from.push_back(PlainOnHost(tensor));
  }
  if (Allocate(slot)) {
    // The allocator reuses memory in the order of the working stream.
    slot.is_free.record(working);
    slot.is_free.block(*stream_);
  }
  ++copies_;
  Copy(slot);
  slot.copied.record(*stream_);
  // The working stream waits on the device; the host goes on.
  slot.copied.block(working);
  return Copied(batch, slot.to, device_);
}

// Makes the slot's tensors on the device like those on the host, keeping the
// ones that fit. Returns true if memory was allocated.
bool DeviceCopy::Allocate(Slot& slot) const {
  bool allocates = false;
  slot.to.resize(slot.from.size());
  for (std::size_t i = 0; i < slot.from.size(); ++i) {
    const torch::Tensor& from = slot.from[i];
    torch::Tensor& to = slot.to[i];
    if (from.defined() && HasSameLayout(to, from) && IsFree(to)) continue;
    to.reset();
    if (!from.defined()) continue;
    to = torch::empty_strided(from.sizes(), from.strides(),
                              from.options().device(device_));
    allocates = true;
  }
  return allocates;
}

void DeviceCopy::Copy(const Slot& slot) const {
  static const auto copy = FromCudaHalf<CopyToGpu>(kCopyToGpu);
  const torch::NoGradGuard no_grad;
  const c10::StreamGuard beside(*stream_);
  for (std::size_t i = 0; i < slot.from.size(); ++i) {
    const torch::Tensor& from = slot.from[i];
    if (!from.defined() || from.numel() == 0) continue;
    if (copy == nullptr) {
      slot.to[i].copy_(from, /*non_blocking=*/true);
    } else {
      copy(slot.to[i].mutable_data_ptr(), from.const_data_ptr(), from.nbytes(),
           stream_->native_handle());
    }
  }
}

namespace {

// Empty if the memory cannot be read.
std::string OutOfMemory(const c10::Error& error) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) == nullptr) return "";
  try {
    const auto memory = ReadGpu();
    return memory ? OutOfMemoryMessage(*memory) : "";
  } catch (const c10::Error&) {
    return "";
  }
}

}  // namespace

std::string TorchMessage(const c10::Error& error) {
  if (std::string message = OutOfMemory(error); !message.empty()) {
    return message;
  }
  constexpr std::size_t kMaxLength = 1'000;
  std::string line;
  for (const std::string& part : Split(error.what_without_backtrace(), '\n')) {
    const auto start = part.find_first_not_of(" \t");
    // Source lines of LibTorch do not help its users.
    if (start == part.npos || part.starts_with("Exception raised from")) {
      continue;
    }
    if (!line.empty()) line += ' ';
    line += part.substr(start);
  }
  if (line.size() > kMaxLength) line.resize(kMaxLength);
  if (line.find("more than 1 value per channel") != line.npos) {
    line +=
        "; batch normalisation cannot train on a batch of one sample: leave "
        "out an epoch's last batch if it is not full ('drop_last: true' of "
        "ImageNetTrial, SamplerOptions::drop_last in a model of your own), or "
        "use another global_batch_size";
  }
  return line;
}

namespace {

std::string Save(at::Generator generator) {
  const std::lock_guard lock(generator.mutex());
  const torch::Tensor state = generator.get_state();
  return ToHex(
      {static_cast<const std::byte*>(state.const_data_ptr()), state.nbytes()});
}

void Load(at::Generator generator, const nlohmann::json& text) {
  const auto bytes = FromHex(text.get<std::string>());
  const std::lock_guard lock(generator.mutex());
  if (!bytes || bytes->size() != generator.get_state().nbytes()) {
    throw Error(
        ErrorKind::kFailed,
        "the checkpoint's random state was written by another LibTorch; use "
        "the one it was made with");
  }
  torch::Tensor state =
      torch::empty({static_cast<std::int64_t>(bytes->size())}, torch::kUInt8);
  std::memcpy(state.mutable_data_ptr(), bytes->data(), bytes->size());
  generator.set_state(state);
}

at::Generator GpuGenerator(torch::Device device) {
  return at::globalContext().defaultGenerator(device);
}

}  // namespace

void SeedRandom(std::uint64_t seed, torch::Device device) {
  at::Generator cpu = at::detail::getDefaultCPUGenerator();
  {
    const std::lock_guard lock(cpu.mutex());
    cpu.set_current_seed(seed);
  }
  if (!device.is_cuda()) return;
  at::Generator gpu = GpuGenerator(device);
  const std::lock_guard lock(gpu.mutex());
  gpu.set_current_seed(seed);
}

nlohmann::json SaveRandomState(torch::Device device) {
  nlohmann::json state = {{"cpu", Save(at::detail::getDefaultCPUGenerator())}};
  if (device.is_cuda()) state["cuda"] = Save(GpuGenerator(device));
  return state;
}

void LoadRandomState(const nlohmann::json& state, torch::Device device) {
  Load(at::detail::getDefaultCPUGenerator(), state.at("cpu"));
  // A trial may resume on a machine without a GPU, and vice versa.
  if (device.is_cuda() && state.contains("cuda")) {
    Load(GpuGenerator(device), state["cuda"]);
  }
}

}  // namespace dtrain
