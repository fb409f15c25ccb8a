#include "engine/train/gpu_meter.h"

#include <charconv>

#include <dlfcn.h>

namespace dtrain {
namespace {

// The driver looks at most that often.
constexpr Duration kPeriod = std::chrono::seconds(1);

template <typename Function>
Function Find(void* library, const char* name) {
  return reinterpret_cast<Function>(::dlsym(library, name));
}

// Gives the driver's handle of the GPU called `name`, or null.
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
  if (ask_ == nullptr || (told_ && now - *told_ < kPeriod)) return std::nullopt;
  told_ = now;
  Rates rates{};
  if (ask_(device_, &rates) != 0 || rates.gpu > 100) return std::nullopt;
  return rates.gpu;
}

}  // namespace dtrain
