// NVIDIA's driver library as GpuMeter sees it, of a machine with two GPUs: 0,
// 37% busy, and 1, "GPU-b", of which it does not know how busy it is.

#include "engine/base/api.h"

namespace {
int gpus[2];
}  // namespace

extern "C" {

struct FakeRates {
  unsigned gpu;
  unsigned memory;
};

DTRAIN_API int nvmlInit_v2() { return 0; }

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

}  // extern "C"
