#include <algorithm>
#include <memory>
#include <thread>

#include <sched.h>

#include "engine/slots/cgroup.h"
#include "engine/slots/slots.h"

namespace dtrain {
namespace {

// The mask of this process; machines of more than 1,024 CPUs need a larger set
// than the usual one.
std::int64_t CpusOfAffinityMask() {
  for (int cpus = 1024; cpus <= 1 << 20; cpus *= 2) {
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(
        CPU_ALLOC(cpus), [](cpu_set_t* memory) { CPU_FREE(memory); });
    const std::size_t size = CPU_ALLOC_SIZE(cpus);
    if (::sched_getaffinity(0, size, set.get()) == 0) {
      return CPU_COUNT_S(size, set.get());
    }
  }
  return std::thread::hardware_concurrency();
}

}  // namespace

std::int64_t UsableCpus() {
  std::int64_t cpus = CpusOfAffinityMask();
  for (const auto& cgroup : CgroupDirectories("cpu")) {
    cpus = std::min(cpus, CpuLimit(cgroup).value_or(cpus));
  }
  return std::max<std::int64_t>(cpus, 1);
}

}  // namespace dtrain
