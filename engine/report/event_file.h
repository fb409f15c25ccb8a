#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace dtrain {

// Records of TensorBoard's event files: protocol buffers, each with its length
// and checksums (TensorFlow's TFRecord format). Functions append one record to
// `to`. Times are seconds since 1970. Fields are those of event.proto,
// summary.proto and, for the table HPARAMS, api.proto and plugin_data.proto of
// tensorboard 2.21 (https://github.com/tensorflow/tensorboard).

/// The first record of a file.
void AppendFileVersion(std::string& to, double time);
/// Makes TensorBoard drop the values from `step` on that earlier files of the
/// directory have.
void AppendRestart(std::string& to, double time, std::int64_t step);
/// A value, in single precision.
void AppendScalar(std::string& to, std::string_view tag, std::int64_t step,
                  double time, double value);

/// A column of the table HPARAMS.
struct HparamColumn {
  std::string name;
  // Its only values, or the range of its numbers; empty: unknown.
  std::vector<nlohmann::json> choices = {};
  std::optional<std::pair<double, double>> range = {};
};

/// The columns of the table HPARAMS: hyperparameters, and tags of metrics.
void AppendHparamTable(std::string& to, double time, const std::string& title,
                       const std::vector<HparamColumn>& columns,
                       const std::vector<std::string>& metrics);
/// The start of a trial, a row of the table; `hparams`: flat names.
void AppendTrialStart(std::string& to, double time,
                      const std::map<std::string, nlohmann::json>& hparams);

enum class SessionStatus { kUnknown = 0, kSuccess = 1, kFailure = 2 };

void AppendTrialEnd(std::string& to, double time, SessionStatus outcome);

}  // namespace dtrain
