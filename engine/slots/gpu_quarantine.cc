// GPUs that have failed. A dead GPU is free at once after each failure, and the
// lowest free slot is taken first: without a quarantine it would fail one trial
// after another until no restart is left. CUDA reports faults by texts that
// have been stable since CUDA 5; they pass unchanged through LibTorch, NCCL and
// most programs, so the text of an error decides, not its type.

#include "engine/slots/gpu_quarantine.h"

#include <algorithm>
#include <array>
#include <utility>

#include "engine/base/error.h"
#include "engine/os/spawn.h"

namespace dtrain {
namespace {

// Texts of cudaGetErrorString and nvmlErrorString, names of the driver API, and
// PyTorch's own. The illegal accesses, failed launches and unknown errors that
// a dead GPU may also cause are more often faults of a program.
constexpr std::array<std::string_view, 21> kGpuFaults = {
    "uncorrectable ECC error encountered",
    "uncorrectable NVLink error",
    "CUDA-capable device(s) is/are busy or unavailable",
    "no CUDA-capable device is detected",
    "No CUDA GPUs are available",
    "system not yet initialized",
    "system has unsupported display driver / cuda driver combination",
    "Driver/library version mismatch",
    "GPU is lost",
    "fallen off the bus",
    "GPU requires reset",
    "CUDA driver initialization failed",
    "Found no NVIDIA driver",
    "CUDA_ERROR_ECC_UNCORRECTABLE",
    "CUDA_ERROR_NVLINK_UNCORRECTABLE",
    "CUDA_ERROR_DEVICE_UNAVAILABLE",
    "CUDA_ERROR_NO_DEVICE",
    "CUDA_ERROR_SYSTEM_NOT_READY",
    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
    "cudaErrorECCUncorrectable",
    "cudaErrorDevicesUnavailable"};

constexpr std::array<std::string_view, 4> kMpsFaults = {
    "MPS client", "MPS server", "MPS daemon", "CUDA_ERROR_MPS_"};

// A probe answers within milliseconds; until then it is polled.
constexpr Duration kPoll = std::chrono::milliseconds(50);

bool Contains(std::string_view line, const auto& phrases) {
  return std::ranges::any_of(phrases, [line](std::string_view phrase) {
    return line.find(phrase) != line.npos;
  });
}

}  // namespace

bool ReportsGpuFault(std::string_view line) {
  return Contains(line, kGpuFaults);
}

bool ReportsMpsFault(std::string_view line) {
  return Contains(line, kMpsFaults);
}

GpuQuarantine::GpuQuarantine(GpuQuarantineOptions options, Clock clock)
    : options_(std::move(options)), clock_(std::move(clock)) {}

GpuQuarantine::~GpuQuarantine() = default;

void GpuQuarantine::Add(const Gpu& gpu) {
  const Duration probe_at = clock_.monotonic() + options_.period;
  gpus_.insert_or_assign(gpu.index, Entry{.gpu = gpu, .probe_at = probe_at});
}

std::optional<Gpu> GpuQuarantine::OnTime() {
  const Duration now = clock_.monotonic();
  if (!probe_) {
    const auto due = std::ranges::find_if(gpus_, [now](const auto& entry) {
      return entry.second.probe_at <= now;
    });
    if (due == gpus_.end()) return std::nullopt;
    const Gpu& gpu = due->second.gpu;
    probed_ = gpu.index;
    probe_until_ = now + options_.limit;
    try {
      probe_ = std::make_unique<ChildCall>([this, &gpu] {
        const std::string why = options_.probe(gpu);
        return why.empty() ? "usable" : why;
      });
    } catch (const Error&) {
      due->second.probe_at = now + options_.period;
    }
    return std::nullopt;
  }
  bool passed = false;
  if (clock_.monotonic() < probe_until_) {
    const auto answer = probe_->Poll();
    if (!answer) return std::nullopt;
    passed =
        answer->end == ChildAnswer::End::kAnswered && answer->text == "usable";
  }
  probe_.reset();
  const auto found = gpus_.find(probed_);
  found->second.probe_at = now + options_.period;
  if (!passed) return std::nullopt;
  Gpu gpu = std::move(found->second.gpu);
  gpus_.erase(found);
  return gpu;
}

std::optional<Duration> GpuQuarantine::Deadline() const {
  if (probe_) return std::min(clock_.monotonic() + kPoll, probe_until_);
  std::optional<Duration> deadline;
  for (const auto& [index, entry] : gpus_) {
    deadline = std::min(deadline.value_or(entry.probe_at), entry.probe_at);
  }
  return deadline;
}

pid_t GpuQuarantine::child() const { return probe_ ? probe_->pid() : -1; }

}  // namespace dtrain
