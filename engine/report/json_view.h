#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/base/clock.h"
#include "engine/base/length.h"
#include "engine/store/rows.h"

namespace dtrain {

struct Check;
struct LogRecord;
struct RunResult;
struct SlotWait;

// Rows as `--json` shows them: names and forms of the command line's contract.
// A field once documented stays.

/// Valid UTF-8 whatever is in it; `indent` −1 for one line. For a `terminal`
/// with nothing in it that one would obey.
std::string DumpJson(const nlohmann::json& document, int indent = -1,
                     bool terminal = false);

/// RFC 3339, or null.
nlohmann::json TimeJson(const std::optional<Timestamp>& time);

/// {metric, value, batches, checkpoint}, or null; `trial` is added if it is
/// not 0.
nlohmann::json BestJson(const std::optional<BestValidation>& best,
                        const std::string& metric, TrialId trial = {});

/// Adds `length` and `unit` beside `batches`, which counts `unit`: to a row and
/// its validations, such as the best, unless they have these. A unit that is
/// not known is null.
void AddLength(std::optional<Unit> unit, nlohmann::json& row);

/// {needed, slots, held_by}, or null.
nlohmann::json SlotWaitJson(const SlotWait* wait);

/// `wait`: for the slots that it runs on, or nullptr.
nlohmann::json ExperimentJson(const ExperimentRow& row, double seconds,
                              const SlotWait* wait = nullptr);
nlohmann::json TrialJson(const TrialRow& row, const std::string& metric,
                         double seconds, const SlotWait* wait = nullptr);
/// `row.epoch`: NaN if the program reports none.
nlohmann::json MetricJson(const MetricRow& row);
nlohmann::json CheckpointJson(const CheckpointRow& row,
                              const std::string& path);
nlohmann::json EvaluationJson(const EvaluationRow& row);
nlohmann::json LogJson(TrialId trial, const LogRecord& record);
nlohmann::json MetricsJson(const MetricValues& values);
nlohmann::json ChecksJson(const std::vector<Check>& checks);

/// The document that `create --json` ends with, without the store.
nlohmann::json ResultJson(const RunResult& result, const std::string& metric);

/// "training" or "validation".
std::string_view MetricKindName(MetricKind kind);

}  // namespace dtrain
