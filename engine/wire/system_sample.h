#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/wire/trial_spec.h"

namespace dtrain {

/// State of one GPU as its driver reports it: of all processes that use it.
/// Values that the driver does not report are missing.
struct GpuSample {
  std::int64_t gpu = 0;           // number of its slot
  std::optional<double> percent;  // of the last second, while kernels ran
  std::optional<std::int64_t> memory_bytes;  // in use
  std::optional<double> watts;
  std::optional<std::int64_t> celsius;

  static void Fields(auto& field, auto& m) {
    field("gpu", m.gpu);
    field("percent", m.percent, 0.0, 100.0);
    field("memory_bytes", m.memory_bytes);
    field("watts", m.watts, 0.0);
    field("celsius", m.celsius, -300);
  }
};

/// Resources that the processes of a trial on one machine used in an interval.
struct SystemSample {
  std::int64_t samples = 1;  // merged into this one; 0: it extends the last one
  double seconds = 0;        // length of the interval
  double cpu_seconds = 0;    // of all cores, ended children included
  std::int64_t processes = 0;
  // Sum of the resident sets, in which a page that processes share counts once
  // for each, and of the proportional sets, in which it counts once.
  std::int64_t memory_bytes = 0;
  std::optional<std::int64_t> pss_bytes;
  // From and to storage, not the page cache; missing if the kernel hides them.
  std::optional<std::int64_t> read_bytes;
  std::optional<std::int64_t> written_bytes;
  std::vector<GpuSample> gpus;

  /// Extends the interval by that of `later`: times and bytes are added up,
  /// GPUs' percent and watts averaged over time, and of the others the greatest
  /// value is kept.
  void Merge(const SystemSample& later);

  static void Fields(auto& field, auto& m) {
    field("samples", m.samples);
    // The limits are thirty years, so that sums stay finite.
    field("seconds", m.seconds, 0.0, 1e9);
    field("cpu_seconds", m.cpu_seconds, 0.0, 1e12);
    field("processes", m.processes);
    field("memory_bytes", m.memory_bytes);
    field("pss_bytes", m.pss_bytes);
    field("read_bytes", m.read_bytes);
    field("written_bytes", m.written_bytes);
    field("gpus", m.gpus);
  }
};

/// A sample of a trial's processes on one machine.
struct SystemSampled {
  static constexpr std::string_view kType = "sampled";
  TrialId trial;
  SystemSample sample;
  int rank = 0;  // the trial's first one on that machine; set by its runner

  static void Fields(auto& field, auto& m) {
    field("trial", m.trial);
    field("sample", m.sample);
  }
};

}  // namespace dtrain
