// Fake of NVIDIA's driver library for a machine with two GPUs: 0, "GPU-a", with
// 37% utilization, and 1, "GPU-b", whose utilization is unknown.

#include <cstdio>

#include "engine/base/api.h"

namespace {
int gpus[2];
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

DTRAIN_API int nvmlInit_v2() { return 0; }

DTRAIN_API int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return 0;
}

DTRAIN_API int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index > 1) return 2;
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
  rates->gpu = 37;
  return 0;
}

DTRAIN_API int nvmlDeviceGetUUID(void* device, char* uuid, unsigned size) {
  std::snprintf(uuid, size, "%s", device == &gpus[0] ? "GPU-a" : "GPU-b");
  return 0;
}

DTRAIN_API int nvmlDeviceGetName(void*, char* name, unsigned size) {
  std::snprintf(name, size, "NVIDIA Fake");
  return 0;
}

DTRAIN_API int nvmlDeviceGetMemoryInfo(void*, FakeMemory* memory) {
  *memory = {.total = 1000, .free = 900, .used = 100};
  return 0;
}

}  // extern "C"
