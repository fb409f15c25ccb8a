#include "engine/slots/gpus.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>

#include <dlfcn.h>

#include <nlohmann/json.hpp>

#include "engine/base/text.h"
#include "engine/os/spawn.h"

namespace dtrain {
namespace {

using nlohmann::json;

json ToJson(const Gpu& gpu) {
  return {{"index", gpu.index},     {"uuid", gpu.uuid},
          {"name", gpu.name},       {"memory", gpu.memory_bytes},
          {"free", gpu.free_bytes}, {"driver", gpu.driver}};
}

Gpu GpuFromJson(const json& object) {
  return {.index = object.at("index"),
          .uuid = object.at("uuid"),
          .name = object.at("name"),
          .memory_bytes = object.at("memory"),
          .free_bytes = object.at("free"),
          .driver = object.at("driver")};
}

std::string NvidiaReportAsJson() {
  const NvidiaReport report = AskNvidiaDriver();
  json gpus = json::array();
  for (const Gpu& gpu : report.gpus) gpus.push_back(ToJson(gpu));
  return json{{"gpus", gpus}, {"problem", report.problem}}.dump(
      -1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

std::vector<Gpu> FindGpus(Duration limit, std::string* problem) {
  const ChildAnswer answer = CallInChild(NvidiaReportAsJson, limit);
  if (answer.end == ChildAnswer::End::kCrashed) {
    *problem = "the process that looks for GPUs crashed; no GPU is used";
    return {};
  }
  if (answer.end == ChildAnswer::End::kTooLate) {
    *problem = "looking for GPUs took longer than " + FormatDuration(limit) +
               "; no GPU is used";
    return {};
  }
  const json report =
      json::parse(answer.text, nullptr, /*allow_exceptions=*/false);
  if (!report.is_object()) return {};
  std::vector<Gpu> gpus;
  try {
    for (const json& gpu : report.at("gpus")) gpus.push_back(GpuFromJson(gpu));
    *problem = report.at("problem").get<std::string>();
  } catch (const json::exception&) {
    *problem = "the answer about GPUs is malformed; no GPU is used";
    return {};
  }
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible == nullptr ? gpus : VisibleGpus(gpus, visible);
}

namespace {

// The driver's headers come with toolkits that many machines lack; these few
// declarations have been stable for ten years.
using NvmlDevice = void*;
struct NvmlMemory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};
struct CudaUuid {
  unsigned char bytes[16];
};
using NameBuffer = std::array<char, 128>;

template <typename Function>
Function Find(void* library, const char* name) {
  return reinterpret_cast<Function>(::dlsym(library, name));
}

// Calls the function of that name; a missing function counts as a failure.
template <typename... Arguments>
bool Call(void* library, const char* name, Arguments... arguments) {
  const auto function = Find<int (*)(Arguments...)>(library, name);
  return function != nullptr && function(arguments...) == 0;
}

bool DescribeByNvml(void* nvml, unsigned index, Gpu& gpu) {
  NvmlDevice device = nullptr;
  NameBuffer uuid{};
  NameBuffer name{};
  NvmlMemory memory{};
  const bool told =
      Call(nvml, "nvmlDeviceGetHandleByIndex_v2", index, &device) &&
      Call(nvml, "nvmlDeviceGetUUID", device, uuid.data(),
           static_cast<unsigned>(uuid.size())) &&
      Call(nvml, "nvmlDeviceGetName", device, name.data(),
           static_cast<unsigned>(name.size())) &&
      Call(nvml, "nvmlDeviceGetMemoryInfo", device, &memory);
  gpu = {.index = index,
         .uuid = uuid.data(),
         .name = name.data(),
         .memory_bytes = static_cast<std::int64_t>(memory.total),
         .free_bytes = static_cast<std::int64_t>(memory.free)};
  return told;
}

// False if NVML does not work here; GPUs that do not answer are skipped.
bool AskNvml(void* nvml, std::vector<Gpu>& gpus) {
  unsigned count = 0;
  NameBuffer driver{};
  if (!Call(nvml, "nvmlInit_v2") ||
      !Call(nvml, "nvmlDeviceGetCount_v2", &count)) {
    return false;
  }
  Call(nvml, "nvmlSystemGetDriverVersion", driver.data(),
       static_cast<unsigned>(driver.size()));
  for (unsigned index = 0; index < count; ++index) {
    Gpu gpu;
    if (!DescribeByNvml(nvml, index, gpu)) continue;
    gpu.driver = driver.data();
    gpus.push_back(std::move(gpu));
  }
  Call(nvml, "nvmlShutdown");
  return true;
}

std::string UuidText(const CudaUuid& uuid) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    std::array<char, 3> hex{};
    std::snprintf(hex.data(), hex.size(), "%02x", uuid.bytes[i]);
    text += hex.data();
  }
  return text;
}

// For machines without NVML, such as Jetson boards. Free memory would need a
// CUDA context, and CUDA has no text for the driver's version.
bool AskCuda(void* cuda, std::vector<Gpu>& gpus) {
  ::setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", /*replace=*/1);
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  int count = 0;
  if (!Call(cuda, "cuInit", 0U) || !Call(cuda, "cuDeviceGetCount", &count)) {
    return false;
  }
  for (int index = 0; index < count; ++index) {
    int device = 0;
    NameBuffer name{};
    std::size_t bytes = 0;
    CudaUuid uuid{};
    if (!Call(cuda, "cuDeviceGet", &device, index) ||
        !Call(cuda, "cuDeviceGetName", name.data(),
              static_cast<int>(name.size()), device) ||
        !Call(cuda, "cuDeviceTotalMem_v2", &bytes, device) ||
        !Call(cuda, "cuDeviceGetUuid", &uuid, device)) {
      continue;
    }
    const auto memory = static_cast<std::int64_t>(bytes);
    gpus.push_back({.index = index,
                    .uuid = UuidText(uuid),
                    .name = name.data(),
                    .memory_bytes = memory,
                    .free_bytes = memory});
  }
  return true;
}

const Gpu* FindVisible(const std::vector<Gpu>& all, std::string_view word) {
  std::int64_t index = -1;
  const char* end = word.data() + word.size();
  const bool number = std::from_chars(word.data(), end, index).ptr == end;
  const auto found = std::find_if(all.begin(), all.end(), [&](const Gpu& gpu) {
    if (word.empty()) return false;
    return number ? gpu.index == index : gpu.uuid.starts_with(word);
  });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace

NvidiaReport AskNvidiaDriver() {
  NvidiaReport report;
  void* nvml = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  void* cuda = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (nvml == nullptr && cuda == nullptr) return report;
  if (cuda == nullptr) {
    report.problem =
        "there is an NVIDIA driver but no libcuda.so.1, so no GPU is used; in "
        "a container, ask for the capability 'compute'";
    return report;
  }
  const bool asked = (nvml != nullptr && AskNvml(nvml, report.gpus)) ||
                     AskCuda(cuda, report.gpus);
  if (!asked) {
    report.problem =
        "the NVIDIA driver does not answer, so no GPU is used; see what "
        "nvidia-smi says";
  }
  return report;
}

std::vector<Gpu> VisibleGpus(const std::vector<Gpu>& all,
                             std::string_view cuda_visible_devices) {
  std::vector<Gpu> visible;
  for (const std::string& word : Split(cuda_visible_devices, ',')) {
    const Gpu* gpu = FindVisible(all, word);
    if (gpu == nullptr) break;
    visible.push_back(*gpu);
  }
  return visible;
}

}  // namespace dtrain
