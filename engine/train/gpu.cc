// Memory and use of a GPU by NVML, the driver's library. It is opened at run
// time, because machines without a GPU lack it, and so each function is looked
// up and may be missing; then the value is unknown, which is no error.
//
// A process with a share of a GPU must not use more than it in all. LibTorch
// limits only what its allocator reserves. What the CUDA context takes is
// therefore measured after it was created, and with a reserve for kernels that
// are loaded later (kLoadedLater) subtracted from the share.

#include "engine/train/gpu.h"

#include <algorithm>
#include <array>
#include <charconv>

#include <dlfcn.h>
#include <unistd.h>

#include "engine/base/text.h"

namespace dtrain {

std::string OutOfMemoryMessage(const GpuMemory& memory) {
  const std::int64_t others =
      std::max<std::int64_t>(memory.total - memory.free - memory.reserved, 0);
  std::string message = "the GPU is out of memory: of " +
                        FormatBytes(memory.total) + ", this trial has " +
                        FormatBytes(memory.reserved) + " (tensors " +
                        FormatBytes(memory.allocated) + ")";
  if (memory.limit > 0) {
    message += " of the " + FormatBytes(memory.limit) + " of its share";
  }
  message += ", other processes and the driver " + FormatBytes(others) +
             ", and " + FormatBytes(memory.free) + " are free; ";
  const bool is_crowded = others > memory.reserved && memory.limit == 0;
  if (is_crowded) message += "`nvidia-smi` shows what uses the rest, or ";
  return message +
         "lower global_batch_size (aggregation_frequency makes up for it), set "
         "optimizations.mixed_precision to bf16 or optimizations.cuda_graphs "
         "to "
         "false, or take a smaller model";
}

namespace {

// Update interval of the driver's counter.
constexpr Duration kPeriod = std::chrono::seconds(1);

template <typename Function>
Function Find(void* library, const char* name) {
  return reinterpret_cast<Function>(::dlsym(library, name));
}

// Returns the initialised library, or null.
void* OpenNvml(const char* library) {
  void* nvml = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (nvml == nullptr) return nullptr;
  const auto begin = Find<int (*)()>(nvml, "nvmlInit_v2");
  return begin != nullptr && begin() == 0 ? nvml : nullptr;
}

// Returns the driver's handle of the GPU called `name`, or null.
void* FindGpu(void* nvml, const std::string& name) {
  const auto by_uuid =
      Find<int (*)(const char*, void**)>(nvml, "nvmlDeviceGetHandleByUUID");
  const auto by_index =
      Find<int (*)(unsigned, void**)>(nvml, "nvmlDeviceGetHandleByIndex_v2");
  if (by_uuid == nullptr || by_index == nullptr) return nullptr;
  unsigned index = 0;
  const char* end = name.data() + name.size();
  const auto [parsed, error] = std::from_chars(name.data(), end, index);
  const bool is_index = error == std::errc() && parsed == end;
  void* device = nullptr;
  const int failed =
      is_index ? by_index(index, &device) : by_uuid(name.c_str(), &device);
  return failed == 0 ? device : nullptr;
}

}  // namespace

GpuMeter::GpuMeter(const std::string& visible, const char* library) {
  void* nvml = OpenNvml(library);
  if (nvml == nullptr) return;
  device_ = FindGpu(nvml, visible.substr(0, visible.find(',')));
  if (device_ == nullptr) return;
  ask_ = Find<decltype(ask_)>(nvml, "nvmlDeviceGetUtilizationRates");
}

std::optional<std::int64_t> GpuMeter::Percent(Duration now) {
  if (ask_ == nullptr || (last_read_ && now - *last_read_ < kPeriod))
    return std::nullopt;
  last_read_ = now;
  Rates rates{};
  if (ask_(device_, &rates) != 0 || rates.gpu > 100) return std::nullopt;
  return rates.gpu;
}

namespace {

// Declarations of NVML, stable since version 11.
struct NvmlMemory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};
struct NvmlProcess {
  unsigned pid;
  unsigned long long used;  // all ones: unknown
  unsigned gpu_instance;
  unsigned compute_instance;
};

// A context of LibTorch on recent GPUs has 300 to 600 MB. A larger difference
// contains memory that a neighbor has taken in the meantime.
constexpr std::int64_t kUsualContext = std::int64_t{512} << 20;
constexpr std::int64_t kMaxContext = std::int64_t{1} << 30;
// CUDA loads kernels when they are first used, after the measurement.
constexpr std::int64_t kLoadedLater = std::int64_t{128} << 20;

std::int64_t UsedMemory(void* nvml, void* device) {
  const auto ask =
      Find<int (*)(void*, NvmlMemory*)>(nvml, "nvmlDeviceGetMemoryInfo");
  NvmlMemory memory{};
  if (ask == nullptr || ask(device, &memory) != 0) return 0;
  return static_cast<std::int64_t>(memory.used);
}

// Returns the memory of this process; empty if NVML does not list it, as in a
// container with process numbers of its own.
std::optional<std::int64_t> OwnMemory(void* nvml, void* device) {
  const auto ask = Find<int (*)(void*, unsigned*, NvmlProcess*)>(
      nvml, "nvmlDeviceGetComputeRunningProcesses_v3");
  std::array<NvmlProcess, 256> processes{};
  unsigned count = processes.size();
  if (ask == nullptr || ask(device, &count, processes.data()) != 0) {
    return std::nullopt;
  }
  for (unsigned i = 0; i < count && i < processes.size(); ++i) {
    const bool is_known = processes[i].used != ~0ULL;
    if (processes[i].pid == static_cast<unsigned>(::getpid()) && is_known) {
      return static_cast<std::int64_t>(processes[i].used);
    }
  }
  return std::nullopt;
}

}  // namespace

ContextMeter::ContextMeter(const std::string& visible, const char* library)
    : nvml_(OpenNvml(library)) {
  if (nvml_ == nullptr) return;
  device_ = FindGpu(nvml_, visible.substr(0, visible.find(',')));
  if (device_ != nullptr) used_before_ = UsedMemory(nvml_, device_);
}

std::int64_t ContextMeter::Bytes() const {
  if (device_ == nullptr) return kUsualContext;
  if (const auto own = OwnMemory(nvml_, device_)) return *own;
  const std::int64_t more = UsedMemory(nvml_, device_) - used_before_;
  if (more <= 0) return kUsualContext;
  return std::min(more, kMaxContext);
}

std::int64_t LimitOfShare(double share, std::int64_t total,
                          std::int64_t context) {
  const auto whole =
      static_cast<std::int64_t>(static_cast<double>(total) * share);
  return std::max<std::int64_t>(whole - context - kLoadedLater, 0);
}

}  // namespace dtrain
