// What a checkpoint keeps of training beside model and optimizer. It includes
// the reports that the runner has not acknowledged: if both processes end now,
// the resumed trial sends them again, and no report is lost. Messages that the
// runner asks for again are left out.

#include "engine/train/training_state.h"

#include <cmath>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/base/metric_order.h"
#include "engine/base/text.h"

namespace dtrain {

namespace {

using nlohmann::json;

json PointToJson(const std::optional<MetricPoint>& point) {
  if (!point) return nullptr;
  json metrics = json::array();
  for (const auto& [name, value] : point->metrics) {
    metrics.push_back({name, JsonNumber(value)});
  }
  return {{"batches", point->batches}, {"metrics", std::move(metrics)}};
}

std::optional<MetricPoint> PointFromJson(const json& json) {
  if (json.is_null()) return std::nullopt;
  MetricPoint point{.batches = json.at("batches").get<std::int64_t>()};
  for (const auto& metric : json.at("metrics")) {
    point.metrics.emplace_back(metric.at(0).get<std::string>(),
                               NumberFromJson(metric.at(1)));
  }
  return point;
}

// True for reports. Other messages, such as a completed operation, are
// requested again by the runner.
bool IsReport(const TrialMessage& message) {
  return std::holds_alternative<TrainingReport>(message) ||
         std::holds_alternative<ValidationReport>(message) ||
         std::holds_alternative<ProfileReport>(message) ||
         std::holds_alternative<CheckpointSaved>(message);
}

}  // namespace

const double* FindMetric(const MetricValues& metrics, const std::string& name) {
  for (const auto& [key, value] : metrics) {
    if (key == name) return &value;
  }
  return nullptr;
}

json SumsToJson(const std::map<std::string, MetricSum>& sums) {
  json object = json::object();
  for (const auto& [name, sum] : sums) {
    object[name] = {JsonNumber(sum.total), sum.weight};
    if (sum.occasional) object[name].push_back(true);
  }
  return object;
}

std::map<std::string, MetricSum> SumsFromJson(const json& json) {
  std::map<std::string, MetricSum> sums;
  for (const auto& [name, sum] : json.items()) {
    sums[name] = {.total = NumberFromJson(sum.at(0)),
                  .weight = sum.at(1).get<double>(),
                  .occasional = sum.size() > 2 && sum.at(2).get<bool>()};
  }
  return sums;
}

void TrainingState::RememberTraining(std::int64_t batches_then,
                                     const MetricValues& metrics,
                                     const std::set<std::string>& occasional) {
  MetricPoint point{batches_then, metrics};
  if (last_training) {
    const bool is_now = last_training->batches == batches_then;
    for (const auto& old : last_training->metrics) {
      if (FindMetric(metrics, old.first) != nullptr) continue;
      if (is_now || occasional.contains(old.first)) {
        point.metrics.push_back(old);
      }
    }
  }
  last_training = std::move(point);
}

std::set<std::string> TrainingState::KnownMetrics(
    std::set<std::string> names) const {
  for (const auto& metric : last_training->metrics) names.insert(metric.first);
  return names;
}

json TrainingState::ToJson() const {
  json lines = json::array();
  for (const TrialMessage& message : unacknowledged) {
    if (!IsReport(message)) continue;
    std::string line = Encode(message);
    line.pop_back();  // the newline
    lines.push_back(std::move(line));
  }
  return {{"batches", batches},
          {"sums", SumsToJson(sums)},
          {"last_training", PointToJson(last_training)},
          {"last_validation", PointToJson(last_validation)},
          {"best_validation",
           best_validation ? JsonNumber(*best_validation) : json(nullptr)},
          {"ended", ended},
          {"early_stop", early_stop},
          {"unacknowledged", std::move(lines)}};
}

TrainingState TrainingState::FromJson(const json& json) {
  if (NestsDeeperThan(json)) {
    throw Error(ErrorKind::kFailed, "training state: nested too deep");
  }
  TrainingState state;
  state.batches = json.at("batches").get<std::int64_t>();
  state.sums = SumsFromJson(json.at("sums"));
  state.last_training = PointFromJson(json.at("last_training"));
  state.last_validation = PointFromJson(json.at("last_validation"));
  // Missing in checkpoints of older versions.
  const auto best = json.find("best_validation");
  if (best != json.end() && !best->is_null()) {
    state.best_validation = NumberFromJson(*best);
  }
  state.ended = json.at("ended").get<std::string>();
  state.early_stop = json.at("early_stop");
  for (const auto& line : json.at("unacknowledged")) {
    state.unacknowledged.push_back(DecodeTrialMessage(line.get<std::string>()));
  }
  return state;
}

bool EarlyStop::Observe(double value) {
  const auto key = [this](double metric) {
    return RankKey(metric, settings_.smaller_is_better);
  };
  // RankKey makes smaller values better in both directions.
  const double gain = best_ ? key(*best_) - key(value) : INFINITY;
  // With min_delta 0, an equal value is not an improvement either.
  if (!std::isnan(value) && gain > 0 && gain >= settings_.min_delta) {
    best_ = value;
    bad_ = 0;
    return false;
  }
  return ++bad_ >= settings_.patience;
}

std::string EarlyStop::Reason() const {
  return "'" + settings_.metric + "' did not improve " +
         (settings_.patience == 1
              ? "once"
              : std::to_string(settings_.patience) + " times in a row") +
         (settings_.min_delta > 0
              ? " by at least " + FormatNumber(settings_.min_delta)
              : "") +
         " (early_stopping)";
}

nlohmann::json EarlyStop::Save() const {
  nlohmann::json state = {{"bad", bad_}};
  if (best_) state["best"] = JsonNumber(*best_);
  return state;
}

void EarlyStop::Load(const nlohmann::json& state) {
  bad_ = state.at("bad").get<std::int64_t>();
  best_.reset();
  if (state.contains("best")) best_ = NumberFromJson(state["best"]);
}

}  // namespace dtrain
