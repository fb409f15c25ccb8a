#include "engine/run/notifications.h"

#include <algorithm>
#include <string>
#include <utility>

#include "engine/base/json.h"
#include "engine/base/rng.h"
#include "engine/base/rounding.h"
#include "engine/base/text.h"
#include "engine/config/experiment_config.h"
#include "engine/os/process.h"
#include "engine/store/store.h"

namespace dtrain {
namespace {

using nlohmann::json;

// Returns one line for people.
std::string Sentence(const ExperimentConfig& config, std::int64_t experiment,
                     std::string_view event, const json& facts) {
  if (event == kTestEvent) {
    return "a test of the messages about experiment '" + config.name + "'";
  }
  std::string text =
      "experiment " + std::to_string(experiment) + " '" + config.name + "' ";
  const auto trial = facts.find("trial");
  if (event == "best") {
    text += "has a new best trial";
  } else if (event == "trial_error" && trial != facts.end()) {
    text += "has a trial in ERROR: " + trial->at("id").get<std::string>() +
            ": " + trial->at("reason").get<std::string>();
  } else {
    text += "is " + facts.value("state", std::string(event));
  }
  if (const auto error = facts.find("error");
      error != facts.end() && error->is_string()) {
    text += ": " + error->get<std::string>();
  }
  if (const auto best = facts.find("best");
      best != facts.end() && best->is_object()) {
    text += "; best " + config.searcher.metric + " " +
            FormatRounded(NumberFromJson(best->at("value")), 6) + ", trial " +
            best->at("trial").get<std::string>();
  }
  return text;
}

}  // namespace

std::string_view EndEvent(State state) {
  switch (state) {
    case State::kCompleted:
      return "completed";
    case State::kCanceled:
      return "canceled";
    case State::kPaused:
      return "paused";
    default:
      return "error";
  }
}

json BestFact(TrialId trial, const std::optional<BestValidation>& best,
              const json& hparams) {
  if (!best) return nullptr;
  return {{"trial", ToString(trial)},
          {"value", JsonNumber(best->value)},
          {"batches", best->batches},
          {"hyperparameters", hparams}};
}

json RecordedBestFact(const Store& store, std::int64_t experiment) {
  const ExperimentRow row = store.Experiment(experiment)->row;
  const auto holder = store.Trial({experiment, row.best_trial});
  return BestFact({experiment, row.best_trial}, row.best,
                  holder ? holder->hparams : json::object());
}

std::vector<NotificationRow> MakeNotifications(const ExperimentConfig& config,
                                               std::int64_t experiment,
                                               std::string_view event,
                                               Timestamp now, json facts) {
  std::vector<NotificationRow> rows;
  const auto& notify = config.notify;
  if (!notify || (std::ranges::find(notify->on, event) == notify->on.end() &&
                  event != kTestEvent)) {
    return rows;
  }
  json body = {{"event", event},
               {"experiment", experiment},
               {"name", config.name},
               {"metric", config.searcher.metric},
               {"smaller_is_better", config.searcher.smaller_is_better},
               {"host", HostName()},
               {"time", FormatTimestamp(now)},
               {"text", Sentence(config, experiment, event, facts)},
               {"state", nullptr},
               {"error", nullptr},
               {"best", nullptr},
               {"trial", nullptr}};
  body.update(std::move(facts));
  for (const char* target : {"command", "url"}) {
    const bool is_command = std::string_view(target) == "command";
    const bool has_url = !notify->url.empty() || !notify->url_env.empty();
    if (is_command ? notify->command.empty() : !has_url) continue;
    const std::string id = RandomUuid();
    body["id"] = id;
    rows.push_back({.uuid = id,
                    .event = std::string(event),
                    .target = target,
                    .body = body,
                    .created = now});
  }
  return rows;
}

void AddNotifications(StoreWriter& writer, const ExperimentConfig& config,
                      std::int64_t experiment, std::string_view event,
                      Timestamp now, json facts) {
  for (const NotificationRow& row :
       MakeNotifications(config, experiment, event, now, std::move(facts))) {
    writer.AddNotification(experiment, row);
  }
}

}  // namespace dtrain
