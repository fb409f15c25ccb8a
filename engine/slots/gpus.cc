// Looks for GPUs in a child process by NVML, or by CUDA where there is no NVML.
// A broken driver must not look like a machine without GPUs: the experiment
// would train on its CPUs for days. So every error of the driver becomes a
// problem or a warning, except those of a machine that has no NVIDIA GPU.
//
// The driver runs in a child because it may crash or hang, and because CUDA,
// once initialized, does not survive a later fork of this process. The child
// opens both libraries by dlopen: NVML tells free memory, MIG instances and
// compute modes without creating a context, and CUDA tells whether it starts
// and whether it is new enough for dtrain's LibTorch. The answer is one line of
// JSON.
//
// CUDA_VISIBLE_DEVICES is removed in the child and applied here afterwards, so
// that a wrong name in it is an error instead of a machine without GPUs.

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "engine/base/text.h"
#include "engine/os/spawn.h"
#include "engine/slots/shared_slots.h"
#include "engine/slots/slots.h"

namespace dtrain {
namespace {

using nlohmann::json;

json ToJson(const Gpu& gpu) {
  return {{"index", gpu.index},
          {"uuid", gpu.uuid},
          {"name", gpu.name},
          {"memory", gpu.memory_bytes},
          {"free", gpu.free_bytes},
          {"driver", gpu.driver},
          {"exclusive", gpu.exclusive},
          {"parent", gpu.parent},
          {"parent_uuid", gpu.parent_uuid}};
}

std::string DriversAnswerAsJson() {
  const GpuSearch search = AskNvidiaDriver();
  json gpus = json::array();
  for (const Gpu& gpu : search.gpus) gpus.push_back(ToJson(gpu));
  return json{{"gpus", gpus},
              {"problem", search.problem},
              {"model_problem", search.model_problem},
              {"warnings", search.warnings}}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

GpuSearch Problem(std::string text) { return {.problem = std::move(text)}; }

GpuSearch SearchFromJson(const std::string& text) {
  try {
    const json answer = json::parse(text);
    GpuSearch search{.problem = answer.at("problem"),
                     .model_problem = answer.at("model_problem"),
                     .warnings = answer.at("warnings")};
    for (const json& gpu : answer.at("gpus")) {
      search.gpus.push_back({.index = gpu.at("index"),
                             .uuid = gpu.at("uuid"),
                             .name = gpu.at("name"),
                             .memory_bytes = gpu.at("memory"),
                             .free_bytes = gpu.at("free"),
                             .driver = gpu.at("driver"),
                             .exclusive = gpu.at("exclusive"),
                             .parent = gpu.at("parent"),
                             .parent_uuid = gpu.at("parent_uuid")});
    }
    return search;
  } catch (const json::exception&) {
    return Problem(
        "the process that looks for GPUs gave a malformed answer; this is a "
        "bug of dtrain: please report it");
  }
}

}  // namespace

std::string ToString(const Gpu& gpu) {
  const std::string id = gpu.uuid.empty() ? "" : " (" + gpu.uuid + ")";
  return "GPU " + std::to_string(gpu.index) + id;
}

GpuSearch ForModels(GpuSearch search) {
  if (search.model_problem.empty()) return search;
  return Problem(std::move(search.model_problem));
}

GpuSearch FindGpus(Duration limit) {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const ChildAnswer answer = CallInChild(DriversAnswerAsJson, limit);
  if (answer.end == ChildAnswer::End::kCrashed) {
    return Problem(
        "NVIDIA's driver crashed when asked for its GPUs; see what nvidia-smi "
        "prints");
  }
  if (answer.end == ChildAnswer::End::kUnknown) {
    return Problem(
        "how the process that asked NVIDIA's driver for its GPUs ended is "
        "unknown; try again");
  }
  if (answer.end == ChildAnswer::End::kTooLate) {
    return Problem("NVIDIA's driver did not answer within " +
                   FormatDuration(limit) + "; see what nvidia-smi prints");
  }
  GpuSearch search = SearchFromJson(answer.text);
  return visible == nullptr ? search : VisibleGpus(std::move(search), visible);
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
struct NvmlRates {
  unsigned gpu;
  unsigned memory;
};
struct NvmlProcess {
  unsigned pid;
  unsigned long long memory;
  unsigned gpu_instance;
  unsigned compute_instance;
};
struct CudaUuid {
  unsigned char bytes[16];
};
using NameBuffer = std::array<char, 128>;

constexpr int kSuccess = 0;
constexpr int kNoSuchFunction = -1;
// Results of NVML.
constexpr int kNoPermission = 4;  // a GPU that a container or cgroup hides
constexpr int kDriverNotLoaded = 9;
// Results of CUDA.
constexpr int kStubLibrary = 34;  // for linking only, from a toolkit
constexpr int kNoDevice = 100;
constexpr int kGpuTemperature = 0;  // a sensor of NVML
// Compute modes of NVML.
constexpr int kExclusiveThread = 1;
constexpr int kProhibited = 2;
constexpr int kExclusiveProcess = 3;

// LibTorch is built for this CUDA, which needs this driver or a newer one.
constexpr int kCudaMajor = 13;
constexpr const char* kMinDriver = "580";

class Library {
 public:
  explicit Library(const char* path)
      : handle_(::dlopen(path, RTLD_NOW | RTLD_LOCAL)) {}
  explicit Library(void* handle) : handle_(handle) {}

  void* handle() const { return handle_; }
  explicit operator bool() const { return handle_ != nullptr; }

  // Returns the function's result, or kNoSuchFunction.
  template <typename... Arguments>
  int Call(const char* name, Arguments... arguments) const {
    const auto function = reinterpret_cast<int (*)(Arguments...)>(Find(name));
    return function == nullptr ? kNoSuchFunction : function(arguments...);
  }
  template <typename... Arguments>
  bool Succeeds(const char* name, Arguments... arguments) const {
    return Call(name, arguments...) == kSuccess;
  }
  void* Find(const char* name) const {
    return handle_ == nullptr ? nullptr : ::dlsym(handle_, name);
  }

 private:
  void* handle_;  // stays open: NVIDIA's libraries are not made to be closed
};

std::string NvmlText(const Library& nvml, int result) {
  const auto text =
      reinterpret_cast<const char* (*)(int)>(nvml.Find("nvmlErrorString"));
  const std::string number = "NVML error " + std::to_string(result);
  return text == nullptr ? number : text(result) + (" (" + number + ")");
}

std::string CudaText(const Library& cuda, int result) {
  const char* text = nullptr;
  const std::string number = "CUDA error " + std::to_string(result);
  if (!cuda.Succeeds("cuGetErrorString", result, &text) || text == nullptr) {
    return number;
  }
  return text + (" (" + number + ")");
}

int Describe(const Library& nvml, NvmlDevice device, Gpu& gpu) {
  NameBuffer uuid{};
  NameBuffer name{};
  NvmlMemory memory{};
  int result = nvml.Call("nvmlDeviceGetUUID", device, uuid.data(),
                         static_cast<unsigned>(uuid.size()));
  if (result == kSuccess) {
    result = nvml.Call("nvmlDeviceGetName", device, name.data(),
                       static_cast<unsigned>(name.size()));
  }
  if (result == kSuccess) {
    result = nvml.Call("nvmlDeviceGetMemoryInfo", device, &memory);
  }
  gpu.uuid = uuid.data();
  gpu.name = name.data();
  gpu.memory_bytes = static_cast<std::int64_t>(memory.total);
  gpu.free_bytes = static_cast<std::int64_t>(memory.free);
  return result;
}

// Asks NVML for the GPUs of a machine and adds them to a search.
class NvmlSearch {
 public:
  NvmlSearch(const Library& nvml, GpuSearch& search)
      : nvml_(nvml), search_(search) {}

  // REQUIRES: nvmlInit succeeded.
  void Run() {
    unsigned count = 0;
    NameBuffer driver{};
    const int result = nvml_.Call("nvmlDeviceGetCount_v2", &count);
    if (result != kSuccess) {
      search_.problem =
          "NVIDIA's driver does not list its GPUs: " + NvmlText(nvml_, result) +
          "; see what nvidia-smi prints";
      return;
    }
    nvml_.Call("nvmlSystemGetDriverVersion", driver.data(),
               static_cast<unsigned>(driver.size()));
    driver_ = driver.data();
    for (unsigned index = 0; index < count; ++index) AddGpu(index);
    std::int64_t number = count;
    for (Gpu& instance : instances_) {
      instance.index = number++;
      search_.gpus.push_back(std::move(instance));
    }
  }
  const std::string& driver() const { return driver_; }

 private:
  void AddGpu(unsigned index) {
    NvmlDevice device = nullptr;
    Gpu gpu{.index = index, .driver = driver_};
    int result = nvml_.Call("nvmlDeviceGetHandleByIndex_v2", index, &device);
    if (result == kNoPermission) return;
    if (result == kSuccess) result = Describe(nvml_, device, gpu);
    if (result != kSuccess) {
      return Warn(gpu, "does not answer: " + NvmlText(nvml_, result) +
                           "; reset it (nvidia-smi -r) or restart the machine");
    }
    int mode = 0;
    if (nvml_.Succeeds("nvmlDeviceGetComputeMode", device, &mode)) {
      if (mode == kProhibited) {
        return Warn(gpu,
                    "is in compute mode 'prohibited'; `nvidia-smi -c 0` "
                    "permits computing");
      }
      gpu.exclusive = mode == kExclusiveProcess || mode == kExclusiveThread;
    }
    unsigned mig = 0;
    unsigned pending = 0;
    if (nvml_.Succeeds("nvmlDeviceGetMigMode", device, &mig, &pending) &&
        mig == 1) {
      return AddInstances(gpu, device);
    }
    WarnOfOthers(gpu, device);
    search_.gpus.push_back(std::move(gpu));
  }

  // Users who cannot see each other's slots should at least know that a GPU is
  // in use.
  void WarnOfOthers(const Gpu& gpu, NvmlDevice device) {
    if (sees_slots_) return;
    std::array<NvmlProcess, 64> processes{};
    auto count = static_cast<unsigned>(processes.size());
    if (!nvml_.Succeeds("nvmlDeviceGetComputeRunningProcesses_v3", device,
                        &count, processes.data())) {
      return;
    }
    for (const NvmlProcess& process :
         std::span(processes).first(std::min<std::size_t>(count, 64))) {
      struct stat status {};
      const std::string directory = "/proc/" + std::to_string(process.pid);
      if (::stat(directory.c_str(), &status) != 0 ||
          status.st_uid == ::geteuid()) {
        continue;
      }
      return Warn(gpu, "is used by a process of " + UserText(status.st_uid) +
                           " (NVML), and " + SharedSlots::Path() +
                           ", which would show the slots of other users, "
                           "cannot be used; choose other GPUs (--slots)");
    }
  }

  void AddInstances(const Gpu& gpu, NvmlDevice device) {
    unsigned count = 0;
    nvml_.Call("nvmlDeviceGetMaxMigDeviceCount", device, &count);
    const std::size_t before = instances_.size();
    for (unsigned number = 0; number < count; ++number) {
      NvmlDevice part = nullptr;
      Gpu instance = gpu;
      instance.parent = gpu.index;
      instance.parent_uuid = gpu.uuid;
      const bool exists = nvml_.Succeeds("nvmlDeviceGetMigDeviceHandleByIndex",
                                         device, number, &part);
      if (exists && Describe(nvml_, part, instance) == kSuccess) {
        instances_.push_back(std::move(instance));
      }
    }
    if (instances_.size() > before) return;
    Warn(gpu,
         "is in MIG mode and has no instance; create one (nvidia-smi mig -cgi "
         "PROFILE -C) or leave the mode (nvidia-smi -mig 0)");
  }

  void Warn(const Gpu& gpu, const std::string& what) {
    search_.warnings.push_back(ToString(gpu) + " " + what);
  }

  const Library& nvml_;
  GpuSearch& search_;
  const bool sees_slots_ =
      SharedSlots::Path().empty() || SharedSlots::Open().usable();
  std::string driver_;
  std::vector<Gpu> instances_;  // of MIG
};

// For machines without NVML, such as Jetson boards. Free memory would need a
// CUDA context, and CUDA has no text for the driver's version.
void AddGpusOfCuda(const Library& cuda, std::vector<Gpu>& gpus) {
  int count = 0;
  cuda.Call("cuDeviceGetCount", &count);
  for (int index = 0; index < count; ++index) {
    int device = 0;
    NameBuffer name{};
    std::size_t bytes = 0;
    CudaUuid uuid{};
    if (!cuda.Succeeds("cuDeviceGet", &device, index) ||
        !cuda.Succeeds("cuDeviceGetName", name.data(),
                       static_cast<int>(name.size()), device) ||
        !cuda.Succeeds("cuDeviceTotalMem_v2", &bytes, device) ||
        !cuda.Succeeds("cuDeviceGetUuid", &uuid, device)) {
      continue;
    }
    const auto memory = static_cast<std::int64_t>(bytes);
    std::string name_of_uuid = ToHex(std::as_bytes(std::span(uuid.bytes)));
    for (const std::size_t at : {20, 16, 12, 8})
      name_of_uuid.insert(at, 1, '-');
    gpus.push_back({.index = index,
                    .uuid = "GPU-" + name_of_uuid,
                    .name = name.data(),
                    .memory_bytes = memory,
                    .free_bytes = memory});
  }
}

// Opens CUDA, which then numbers GPUs as NVML does.
Library OpenCuda(const DriverPaths& paths) {
  ::setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", /*replace=*/1);
  return Library(paths.cuda);
}

// Returns why nothing can use CUDA, or empty. `result` is that of cuInit.
std::string CudaFailure(const Library& cuda, int result) {
  if (result == kSuccess) return "";
  return "NVIDIA's driver cannot be used: " + CudaText(cuda, result) +
         "; see what nvidia-smi prints";
}

// Returns why dtrain's LibTorch cannot use CUDA, or empty. `driver` is its
// version, if known.
std::string ModelFailure(const Library& cuda, const std::string& driver) {
  int version = 0;
  if (!cuda.Succeeds("cuDriverGetVersion", &version) ||
      version >= kCudaMajor * 1000) {
    return "";
  }
  return "NVIDIA's driver " + (driver.empty() ? "" : driver + " ") +
         "is too old for built-in models and model_def.cpp: it supports CUDA " +
         std::to_string(version / 1000) + "." +
         std::to_string(version % 1000 / 10) +
         ", and dtrain's LibTorch needs CUDA " + std::to_string(kCudaMajor) +
         ", which comes with driver " + kMinDriver +
         "; install that or a newer one";
}

// True if there is a display or 3D controller made by NVIDIA.
bool HasNvidiaGpu(const char* pci) {
  const auto starts = [](const std::filesystem::path& file, const char* text) {
    std::string line;
    std::ifstream in(file);
    return std::getline(in, line) && line.starts_with(text);
  };
  std::error_code error;
  for (const auto& device : std::filesystem::directory_iterator(pci, error)) {
    if (starts(device.path() / "vendor", "0x10de") &&
        starts(device.path() / "class", "0x03")) {
      return true;
    }
  }
  return false;
}

GpuSearch AskByCuda(const Library& cuda, const DriverPaths& paths) {
  const int result = cuda.Call("cuInit", 0U);
  if (result == kStubLibrary ||
      (result == kNoDevice && !HasNvidiaGpu(paths.pci))) {
    return {};
  }
  if (std::string why = CudaFailure(cuda, result); !why.empty()) {
    return Problem(std::move(why));
  }
  GpuSearch search{.model_problem = ModelFailure(cuda, "")};
  AddGpusOfCuda(cuda, search.gpus);
  return search;
}

}  // namespace

GpuSearch AskNvidiaDriver(const DriverPaths& paths) {
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  const Library nvml(paths.nvml);
  const Library cuda = OpenCuda(paths);
  if (!nvml) return cuda ? AskByCuda(cuda, paths) : GpuSearch{};
  const int result = nvml.Call("nvmlInit_v2");
  if (result == kDriverNotLoaded && !HasNvidiaGpu(paths.pci)) return {};
  if (result != kSuccess) {
    return Problem("NVIDIA's driver does not answer: " +
                   NvmlText(nvml, result) + "; see what nvidia-smi prints");
  }
  GpuSearch search;
  NvmlSearch nvml_search(nvml, search);
  nvml_search.Run();
  nvml.Call("nvmlShutdown");
  if (search.gpus.empty()) {
    if (search.problem.empty()) search.problem = Join(search.warnings, "; ");
    return search;
  }
  std::string why =
      cuda ? CudaFailure(cuda, cuda.Call("cuInit", 0U))
           : "there is an NVIDIA driver but no libcuda.so.1; in a container, "
             "ask for the capability 'compute'";
  if (!why.empty()) return Problem(std::move(why));
  search.model_problem = ModelFailure(cuda, nvml_search.driver());
  return search;
}

GpuSensors::GpuSensors(const DriverPaths& paths) {
  const Library nvml(paths.nvml);
  if (nvml.Succeeds("nvmlInit_v2")) nvml_ = nvml.handle();
}

GpuSample GpuSensors::Read(std::int64_t gpu, const std::string& uuid) {
  GpuSample sample{.gpu = gpu};
  if (nvml_ == nullptr) return sample;
  const Library nvml(nvml_);
  const auto [found, added] = devices_.emplace(gpu, nullptr);
  NvmlDevice& device = found->second;
  if (added && uuid.empty()) {
    nvml.Call("nvmlDeviceGetHandleByIndex_v2", static_cast<unsigned>(gpu),
              &device);
  } else if (added) {
    nvml.Call("nvmlDeviceGetHandleByUUID", uuid.c_str(), &device);
  }
  if (device == nullptr) return sample;
  NvmlRates rates{};
  NvmlMemory memory{};
  unsigned milliwatts = 0;
  unsigned celsius = 0;
  if (nvml.Succeeds("nvmlDeviceGetUtilizationRates", device, &rates) &&
      rates.gpu <= 100) {
    sample.percent = rates.gpu;
  }
  if (nvml.Succeeds("nvmlDeviceGetMemoryInfo", device, &memory)) {
    sample.memory_bytes = static_cast<std::int64_t>(memory.used);
  }
  if (nvml.Succeeds("nvmlDeviceGetPowerUsage", device, &milliwatts)) {
    sample.watts = milliwatts / 1e3;
  }
  if (nvml.Succeeds("nvmlDeviceGetTemperature", device, kGpuTemperature,
                    &celsius)) {
    sample.celsius = celsius;
  }
  return sample;
}

std::string GpuFailure(const Gpu& gpu, const DriverPaths& paths) {
  const std::string name =
      gpu.uuid.empty() ? std::to_string(gpu.index) : gpu.uuid;
  ::setenv("CUDA_VISIBLE_DEVICES", name.c_str(), /*replace=*/1);
  const Library cuda = OpenCuda(paths);
  int device = 0;
  void* context = nullptr;
  int result = cuda.Call("cuInit", 0U);
  if (result == kSuccess) result = cuda.Call("cuDeviceGet", &device, 0);
  if (result == kSuccess) {
    result = cuda.Call("cuDevicePrimaryCtxRetain", &context, device);
  }
  return result == kSuccess ? "" : CudaText(cuda, result);
}

namespace {

// Returns the GPUs that a word of CUDA_VISIBLE_DEVICES names. For the name of a
// GPU in MIG mode these are its instances.
std::vector<const Gpu*> GpusNamed(const std::vector<Gpu>& all,
                                  std::string_view word) {
  std::int64_t number = -1;
  const char* end = word.data() + word.size();
  const bool is_number = std::from_chars(word.data(), end, number).ptr == end;
  std::vector<const Gpu*> named;
  for (const Gpu& gpu : all) {
    // A number names a whole GPU, for one in MIG mode its instances.
    const bool is_part = gpu.parent >= 0;
    const bool is_it = is_number
                           ? (is_part ? gpu.parent : gpu.index) == number
                           : gpu.uuid.starts_with(word) ||
                                 (is_part && gpu.parent_uuid.starts_with(word));
    if (is_it && !word.empty()) named.push_back(&gpu);
  }
  return named;
}

}  // namespace

GpuSearch VisibleGpus(GpuSearch all, std::string_view cuda_visible_devices) {
  if (all.gpus.empty()) return all;
  GpuSearch visible{.warnings = std::move(all.warnings)};
  if (Trim(cuda_visible_devices).empty()) return visible;
  for (const std::string& part : Split(cuda_visible_devices, ',')) {
    const std::string_view word = Trim(part);
    // Such a word hides all GPUs that follow it.
    if (word.starts_with('-') || word == "NoDevFiles") break;
    const auto named = GpusNamed(all.gpus, word);
    const bool is_unique =
        named.size() == 1 ||
        (!named.empty() && !word.starts_with("MIG-") &&
         std::ranges::all_of(named, [&named](const Gpu* gpu) {
           return gpu->parent >= 0 && gpu->parent == named.front()->parent;
         }));
    if (!is_unique) {
      std::vector<std::string> names;
      for (const Gpu& gpu : all.gpus) {
        names.push_back(std::to_string(gpu.index) + " (" + gpu.uuid + ")");
      }
      return Problem("CUDA_VISIBLE_DEVICES: '" + std::string(word) +
                     "' names " + (named.empty() ? "no GPU" : "several GPUs") +
                     " of this machine, which has " + Join(names, ", ") +
                     "; correct the variable or unset it");
    }
    const auto is_same = [&named](const Gpu& gpu) {
      return gpu.index == named.front()->index;
    };
    if (std::ranges::none_of(visible.gpus, is_same)) {
      visible.gpus.push_back(*named.front());
    }
  }
  if (!visible.gpus.empty())
    visible.model_problem = std::move(all.model_problem);
  return visible;
}

}  // namespace dtrain
