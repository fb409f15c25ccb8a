#include "engine/report/system_view.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "engine/base/json.h"
#include "engine/base/text.h"
#include "engine/report/format.h"
#include "engine/report/json_view.h"

namespace dtrain {
namespace {

using nlohmann::json;

// A smaller share of the time is not worth a word.
constexpr double kWorthAWord = 0.1;

// Mean number of cores that were busy, of a SystemUse or a SystemSample.
template <typename Use>
double MeanCores(const Use& use) {
  return use.seconds > 0 ? use.cpu_seconds / use.seconds : 0;
}

std::string WholePercent(double percent) {
  return FormatFixed(percent, 0) + "%";
}

// Share of its time that a profiled trial waits for its data.
double DataShare(const std::optional<ProfileReport>& profile) {
  if (!profile || profile->wall_seconds() <= 0) return 0;
  return profile->seconds[static_cast<std::size_t>(Phase::kData)] /
         profile->wall_seconds();
}

template <typename T>
json OrNull(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

}  // namespace

std::string SummarizeUse(const SystemUse& use, const UseContext& context) {
  std::vector<std::string> parts;
  if (context.slots) {
    parts.push_back("slots " + WholePercent(*context.slots * 100) + " in use");
  }
  if (use.gpu_percent) {
    parts.push_back("GPU " + WholePercent(*use.gpu_percent) + " busy");
  }
  const double waiting = DataShare(context.profile);
  if (waiting >= kWorthAWord) {
    parts.push_back("waiting for data " + WholePercent(waiting * 100) +
                    " of the time");
  }
  const std::string cores = FormatFixed(MeanCores(use), 1);
  parts.push_back(context.cores ? "CPU " + cores + " of " +
                                      FormatFixed(*context.cores, 0) +
                                      (*context.cores == 1 ? " core" : " cores")
                                : "CPU " + cores + " cores");
  return Join(parts, ", ");
}

json SystemUseJson(const std::optional<SystemUse>& use,
                   const UseContext& context) {
  if (!use) return nullptr;
  return {{"summary", SummarizeUse(*use, context)},
          {"seconds", JsonNumber(use->seconds)},
          {"cores", JsonNumber(MeanCores(*use))},
          {"memory_bytes", use->memory_bytes},
          {"pss_bytes", OrNull(use->pss_bytes)},
          {"read_bytes", OrNull(use->read_bytes)},
          {"written_bytes", OrNull(use->written_bytes)},
          {"gpu_percent", OrNull(use->gpu_percent)},
          {"gpu_watts", OrNull(use->gpu_watts)},
          {"gpu_memory_bytes", OrNull(use->gpu_memory_bytes)},
          {"gpu_celsius", OrNull(use->gpu_celsius)}};
}

json SystemRowJson(TrialId trial, const SystemRow& row) {
  const SystemSample& sample = row.sample;
  json gpus = json::array();
  for (const GpuSample& gpu : sample.gpus) {
    gpus.push_back({{"gpu", gpu.gpu},
                    {"percent", OrNull(gpu.percent)},
                    {"memory_bytes", OrNull(gpu.memory_bytes)},
                    {"watts", OrNull(gpu.watts)},
                    {"celsius", OrNull(gpu.celsius)}});
  }
  return {{"trial", ToString(trial)},
          {"rank", row.rank},
          {"time", TimeJson(row.time)},
          {"seconds", JsonNumber(sample.seconds)},
          {"cores", JsonNumber(MeanCores(sample))},
          {"processes", sample.processes},
          {"memory_bytes", sample.memory_bytes},
          {"pss_bytes", OrNull(sample.pss_bytes)},
          {"read_bytes", OrNull(sample.read_bytes)},
          {"written_bytes", OrNull(sample.written_bytes)},
          {"gpus", std::move(gpus)}};
}

namespace {

// What a panel shows of a sample; NaN: no value.
struct SystemPanel {
  const char* title;
  const char* label;
  double (*read)(const SystemSample& sample);
};

constexpr double kNoValue = std::numeric_limits<double>::quiet_NaN();

template <typename T>
double Scaled(const std::optional<T>& value, double by) {
  return value ? static_cast<double>(*value) / by : kNoValue;
}

double PerSecond(const std::optional<std::int64_t>& bytes,
                 const SystemSample& sample) {
  return sample.seconds > 0 ? Scaled(bytes, 1e6) / sample.seconds : kNoValue;
}

const SystemPanel kPanels[] = {
    {"CPU", "cores", MeanCores<SystemSample>},
    {"memory", "GB",
     [](const SystemSample& sample) {
       return static_cast<double>(sample.memory_bytes) / 1e9;
     }},
    {"read from storage", "MB/s",
     [](const SystemSample& sample) {
       return PerSecond(sample.read_bytes, sample);
     }},
    {"written to storage", "MB/s", [](const SystemSample& sample) {
       return PerSecond(sample.written_bytes, sample);
     }}};

// What a panel shows of the GPUs of a sample.
struct GpuPanel {
  const char* title;
  const char* label;
  double (*read)(const GpuSample& gpu);
};

const GpuPanel kGpuPanels[] = {
    {"GPU busy", "percent",
     [](const GpuSample& gpu) { return Scaled(gpu.percent, 1); }},
    {"GPU memory", "GB",
     [](const GpuSample& gpu) { return Scaled(gpu.memory_bytes, 1e9); }},
    {"GPU power", "W",
     [](const GpuSample& gpu) { return Scaled(gpu.watts, 1); }},
    {"GPU temperature", "degrees Celsius",
     [](const GpuSample& gpu) { return Scaled(gpu.celsius, 1); }}};

// Mean of the values of the GPUs that have one, or the value of `gpu`.
double ReadGpus(const SystemSample& sample, const GpuPanel& panel,
                std::optional<std::int64_t> gpu) {
  double sum = 0;
  double count = 0;
  for (const GpuSample& one : sample.gpus) {
    const double value = panel.read(one);
    if (std::isnan(value) || (gpu && one.gpu != *gpu)) continue;
    sum += value;
    ++count;
  }
  return count > 0 ? sum / count : kNoValue;
}

// The curve of a series. A pause of its trial interrupts it.
template <typename Read>
CurveMark MakeCurve(const SystemSeries& series, std::size_t color,
                    const Read& read) {
  constexpr double kPause = 15;
  CurveMark curve{.style = MarkStyle{.color = color}, .points = {}};
  double last = 0;
  for (const SystemRow& row : series.rows) {
    const double x =
        static_cast<double>((row.time - series.start).count()) / 1e6;
    const bool pauses =
        !curve.points.empty() && x - last > kPause + 2 * row.sample.seconds;
    if (pauses) curve.points.emplace_back((x + last) / 2, kNoValue);
    curve.points.emplace_back(x, read(row.sample));
    last = x;
  }
  return curve;
}

bool HasValues(const Chart& chart) {
  return std::ranges::any_of(chart.curves, [](const CurveMark& curve) {
    return std::ranges::any_of(curve.points, [](const CurvePoint& point) {
      return std::isfinite(point.second);
    });
  });
}

Chart MakePanel(const char* title, const char* label) {
  return {.title = title,
          .x = ChartAxis{.label = "seconds since the start of the experiment"},
          .y = ChartAxis{.label = label}};
}

}  // namespace

Figure SystemFigure(std::string title, const std::vector<SystemSeries>& all) {
  std::set<std::int64_t> gpus;
  for (const SystemSeries& series : all) {
    for (const SystemRow& row : series.rows) {
      for (const GpuSample& gpu : row.sample.gpus) gpus.insert(gpu.gpu);
    }
  }
  const bool are_apart =
      all.size() == 1 && gpus.size() > 1 && gpus.size() < kMaxLegend;
  if (!are_apart) gpus.clear();
  Figure figure{.title = std::move(title), .panels = {}};
  // The GPUs that are drawn apart have the first colours.
  for (const SystemPanel& panel : kPanels) {
    Chart chart = MakePanel(panel.title, panel.label);
    for (std::size_t i = 0; i < all.size(); ++i) {
      chart.curves.push_back(MakeCurve(all[i], gpus.size() + i, panel.read));
    }
    if (HasValues(chart)) figure.panels.push_back(std::move(chart));
  }
  for (const GpuPanel& panel : kGpuPanels) {
    Chart chart = MakePanel(panel.title, panel.label);
    const auto add = [&](const SystemSeries& series,
                         std::optional<std::int64_t> gpu) {
      chart.curves.push_back(MakeCurve(series, chart.curves.size(),
                                       [&](const SystemSample& sample) {
                                         return ReadGpus(sample, panel, gpu);
                                       }));
    };
    for (const std::int64_t gpu : gpus) add(all.front(), gpu);
    if (!are_apart) {
      for (const SystemSeries& series : all) add(series, std::nullopt);
    }
    if (HasValues(chart)) figure.panels.push_back(std::move(chart));
  }
  const auto add_name = [&figure](std::string name) {
    figure.legend.push_back({.style = MarkStyle{.color = figure.legend.size()},
                             .sample = LegendEntry::Sample::kCurve,
                             .name = std::move(name)});
  };
  for (const std::int64_t gpu : gpus) add_name("GPU " + std::to_string(gpu));
  for (const SystemSeries& series : all) add_name(series.name);
  if (figure.panels.empty()) {
    Chart chart = MakePanel("", "cores");
    chart.empty = "nothing was sampled";
    figure.panels.push_back(std::move(chart));
  }
  return figure;
}

std::vector<std::pair<std::string, std::string>> SystemFacts(
    const SystemUse& use) {
  std::vector<std::pair<std::string, std::string>> facts = {
      {"memory", "at most " + FormatBytes(use.memory_bytes) +
                     (use.pss_bytes ? "; without shared pages at most " +
                                          FormatBytes(*use.pss_bytes) +
                                          ", read once a minute"
                                    : "")}};
  if (use.read_bytes && use.written_bytes) {
    facts.emplace_back("storage", "read " + FormatBytes(*use.read_bytes) +
                                      ", wrote " +
                                      FormatBytes(*use.written_bytes));
  }
  std::vector<std::string> gpu;
  if (use.gpu_memory_bytes) {
    gpu.push_back("at most " + FormatBytes(*use.gpu_memory_bytes) + " each");
  }
  if (use.gpu_watts) gpu.push_back(FormatFixed(*use.gpu_watts, 0) + " W");
  if (use.gpu_celsius) {
    gpu.push_back("up to " + std::to_string(*use.gpu_celsius) + " degrees");
  }
  if (!gpu.empty()) facts.emplace_back("GPU", Join(gpu, ", "));
  return facts;
}

}  // namespace dtrain
