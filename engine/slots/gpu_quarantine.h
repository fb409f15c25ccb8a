#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <sys/types.h>

#include "engine/base/clock.h"
#include "engine/slots/slots.h"

namespace dtrain {

class ChildCall;

/// True if an error message or a line of a log says that a GPU or its driver
/// has failed, as far as the text can tell: an uncorrectable memory error, a
/// GPU off the bus, one that is not available. Running out of its memory, an
/// illegal access or a failed assertion are faults of the program.
bool ReportsGpuFault(std::string_view line);

/// True if the text is an error of NVIDIA's multi-process service (MPS), which
/// ends all its clients on a GPU when one of them faults.
bool ReportsMpsFault(std::string_view line);

/// Probes a GPU in a child process. Returns the reason if it cannot be used, or
/// empty.
using ProbeGpu = std::function<std::string(const Gpu& gpu)>;

struct GpuQuarantineOptions {
  Duration period = std::chrono::minutes(1);  // from one probe to the next
  Duration limit = std::chrono::seconds(20);  // a longer probe has failed
  ProbeGpu probe = [](const Gpu& gpu) { return GpuFailure(gpu); };
};

/// The GPUs that have failed a trial of this runner, which uses them again once
/// a child process could. One probe runs at a time, so that a driver that hangs
/// costs one child. One thread.
class GpuQuarantine {
 public:
  GpuQuarantine(GpuQuarantineOptions options, Clock clock);
  ~GpuQuarantine();

  /// Sets the GPU aside. The first probe follows after a period.
  void Add(const Gpu& gpu);
  /// True if the GPU with this index is set aside.
  bool Has(std::int64_t index) const { return gpus_.contains(index); }

  /// Starts the probe that is due, or receives its result. Returns the GPU that
  /// has passed, which is not set aside any longer.
  std::optional<Gpu> OnTime();
  /// Time of the next OnTime; none if no GPU is set aside.
  std::optional<Duration> Deadline() const;
  /// The child of the running probe; -1 if there is none.
  pid_t child() const;

 private:
  struct Entry {
    Gpu gpu;
    Duration probe_at{0};
  };

  const GpuQuarantineOptions options_;
  const Clock clock_;
  std::map<std::int64_t, Entry> gpus_;  // by index
  std::unique_ptr<ChildCall> probe_;
  std::int64_t probed_ = 0;  // index of its GPU
  Duration probe_until_{0};
};

}  // namespace dtrain
