// A profile as JSON and as a table. The rate of samples leaves out validation
// and checkpoints, which train nothing, while the shares of the phases are of
// the whole time and add up to 1.

#include "engine/report/profile_view.h"

#include "engine/base/json.h"
#include "engine/base/text.h"
#include "engine/report/format.h"

namespace dtrain {
namespace {

using nlohmann::json;

double GetPhaseSeconds(const ProfileReport& profile, Phase phase) {
  return profile.seconds[static_cast<std::size_t>(phase)];
}

// Returns 0 for a division by zero.
double Ratio(double value, double by) { return by > 0 ? value / by : 0; }

double PerBatch(double value, const ProfileReport& profile) {
  return Ratio(value, static_cast<double>(profile.trained));
}

double SamplesPerSecond(const ProfileReport& profile) {
  return Ratio(static_cast<double>(profile.samples),
               profile.wall_seconds() -
                   GetPhaseSeconds(profile, Phase::kValidation) -
                   GetPhaseSeconds(profile, Phase::kCheckpoint));
}

double FaultsPerBatch(const ProfileReport& profile) {
  return PerBatch(static_cast<double>(profile.minor_faults), profile);
}

json PhaseJson(const ProfileReport& profile, double seconds) {
  return {
      {"seconds", JsonNumber(seconds)},
      {"milliseconds_per_batch", JsonNumber(PerBatch(seconds * 1e3, profile))},
      {"share", JsonNumber(Ratio(seconds, profile.wall_seconds()))}};
}

void AddPhase(const std::string& name, const ProfileReport& profile,
              double seconds, Table& table) {
  const double share = Ratio(seconds, profile.wall_seconds());
  table.AddRow({name, FormatFixed(PerBatch(seconds * 1e3, profile), 3),
                FormatFixed(share * 100, 1) + "%", FormatSeconds(seconds)});
}

}  // namespace

json ProfileJson(const std::optional<ProfileReport>& profile) {
  if (!profile) return nullptr;
  json phases = json::object();
  for (std::size_t i = 0; i < kPhases; ++i) {
    phases[std::string(kPhaseNames[i])] =
        PhaseJson(*profile, profile->seconds[i]);
  }
  const auto optional = [](const std::optional<std::int64_t>& value) {
    return value ? json(*value) : json(nullptr);
  };
  return {{"batches", profile->trained},
          {"samples", profile->samples},
          {"wall_seconds", JsonNumber(profile->wall_seconds())},
          {"samples_per_second", JsonNumber(SamplesPerSecond(*profile))},
          {"phases", std::move(phases)},
          {"minor_faults", profile->minor_faults},
          {"minor_faults_per_batch", JsonNumber(FaultsPerBatch(*profile))},
          {"peak_memory_bytes", profile->peak_bytes},
          {"gpu_memory_bytes", optional(profile->gpu_bytes)},
          {"gpu_utilization_percent", optional(profile->gpu_percent)}};
}

Table ProfileTable(const ProfileReport& profile) {
  Table table({{.name = "phase"},
               {.name = "ms_per_batch", .right = true},
               {.name = "share", .right = true},
               {.name = "time", .right = true}});
  for (std::size_t i = 0; i < kPhases; ++i) {
    AddPhase(std::string(kPhaseNames[i]), profile, profile.seconds[i], table);
  }
  AddPhase("all", profile, profile.wall_seconds(), table);
  return table;
}

std::vector<std::pair<std::string, std::string>> ProfileFacts(
    const ProfileReport& profile) {
  std::vector<std::pair<std::string, std::string>> facts = {
      {"samples/s", FormatFixed(SamplesPerSecond(profile), 1)},
      {"faults/batch", FormatFixed(FaultsPerBatch(profile), 1)},
      {"peak memory", FormatBytes(profile.peak_bytes)}};
  if (profile.gpu_bytes) {
    facts.emplace_back("GPU memory", FormatBytes(*profile.gpu_bytes));
  }
  if (profile.gpu_percent) {
    facts.emplace_back("GPU busy", std::to_string(*profile.gpu_percent) + "%");
  }
  return facts;
}

}  // namespace dtrain
