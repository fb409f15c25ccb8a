#pragma once

#include <cstddef>
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
// and checksums (TensorFlow's TFRecord format). Fields are those of
// event.proto, summary.proto and, for the table HPARAMS, api.proto and
// plugin_data.proto of tensorboard 2.21
// (https://github.com/tensorflow/tensorboard).

/// CRC-32C (Castagnoli, RFC 3720 appendix B.4) of `bytes`, masked as the format
/// has it, since a plain checksum is weak for data that contain checksums
/// themselves.
std::uint32_t MaskedCrc32c(std::string_view bytes);

/// Scalars in a record.
struct EventScalars {
  std::int64_t step = 0;
  std::vector<std::pair<std::string, double>> values;  // by their tags
  // Of the table HPARAMS: those of a trial that starts.
  std::map<std::string, nlohmann::json> hparams;
  bool is_failure = false;  // the end of a trial that failed
};

/// Splits the bytes of an event file into records. One thread.
class EventRecords {
 public:
  static constexpr std::size_t kMaxRecord = std::size_t{64} << 20;

  void Append(std::string_view bytes);
  /// Returns the next complete record, valid until the next Append; nothing if
  /// it is not complete. Throws Error(kFailed) if a checksum is wrong or the
  /// record is too long; the rest of the file cannot be read then.
  std::optional<std::string_view> Next();

 private:
  std::string buffer_;
  std::size_t start_ = 0;
};

/// Returns the scalars of an Event, a protocol buffer: simple values, and
/// tensors of one number; and the hyperparameters and the outcome of a trial in
/// the table HPARAMS. Other summaries are left out. Throws Error(kFailed) if it
/// is invalid.
EventScalars ParseEvent(std::string_view record);

// Functions that append one record to `to`. Times are seconds since 1970.

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
