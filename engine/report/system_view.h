#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/report/chart.h"
#include "engine/store/rows.h"
#include "engine/wire/message.h"

namespace dtrain {

// Resources that trials use, from the samples that the store has of them.

/// What a use is compared with.
struct UseContext {
  std::optional<double> cores;           // that each trial has; none: unknown
  std::optional<double> slots;           // share of the slots' time in use
  std::optional<ProfileReport> profile;  // of the trial
};

/// Returns what was used and what was idle, "slots 62% in use, GPU 31% busy,
/// waiting for data 45% of the time, CPU 1.2 cores" or "CPU 0.4 of 2 cores".
std::string SummarizeUse(const SystemUse& use, const UseContext& context);

/// {summary, seconds, cores, memory_bytes, pss_bytes, read_bytes,
/// written_bytes, gpu_percent, gpu_watts, gpu_memory_bytes, gpu_celsius}, or
/// null.
nlohmann::json SystemUseJson(const std::optional<SystemUse>& use,
                             const UseContext& context);

/// {trial, rank, time, seconds, cores, processes, memory_bytes, pss_bytes,
/// read_bytes, written_bytes, gpus: [{gpu, percent, memory_bytes, watts,
/// celsius}]}.
nlohmann::json SystemRowJson(TrialId trial, const SystemRow& row);

/// Samples of a trial on one machine, as a plot sees them.
struct SystemSeries {
  std::string name;    // "3.7"
  Timestamp start{0};  // of the experiment
  std::vector<SystemRow> rows;
};

/// Panels of CPU, memory, storage and GPUs over the time since the start of the
/// experiment, those without values left out. Curves are of the series; if
/// there is one, those of GPUs are of each GPU. REQUIRES: at most kMaxLegend
/// series.
Figure SystemFigure(std::string title, const std::vector<SystemSeries>& all);

/// Returns names and values of facts: "memory", "2.1 GB".
std::vector<std::pair<std::string, std::string>> SystemFacts(
    const SystemUse& use);

}  // namespace dtrain
