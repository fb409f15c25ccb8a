#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/base/clock.h"
#include "engine/os/unique_fd.h"

namespace dtrain {

class StoreLayout;
struct ExperimentConfig;
struct GlobalOptions;
struct NotificationRow;
struct NotifyConfig;

/// Hidden command that Notifier starts: `dtrain __notify STORE EXP`.
inline constexpr std::string_view kNotifyCommand = "__notify";

/// A process that sends the recorded messages of an experiment: all that are
/// not sent yet, when this object is made, woken and destroyed. It is not
/// waited for, and outlives this object until all are sent. A failure to start
/// it is left to the next run. One thread.
class Notifier {
 public:
  /// REQUIRES: made before a LocalLauncher, which kills unknown children.
  Notifier(const StoreLayout& layout, std::int64_t experiment);

  /// Says that messages were recorded. Costs a system call.
  void Wake();

 private:
  UniqueFd wake_;
};

/// Serves kNotifyCommand: whenever standard input has bytes, and at its end,
/// sends every message of the experiment that has not been sent, one after
/// another, and records the outcome, also as a line in the log of the runner.
/// Returns the exit code.
int SendNotifications(const std::vector<std::string>& words);

/// Limits of a delivery.
struct DeliveryLimits {
  Duration attempt = std::chrono::seconds(10);
  int attempts = 3;
  Duration pause = std::chrono::seconds(1);  // doubled before the third
};

/// Sends a message to its target: `row.target` of `notify`, whose `url` is the
/// whole address. Tries again after a failure that may pass; any failure of a
/// command may. Sets `attempts`, `error` and `ended`.
void Deliver(const NotifyConfig& notify, NotificationRow& row,
             const DeliveryLimits& limits = {});

/// Returns the target for people: "command notify-send", "https://HOST/..." or
/// "$VARIABLE".
std::string TargetText(const NotifyConfig& notify, const std::string& target);

/// Returns the message as `describe --json` and `notify test --json` have it.
nlohmann::json NotificationJson(const NotifyConfig& notify,
                                const NotificationRow& row);

/// Returns the outcome for people: "sent", "not sent: WHY" or "not sent yet".
std::string OutcomeText(const NotificationRow& row);

/// Returns the environment variables of `notify` that are not set.
std::vector<std::string> MissingVariables(const NotifyConfig& notify);

/// Throws Error(kUsage), which begins with `name`, if one of them is missing.
void RequireNotifyVariables(const std::string& name,
                            const ExperimentConfig& config);

}  // namespace dtrain
