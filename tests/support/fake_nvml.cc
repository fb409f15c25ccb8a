// Fake of NVIDIA's driver libraries (NVML and CUDA in one) for a machine with
// two GPUs: 0, "GPU-a", with 37% utilization at 61 degrees, and 1, "GPU-b",
// whose utilization, power and temperature are unknown. Words in the variable
// FAKE_DRIVER, separated by blanks, change it:
//
//   init=N, count=N, cuinit=N   these calls fail with result N
//   driver=N                    its version (580), and so the CUDA that it
//                               supports: 470, 535 and 580 are known
//   cuda=N                      the CUDA version that the driver supports
//   crash, hang                 nvmlInit does this
//   lost=I, hidden=I            GPU I does not answer, or is not permitted
//   mig=I:N                     GPU I is in MIG mode with N instances
//   mode=I:M                    compute mode M of GPU I
//   context=N                   a context on GPU 0 fails with result N
//   used=N                      N bytes of each GPU are used (100)
//   own=N                       this process has N bytes on each GPU
//   pid=N                       process N uses each GPU, not process 1
//   power=N                     GPU 0 draws N mW (250500)
//   sensors_crash, sensors_hang reading the utilization does this

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <string>

#include <unistd.h>

#include "engine/base/api.h"

namespace {

struct Device {
  int gpu = 0;
  int instance = -1;  // of MIG
};

Device gpus[2] = {{0}, {1}};
Device instances[2][7];

// Returns the text after `key=` in FAKE_DRIVER; for a key alone, "".
std::optional<std::string> Setting(const std::string& key) {
  const char* variable = std::getenv("FAKE_DRIVER");
  std::istringstream words(variable == nullptr ? "" : variable);
  for (std::string word; words >> word;) {
    if (word == key) return "";
    if (word.starts_with(key + "=")) return word.substr(key.size() + 1);
  }
  return std::nullopt;
}

int Number(const std::string& key, int otherwise) {
  const auto text = Setting(key);
  return text ? std::stoi(*text) : otherwise;
}

// Returns N of `key=I:N` if I is this GPU.
int ParseNumber(const std::string& key, int gpu, int otherwise) {
  const auto text = Setting(key);
  if (!text || text->front() != '0' + gpu) return otherwise;
  return std::stoi(text->substr(2));
}

const Device& At(void* device) { return *static_cast<Device*>(device); }

}  // namespace

extern "C" {

struct FakeRates {
  unsigned gpu;
  unsigned memory;
};

struct FakeMemory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

DTRAIN_API int nvmlInit_v2() {
  if (Setting("crash")) std::abort();
  if (Setting("hang")) ::pause();
  return Number("init", 0);
}

DTRAIN_API const char* nvmlErrorString(int result) {
  if (result == 15) return "GPU is lost";
  return result == 18 ? "Driver/library version mismatch" : "Unknown Error";
}

DTRAIN_API int nvmlSystemGetDriverVersion(char* version, unsigned size) {
  std::snprintf(version, size, "%d.65.06", Number("driver", 580));
  return 0;
}

DTRAIN_API int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return Number("count", 0);
}

DTRAIN_API int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index > 1) return 2;
  if (Number("hidden", -1) == static_cast<int>(index)) return 4;
  *device = &gpus[index];
  return 0;
}

DTRAIN_API int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  const bool is_a = uuid[4] == 'a';
  if (!is_a && uuid[4] != 'b') return 6;
  *device = &gpus[is_a ? 0 : 1];
  return 0;
}

DTRAIN_API int nvmlDeviceGetUtilizationRates(void* device, FakeRates* rates) {
  if (device != &gpus[0]) return 3;
  if (Setting("sensors_crash")) std::abort();
  if (Setting("sensors_hang")) ::pause();
  rates->gpu = 37;
  return 0;
}

DTRAIN_API int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  if (device != &gpus[0]) return 3;
  *milliwatts = static_cast<unsigned>(Number("power", 250'500));
  return 0;
}

DTRAIN_API int nvmlDeviceGetTemperature(void* device, int sensor,
                                        unsigned* celsius) {
  if (device != &gpus[0] || sensor != 0) return 3;
  *celsius = 61;
  return 0;
}

DTRAIN_API int nvmlDeviceGetUUID(void* device, char* uuid, unsigned size) {
  const Device& it = At(device);
  const char name = it.gpu == 0 ? 'a' : 'b';
  if (it.instance < 0) {
    std::snprintf(uuid, size, "GPU-%c", name);
  } else {
    std::snprintf(uuid, size, "MIG-%c%d", name, it.instance);
  }
  return 0;
}

DTRAIN_API int nvmlDeviceGetName(void* device, char* name, unsigned size) {
  std::snprintf(name, size,
                At(device).instance < 0 ? "NVIDIA Fake" : "NVIDIA Fake MIG");
  return 0;
}

DTRAIN_API int nvmlDeviceGetMemoryInfo(void* device, FakeMemory* memory) {
  if (Number("lost", -1) == At(device).gpu) return 15;
  const auto used = static_cast<unsigned long long>(Number("used", 100));
  *memory = {.total = 1000, .free = 900, .used = used};
  return 0;
}

struct FakeProcess {
  unsigned pid;
  unsigned long long used;
  unsigned gpu_instance;
  unsigned compute_instance;
};

DTRAIN_API int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count,
                                                       FakeProcess* processes) {
  processes[0] = {.pid = static_cast<unsigned>(Number("pid", 1)), .used = 7};
  processes[1] = {.pid = static_cast<unsigned>(::getpid()),
                  .used = static_cast<unsigned long long>(Number("own", 0))};
  *count = Setting("own") ? 2 : 1;
  return 0;
}

DTRAIN_API int nvmlDeviceGetComputeMode(void* device, int* mode) {
  *mode = ParseNumber("mode", At(device).gpu, 0);
  return 0;
}

DTRAIN_API int nvmlDeviceGetMigMode(void* device, unsigned* now,
                                    unsigned* later) {
  *now = *later = ParseNumber("mig", At(device).gpu, -1) >= 0 ? 1 : 0;
  return 0;
}

DTRAIN_API int nvmlDeviceGetMaxMigDeviceCount(void*, unsigned* count) {
  *count = 7;
  return 0;
}

DTRAIN_API int nvmlDeviceGetMigDeviceHandleByIndex(void* device, unsigned index,
                                                   void** instance) {
  const int gpu = At(device).gpu;
  if (static_cast<int>(index) >= ParseNumber("mig", gpu, 0)) return 6;
  instances[gpu][index] = {gpu, static_cast<int>(index)};
  *instance = &instances[gpu][index];
  return 0;
}

DTRAIN_API int cuInit(unsigned) { return Number("cuinit", 0); }

DTRAIN_API int cuDeviceGet(int* device, int ordinal) {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  *device = visible != nullptr && visible == std::string("GPU-b") ? 1 : 0;
  return ordinal == 0 ? 0 : 101;
}

DTRAIN_API int cuDevicePrimaryCtxRetain(void** context, int device) {
  *context = &gpus[device];
  return device == 0 ? Number("context", 0) : 0;
}

DTRAIN_API int cuDriverGetVersion(int* version) {
  const int driver = Number("driver", 580);
  const int newest = driver < 535 ? 11040 : driver < 580 ? 12020 : 13000;
  *version = Number("cuda", newest);
  return 0;
}

DTRAIN_API int cuGetErrorString(int result, const char** text) {
  *text = result == 802   ? "system not yet initialized"
          : result == 214 ? "uncorrectable ECC error encountered"
                          : "unknown error";
  return 0;
}

}  // extern "C"
