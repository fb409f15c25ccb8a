// JSON objects of the rows that commands print, one function for each kind of
// row.
//
// The names of fields are an interface for scripts: they may be added, never
// renamed. What is missing is null, not an empty string or 0. NaN and
// infinities, which JSON lacks, are strings (JsonNumber). Times are UTC in ISO
// 8601. `batches` is named after the record; AddLength adds what it counts.

#include "engine/report/json_view.h"

#include <cmath>

#include "engine/base/json.h"
#include "engine/base/text.h"
#include "engine/query/field.h"
#include "engine/report/field_view.h"
#include "engine/run/reporter.h"
#include "engine/store/trial_log.h"

namespace dtrain {

using nlohmann::json;

std::string DumpJson(const json& document, int indent, bool terminal) {
  std::string text =
      document.dump(indent, ' ', false, json::error_handler_t::replace);
  return terminal ? EscapeJsonForTerminal(text) : text;
}

json TimeJson(const std::optional<Timestamp>& time) {
  return time ? json(FormatTimestamp(*time)) : json(nullptr);
}

json BestJson(const std::optional<BestValidation>& best,
              const std::string& metric, TrialId trial) {
  if (!best) return nullptr;
  json object = {
      {"metric", metric},
      {"value", JsonNumber(best->value)},
      {"batches", best->batches},
      {"checkpoint",
       best->checkpoint.empty() ? json(nullptr) : json(best->checkpoint)}};
  if (trial.number != 0) object["trial"] = ToString(trial);
  return object;
}

void AddLength(std::optional<Unit> unit, json& row) {
  if (!row.is_object()) return;
  const auto batches = row.find("batches");
  if (batches != row.end() && !row.contains("unit")) {
    row["length"] = json(*batches);
    row["unit"] = unit ? json(UnitName(*unit)) : json(nullptr);
  }
  for (const char* validation : {"best", "latest", "best_saved"}) {
    if (row.contains(validation)) AddLength(unit, row[validation]);
  }
}

json SlotWaitJson(const SlotWait* wait) {
  if (wait == nullptr) return nullptr;
  const auto whole = static_cast<std::int64_t>(wait->needed);
  const bool is_whole = static_cast<double>(whole) == wait->needed;
  return {{"needed", is_whole ? json(whole) : json(wait->needed)},
          {"slots", wait->slots},
          {"held_by", wait->HeldBy()},
          {"after", wait->After()}};
}

json ExperimentJson(const ExperimentRow& row, double seconds,
                    const SlotWait* wait) {
  return {{"id", row.id},
          {"name", row.name},
          {"description", row.description},
          {"labels", row.labels},
          {"state", StateName(row.state)},
          {"waiting", SlotWaitJson(wait)},
          {"progress", JsonNumber(row.progress)},
          {"searcher", row.searcher},
          {"metric", row.metric},
          {"smaller_is_better", row.smaller_is_better},
          {"seed", row.seed},
          {"archived", row.archived},
          {"error", row.error.empty() ? json(nullptr) : json(row.error)},
          {"created", TimeJson(row.created)},
          {"started", TimeJson(row.started)},
          {"ended", TimeJson(row.ended)},
          {"duration", JsonNumber(seconds)},
          {"trials", row.trials},
          {"trials_ended", row.trials_ended},
          {"best", BestJson(row.best, row.metric, {row.id, row.best_trial})}};
}

static json SlotsJson(const std::string& slots) {
  return slots.empty() ? json::array() : json(Split(slots, ','));
}

json TrialJson(const TrialRow& row, const std::string& metric, double seconds,
               const SlotWait* wait) {
  json object = {
      {"id", ToString(row.id)},
      {"trial", ToString(row.id)},
      {"state", StateName(row.state)},
      {"waiting", SlotWaitJson(wait)},
      {"reason", row.reason.empty() ? json(nullptr) : json(row.reason)},
      {"hparams", row.hparams},
      {"seed", row.seed},
      {"batches", row.batches},
      {"rung", row.rung},
      {"best", BestJson(row.best, metric)},
      {"latest", BestJson(row.latest, metric)},
      {"checkpoint", row.latest_checkpoint.empty()
                         ? json(nullptr)
                         : json(row.latest_checkpoint)},
      {"restarts", row.restarts},
      {"preemptions", row.preemptions},
      {"runs", row.runs},
      {"slots", SlotsJson(row.slots)},
      {"pid", row.pid == 0 ? json(nullptr) : json(row.pid)},
      {"created", TimeJson(row.created)},
      {"started", TimeJson(row.started)},
      {"ended", TimeJson(row.ended)},
      {"duration", JsonNumber(seconds)},
      {"star", row.star},
      {"note", row.note}};
  if (row.point > 0) {
    object["point"] = row.point;
    object["repeat"] = row.repeat;
  }
  return object;
}

json MetricJson(const MetricRow& row) {
  const bool has_epoch = !std::isnan(row.epoch);
  return {{"trial", ToString(row.trial)},
          {"kind", MetricKindName(row.kind)},
          {"batches", row.batches},
          {"epoch", has_epoch ? JsonNumber(row.epoch) : json(nullptr)},
          {"name", row.name},
          {"value", JsonNumber(row.value)},
          {"time", TimeJson(row.time)}};
}

json CheckpointJson(const CheckpointRow& row, const std::string& path) {
  return {{"uuid", row.uuid},
          {"trial", ToString(row.trial)},
          {"state", row.state},
          {"batches", row.batches},
          {"epoch", JsonNumber(row.epoch)},
          {"bytes", row.bytes},
          {"metric", row.metric ? JsonNumber(*row.metric) : json(nullptr)},
          {"files", row.files},
          {"path", path},
          {"time", TimeJson(row.time)}};
}

json EvaluationJson(const EvaluationRow& row) {
  return {{"trial", ToString(row.trial)},
          {"checkpoint", row.checkpoint},
          {"batches", row.batches},
          {"split", row.split},
          {"data", row.data.empty() ? json(nullptr) : json(row.data)},
          {"metrics", MetricsJson(row.metrics)},
          {"duration", JsonNumber(row.seconds)},
          {"time", TimeJson(row.time)}};
}

json LogJson(TrialId trial, const LogRecord& record) {
  return {{"trial", ToString(trial)},
          {"time", TimeJson(record.time)},
          {"rank", record.rank},
          {"stream", record.from_stderr ? "stderr" : "stdout"},
          {"level", LogLevelName(record.level)},
          {"partial", record.partial},
          {"text", ToValidUtf8(record.text)}};
}

json MetricsJson(const MetricValues& values) {
  json object = json::object();
  for (const auto& [name, value] : values) object[name] = JsonNumber(value);
  return object;
}

json ChecksJson(const std::vector<Check>& checks) {
  json array = json::array();
  for (const Check& check : checks) {
    json object = {{"requirement", check.text}, {"met", check.met}};
    if (!check.value) {
      object["actual"] = nullptr;
      object["reason"] = check.actual;
    } else if (const auto* number = std::get_if<double>(&*check.value)) {
      object["actual"] = JsonNumber(*number);
    } else {
      object["actual"] = FieldJson(*check.value);
    }
    array.push_back(std::move(object));
  }
  return array;
}

json ResultJson(const RunResult& result, const std::string& metric) {
  json best =
      BestJson(result.best, metric, {result.experiment, result.best_trial});
  if (!best.is_null()) best["hparams"] = result.best_hparams;
  return {{"experiment", result.experiment},
          {"state", StateName(result.state)},
          {"error", result.error.empty() ? json(nullptr) : json(result.error)},
          {"best", best},
          {"unread_hyperparameters",
           result.unread ? json(*result.unread) : json(nullptr)},
          {"duration", JsonNumber(result.seconds)}};
}

std::string_view MetricKindName(MetricKind kind) {
  return kind == MetricKind::kTraining ? "training" : "validation";
}

}  // namespace dtrain
