// Events and operations are stored as JSON objects with the name of their type.
// The names are part of stored experiments and must not change.
//
// A field that was added later is written only if it differs from its default,
// and read with that default, so that old records replay and new ones stay
// equal where nothing is new.

#include "searchers/searcher.h"

#include <cmath>
#include <limits>
#include <stdexcept>

namespace dtrain {
namespace {

using nlohmann::json;

// JSON has no NaN and no infinities, which metrics can be.
json MetricToJson(double metric) {
  if (std::isfinite(metric)) return metric;
  if (std::isnan(metric)) return "NaN";
  return metric > 0 ? "Infinity" : "-Infinity";
}

double MetricFromJson(const json& metric) {
  if (metric.is_number()) return metric.get<double>();
  if (metric == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (metric == "Infinity") return std::numeric_limits<double>::infinity();
  if (metric == "-Infinity") return -std::numeric_limits<double>::infinity();
  throw std::invalid_argument("a recorded metric is not a number");
}

const char* ReasonName(ExitReason reason) {
  switch (reason) {
    case ExitReason::kErrored:
      return "errored";
    case ExitReason::kInvalidHp:
      return "invalid_hp";
    case ExitReason::kUserStop:
      return "user_stop";
  }
  return "errored";
}

ExitReason ReasonFromName(const std::string& name) {
  if (name == "errored") return ExitReason::kErrored;
  if (name == "invalid_hp") return ExitReason::kInvalidHp;
  if (name == "user_stop") return ExitReason::kUserStop;
  throw std::invalid_argument("unknown exit reason: " + name);
}

struct EventToJson {
  json operator()(const Started&) const { return {{"event", "started"}}; }
  json operator()(const Created& e) const {
    return {{"event", "created"}, {"trial", e.trial}};
  }
  json operator()(const ValidationCompleted& e) const {
    json event = {{"event", "validation_completed"},
                  {"trial", e.trial},
                  {"length", e.length},
                  {"metric", MetricToJson(e.metric)}};
    if (e.seconds != 0) event["seconds"] = e.seconds;
    return event;
  }
  json operator()(const Closed& e) const {
    return {{"event", "closed"}, {"trial", e.trial}};
  }
  json operator()(const ExitedEarly& e) const {
    return {{"event", "exited_early"},
            {"trial", e.trial},
            {"reason", ReasonName(e.reason)}};
  }
  json operator()(const PlacesAdded& e) const {
    return {{"event", "places_added"}, {"ahead", e.ahead}};
  }
  json operator()(const Extended& e) const {
    return {{"event", "extended"},
            {"max_trials", e.max_trials},
            {"budget", e.budget},
            {"budget_seconds", e.budget_seconds},
            {"lost", e.lost}};
  }
  json operator()(const Ended& e) const {
    return {{"event", "ended"},
            {"reason", e.reason},
            {"seconds", e.seconds},
            {"reached_by", e.reached_by}};
  }
  json operator()(const Retried& e) const {
    json trials = json::array();
    for (const auto& [trial, length, exit] : e.trials) {
      trials.push_back({trial, length});
    }
    return {
        {"event", "retried"}, {"trials", std::move(trials)}, {"lost", e.lost}};
  }
};

struct OperationToJson {
  json operator()(const Create& o) const {
    return {{"operation", "create"},
            {"trial", o.trial},
            {"request_id", o.request_id},
            {"hparams", o.hparams},
            {"seed", o.seed}};
  }
  json operator()(const ValidateAfter& o) const {
    json operation = {{"operation", "validate_after"},
                      {"trial", o.trial},
                      {"length", o.length}};
    if (o.deferred != 0) operation["deferred"] = o.deferred;
    return operation;
  }
  json operator()(const Close& o) const {
    return {{"operation", "close"}, {"trial", o.trial}};
  }
  json operator()(const Reopen& o) const {
    return {{"operation", "reopen"}, {"trial", o.trial}};
  }
  json operator()(const Shutdown& o) const {
    return {{"operation", "shutdown"}, {"failed", o.failed}};
  }
};

Event ReadEvent(const json& json) {
  const std::string name = json.at("event");
  if (name == "started") return Started{};
  if (name == "places_added") return PlacesAdded{json.at("ahead")};
  if (name == "extended") {
    return Extended{json.at("max_trials"), json.at("budget"),
                    json.at("budget_seconds"), json.at("lost")};
  }
  if (name == "ended") {
    return Ended{json.at("reason"), json.at("seconds"), json.at("reached_by")};
  }
  if (name == "retried") {
    Retried retried{.trials = {}, .lost = json.at("lost")};
    for (const auto& row : json.at("trials")) {
      retried.trials.push_back({.trial = row.at(0), .length = row.at(1)});
    }
    return retried;
  }
  const TrialIndex trial = json.at("trial");
  if (name == "created") return Created{trial};
  if (name == "closed") return Closed{trial};
  if (name == "exited_early") {
    return ExitedEarly{trial, ReasonFromName(json.at("reason"))};
  }
  if (name == "validation_completed") {
    return ValidationCompleted{trial, json.at("length"),
                               MetricFromJson(json.at("metric")),
                               json.value("seconds", 0.0)};
  }
  throw std::invalid_argument("unknown event: " + name);
}

Operation ReadOperation(const json& json) {
  const std::string name = json.at("operation");
  if (name == "shutdown") return Shutdown{json.at("failed")};
  const TrialIndex trial = json.at("trial");
  if (name == "close") return Close{trial};
  if (name == "reopen") return Reopen{trial};
  if (name == "validate_after") {
    return ValidateAfter{trial, json.at("length"),
                         json.value("deferred", std::int64_t{0})};
  }
  if (name == "create") {
    return Create{trial, json.at("request_id"), json.at("hparams"),
                  json.at("seed")};
  }
  throw std::invalid_argument("unknown operation: " + name);
}

}  // namespace

json ToJson(const Event& event) { return std::visit(EventToJson{}, event); }

json ToJson(const Operation& operation) {
  return std::visit(OperationToJson{}, operation);
}

json ToJson(const std::vector<Operation>& operations) {
  json all = json::array();
  for (const Operation& operation : operations)
    all.push_back(ToJson(operation));
  return all;
}

Event EventFromJson(const json& json) {
  try {
    return ReadEvent(json);
  } catch (const nlohmann::json::exception& error) {
    throw std::invalid_argument(error.what());
  }
}

Operation OperationFromJson(const json& json) {
  try {
    return ReadOperation(json);
  } catch (const nlohmann::json::exception& error) {
    throw std::invalid_argument(error.what());
  }
}

}  // namespace dtrain
