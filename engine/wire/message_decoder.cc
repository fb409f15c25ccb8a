#include <algorithm>
#include <array>
#include <optional>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/wire/message.h"
#include "engine/wire/message_fields.h"

namespace dtrain {
namespace {

std::string Shortened(std::string_view text) {
  return "'" + Truncate(EscapeForTerminal(text), 60) + "'";
}

[[noreturn]] void Fail(const std::string& what) {
  throw Error(ErrorKind::kFailed, what);
}

void Require(const MessageFields& fields, Field field) {
  if (fields.Has(field)) return;
  Fail("type '" + fields.strings[0] + "' needs the field '" +
       std::string(FieldName(field)) + "'");
}

std::int64_t Integer(const MessageFields& fields, Field field) {
  Require(fields, field);
  return fields.integers[static_cast<int>(field)];
}

std::string Text(MessageFields& fields, Field field) {
  Require(fields, field);
  return std::move(fields.strings[static_cast<int>(field)]);
}

std::int64_t Seq(const MessageFields& fields) {
  const std::int64_t seq = Integer(fields, Field::kSeq);
  if (seq < 1) Fail("field 'seq' counts from 1");
  return seq;
}

double Epoch(const MessageFields& fields) {
  Require(fields, Field::kEpoch);
  return fields.epoch;
}

Length TheLength(const MessageFields& fields) {
  Require(fields, Field::kLength);
  return fields.length;
}

MetricValues Metrics(MessageFields& fields) {
  Require(fields, Field::kMetrics);
  return std::move(fields.metrics);
}

// The UUID becomes part of a path, so nothing else may pass for one.
std::string Uuid(MessageFields& fields) {
  std::string uuid = Text(fields, Field::kUuid);
  bool valid = uuid.size() == 36;
  for (std::size_t i = 0; valid && i < uuid.size(); ++i) {
    const char c = uuid[i];
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    const bool hex = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
    valid = dash ? c == '-' : hex;
  }
  if (!valid) Fail("field 'uuid': " + Shortened(uuid) + " is no UUID");
  return uuid;
}

// Names of files in the checkpoint's directory: never one that leaves it.
std::map<std::string, std::string> Files(MessageFields& fields) {
  Require(fields, Field::kFiles);
  for (const auto& [name, hash] : fields.files) {
    bool inside = !name.empty() && name.find('\0') == std::string::npos;
    for (const std::string& part : Split(name, '/')) {
      inside = inside && !part.empty() && part != "." && part != "..";
    }
    if (!inside) {
      Fail("field 'files': " + Shortened(name) + " is no file of a checkpoint");
    }
  }
  return std::move(fields.files);
}

EndReason Reason(MessageFields& fields) {
  const std::string name = Text(fields, Field::kReason);
  static constexpr std::array kReasons = {
      EndReason::kCompleted, EndReason::kStopped, EndReason::kInvalidHp,
      EndReason::kUserStop,  EndReason::kDamaged, EndReason::kDiskFull,
      EndReason::kNotFound,  EndReason::kRefused, EndReason::kError};
  for (const EndReason reason : kReasons) {
    if (name == EndReasonName(reason)) return reason;
  }
  Fail("field 'reason': unknown reason " + Shortened(name));
}

// None: the trial did not say.
std::optional<std::vector<std::string>> Unread(const MessageFields& fields) {
  if (!fields.Has(Field::kUnread)) return std::nullopt;
  const std::string& text = fields.strings[static_cast<int>(Field::kUnread)];
  if (text.empty()) return std::vector<std::string>();
  return Split(text, '\n');
}

template <typename Report>
Report ReportFrom(MessageFields& fields) {
  return {.seq = Seq(fields),
          .batches = Integer(fields, Field::kBatches),
          .epoch = Epoch(fields),
          .metrics = Metrics(fields),
          .time = Timestamp(Integer(fields, Field::kTime)),
          .unread = Unread(fields)};
}

CheckpointSaved CheckpointFrom(MessageFields& fields) {
  return {.seq = Seq(fields),
          .uuid = Uuid(fields),
          .batches = Integer(fields, Field::kBatches),
          .epoch = Epoch(fields),
          .bytes = Integer(fields, Field::kBytes),
          .files = Files(fields),
          .time = Timestamp(Integer(fields, Field::kTime))};
}

OperationCompleted CompletedFrom(MessageFields& fields) {
  Require(fields, Field::kEarly);
  return {.seq = Seq(fields),
          .length = TheLength(fields),
          .batches = Integer(fields, Field::kBatches),
          .metrics = Metrics(fields),
          .early = fields.early,
          .why_early = fields.Has(Field::kMessage)
                           ? Text(fields, Field::kMessage)
                           : std::string(),
          .unread = Unread(fields)};
}

std::optional<std::int64_t> OptionalInteger(const MessageFields& fields,
                                            Field field) {
  if (!fields.Has(field)) return std::nullopt;
  return Integer(fields, field);
}

// Each phase once; the bound is thirty years, so that sums stay numbers.
PhaseSeconds Seconds(const MessageFields& fields) {
  constexpr double kMost = 1e9;
  Require(fields, Field::kSeconds);
  PhaseSeconds seconds;
  seconds.fill(-1);
  for (const auto& [name, value] : fields.seconds) {
    const auto phase = std::ranges::find(kPhaseNames, name);
    if (phase == kPhaseNames.end()) {
      Fail("field 'seconds': unknown phase " + Shortened(name));
    }
    double& known = seconds[phase - kPhaseNames.begin()];
    if (known >= 0 || !(value >= 0 && value <= kMost)) {
      Fail("field 'seconds' needs each phase once, from 0 to 1e9");
    }
    known = value;
  }
  if (std::ranges::find(seconds, -1) != seconds.end()) {
    Fail("field 'seconds' needs each phase once, from 0 to 1e9");
  }
  return seconds;
}

ProfileReport ProfileFrom(const MessageFields& fields) {
  const ProfileReport profile{
      .seq = Seq(fields),
      .batches = Integer(fields, Field::kBatches),
      .trained = Integer(fields, Field::kTrained),
      .samples = Integer(fields, Field::kSamples),
      .seconds = Seconds(fields),
      .minor_faults = Integer(fields, Field::kMinorFaults),
      .peak_bytes = Integer(fields, Field::kPeakBytes),
      .gpu_bytes = OptionalInteger(fields, Field::kGpuBytes),
      .gpu_percent = OptionalInteger(fields, Field::kGpuPercent),
      .time = Timestamp(Integer(fields, Field::kTime))};
  if (profile.trained > profile.batches) {
    Fail("field 'trained' is more than 'batches'");
  }
  if (profile.gpu_percent > 100) Fail("field 'gpu_percent' is at most 100");
  return profile;
}

TrialMessage TrialMessageFrom(MessageFields& fields) {
  Require(fields, Field::kType);
  const std::string& type = fields.strings[0];
  if (type == "training") return ReportFrom<TrainingReport>(fields);
  if (type == "validation") return ReportFrom<ValidationReport>(fields);
  if (type == "checkpoint") return CheckpointFrom(fields);
  if (type == "checkpoint_failed" || type == "disk_wait") {
    return CheckpointFailed{.batches = Integer(fields, Field::kBatches),
                            .message = Text(fields, Field::kMessage),
                            .waits = type == "disk_wait"};
  }
  if (type == "completed") return CompletedFrom(fields);
  if (type == "profile") return ProfileFrom(fields);
  if (type == "ready") return Ready{};
  if (type == "progress") {
    return Progress{
        .batches = Integer(fields, Field::kBatches),
        .total = Integer(fields, Field::kTotal),
        .batches_per_epoch = Integer(fields, Field::kBatchesPerEpoch)};
  }
  if (type == "finished") {
    return Finished{
        .reason = Reason(fields),
        .message = Text(fields, Field::kMessage),
        .unread = Unread(fields).value_or(std::vector<std::string>())};
  }
  Fail("unknown type " + Shortened(type));
}

RunnerMessage RunnerMessageFrom(MessageFields& fields) {
  Require(fields, Field::kType);
  const std::string& type = fields.strings[0];
  if (type == "run") return RunOperation{TheLength(fields)};
  if (type == "close") return CloseTrial{};
  if (type == "stop") return StopTrial{};
  if (type == "ack") return Acknowledge{Seq(fields)};
  Fail("unknown type " + Shortened(type));
}

// Says whose message it was: to a user, that is what matters first.
template <typename Message>
Message Decode(std::string_view line, const char* sender,
               Message (*from)(MessageFields&)) {
  try {
    MessageFields fields = MessageFields::Parse(line);
    return from(fields);
  } catch (const Error& error) {
    throw Error(ErrorKind::kFailed,
                std::string("message from the ") + sender + ": " +
                    error.what() + "; is it of another version of dtrain?");
  }
}

}  // namespace

TrialMessage DecodeTrialMessage(std::string_view line) {
  return Decode(line, "trial", TrialMessageFrom);
}

RunnerMessage DecodeRunnerMessage(std::string_view line) {
  return Decode(line, "runner", RunnerMessageFrom);
}

}  // namespace dtrain
