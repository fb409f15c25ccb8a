#include "engine/train/gpu.h"

#include <algorithm>
#include <charconv>

#include <dlfcn.h>

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
  void* nvml = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (nvml == nullptr) return;
  const auto begin = Find<int (*)()>(nvml, "nvmlInit_v2");
  if (begin == nullptr || begin() != 0) return;
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

}  // namespace dtrain
