// A run as JSON lines on stdout, for programs.
//
// Every event is one line, written at once. Progress is limited to one line a
// second and only if it has changed.

#include "engine/report/json_lines_reporter.h"

#include <utility>

#include "engine/base/json.h"
#include "engine/base/text.h"
#include "engine/report/json_view.h"

namespace dtrain {
namespace {

using nlohmann::json;

constexpr Duration kStatusPeriod = std::chrono::seconds(1);

template <typename Report>
json ReportJson(TrialId trial, const Report& report) {
  return {{"trial", ToString(trial)},
          {"batches", report.batches},
          {"epoch", JsonNumber(report.epoch)},
          {"metrics", MetricsJson(report.metrics)},
          {"time", TimeJson(report.time)}};
}

json RungsJson(const std::vector<RungStatus>& rungs) {
  json array = json::array();
  for (const RungStatus& rung : rungs) {
    array.push_back(
        {{"length", {{UnitName(rung.length.unit), rung.length.count}}},
         {"done", rung.done},
         {"running", rung.running}});
  }
  return array;
}

}  // namespace

void JsonLinesReporter::Begin(const RunInfo& info) {
  experiment_ = info.experiment;
  metric_ = info.metric;
  counted_ = info.units.counted;
  Write("begin", {{"experiment", info.experiment},
                  {"name", info.name},
                  {"entrypoint", info.entrypoint},
                  {"searcher", info.searcher},
                  {"metric", info.metric},
                  {"smaller_is_better", info.smaller_is_better},
                  {"seed", info.seed},
                  {"resumed", info.resumed},
                  {"slots", info.slots}});
}

void JsonLinesReporter::OnTrialStarted(const TrialRow& trial,
                                       const ReportedAt& from) {
  json object = TrialJson(trial, metric_, trial.seconds);
  object["from_batches"] = from.batches;
  object["from_length"] = from.batches;
  object["promoted"] =
      paused_.RecordStart(trial.id, from) == StartKind::kPromoted;
  Write("trial_started", std::move(object));
}

void JsonLinesReporter::OnTraining(TrialId trial,
                                   const TrainingReport& report) {
  Write("training", ReportJson(trial, report));
}

void JsonLinesReporter::OnValidation(TrialId trial,
                                     const ValidationReport& report,
                                     bool best) {
  json object = ReportJson(trial, report);
  object["best"] = best;
  Write("validation", std::move(object));
}

void JsonLinesReporter::OnCheckpoint(TrialId trial,
                                     const CheckpointSaved& saved) {
  Write("checkpoint", {{"trial", ToString(trial)},
                       {"uuid", saved.uuid},
                       {"batches", saved.batches},
                       {"epoch", JsonNumber(saved.epoch)},
                       {"bytes", saved.bytes},
                       {"files", saved.files},
                       {"time", TimeJson(saved.time)}});
}

void JsonLinesReporter::OnCheckpointFailed(TrialId trial,
                                           const CheckpointFailed& failed) {
  Write("checkpoint_failed", {{"trial", ToString(trial)},
                              {"batches", failed.batches},
                              {"error", failed.message},
                              {"waits", failed.waits}});
}

void JsonLinesReporter::OnTrialEnded(
    const TrialRow& trial, const std::vector<std::string>& last_lines) {
  paused_.RecordEnd(trial);
  json object = TrialJson(trial, metric_, trial.seconds);
  json lines = json::array();
  for (const std::string& line : last_lines) {
    lines.push_back(ToValidUtf8(line));
  }
  object["last_lines"] = std::move(lines);
  Write("trial_ended", std::move(object));
}

void JsonLinesReporter::OnNotice(LogLevel level, const std::string& text) {
  Write("notice", {{"level", LogLevelName(level)}, {"text", text}});
}

void JsonLinesReporter::OnStatus(const RunStatus& status) {
  if (slot_wait_.IsDue(status)) {
    Write("notice", {{"level", LogLevelName(LogLevel::kInfo)},
                     {"text", status.slot_wait->ToString()},
                     {"waiting", SlotWaitJson(&*status.slot_wait)}});
  }
  const Duration now = clock_.monotonic();
  const bool due =
      last_status_ < Duration(0) || now - last_status_ >= kStatusPeriod;
  if (!due || status.progress == last_progress_) return;
  last_status_ = now;
  last_progress_ = status.progress;
  Write("progress", {{"progress", JsonNumber(status.progress)},
                     {"trials", status.trials},
                     {"trials_ended", status.trials_ended},
                     {"running", status.running.size()},
                     {"waiting", status.waiting},
                     {"slots_in_use", status.slots_in_use},
                     {"slots", status.slots},
                     {"rungs", RungsJson(status.rungs)},
                     {"best", BestJson(status.best, metric_,
                                       {experiment_, status.best_trial})},
                     {"duration", JsonNumber(status.seconds)}});
}

void JsonLinesReporter::Write(const char* event, json object) {
  object["event"] = event;
  AddLength(counted_, object);
  if (!object.contains("time")) object["time"] = TimeJson(clock_.now());
  out_ << DumpJson(object, /*indent=*/-1, terminal_) + "\n" << std::flush;
}

}  // namespace dtrain
