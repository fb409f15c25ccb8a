#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/store/rows.h"

namespace dtrain {

class Store;
class StoreWriter;
struct ExperimentConfig;

/// Event of a message that `dtrain notify test` sends.
inline constexpr std::string_view kTestEvent = "test";

/// Returns the event of `notify.on` for an experiment that stays in `state`.
/// REQUIRES: it is COMPLETED, ERROR, CANCELED or PAUSED.
std::string_view EndEvent(State state);

/// Records the messages about an event of an experiment, one for each target,
/// if `config.notify` asks for the event. `facts` are fields of the message
/// besides those of every message (docs/notify.md): `state`, `error`, `best`
/// and `trial`, each of which may be missing. They are sent after the commit,
/// by another process.
void AddNotifications(StoreWriter& writer, const ExperimentConfig& config,
                      std::int64_t experiment, std::string_view event,
                      Timestamp now, nlohmann::json facts);

/// Returns the messages that AddNotifications records.
std::vector<NotificationRow> MakeNotifications(const ExperimentConfig& config,
                                               std::int64_t experiment,
                                               std::string_view event,
                                               Timestamp now,
                                               nlohmann::json facts);

/// Returns `best` of a message; null without a best trial.
nlohmann::json BestFact(TrialId trial,
                        const std::optional<BestValidation>& best,
                        const nlohmann::json& hparams);
/// The same of the best that the store has.
nlohmann::json RecordedBestFact(const Store& store, std::int64_t experiment);

}  // namespace dtrain
