#include "engine/wire/message.h"

#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "engine/base/text.h"

namespace dtrain {
namespace {

void AppendEscape(std::string& out, char c) {
  static constexpr std::string_view kHex = "0123456789abcdef";
  out += "\\u00";
  out += kHex[static_cast<unsigned char>(c) >> 4];
  out += kHex[static_cast<unsigned char>(c) & 0xF];
}

bool IsPlain(std::string_view text) {
  for (const char c : text) {
    // Read as signed, so that this also catches whatever is not ASCII.
    if (static_cast<signed char>(c) < 0x20 || c == '"' || c == '\\') {
      return false;
    }
  }
  return true;
}

void Append(std::string& out, std::string_view text) {
  out += '"';
  if (IsPlain(text)) {
    out += text;
  } else {
    for (const char c : ToValidUtf8(text)) {
      if (c == '"' || c == '\\') out += '\\';
      if (static_cast<unsigned char>(c) < 0x20) {
        AppendEscape(out, c);
      } else {
        out += c;
      }
    }
  }
  out += '"';
}

void Append(std::string& out, std::int64_t value) {
  std::array<char, 24> text{};
  const auto end = std::to_chars(text.begin(), text.end(), value).ptr;
  out.append(text.data(), end);
}

void Append(std::string& out, double value) {
  if (!std::isfinite(value)) {
    Append(out, std::string_view(FormatNumber(value)));
    return;
  }
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.begin(), text.end(), value).ptr;
  out.append(text.data(), end);
  // JSON parsers read "-0" as the integer 0, which has no sign.
  if (value == 0 && std::signbit(value)) out += ".0";
}

void Append(std::string& out, bool value) { out += value ? "true" : "false"; }

void Append(std::string& out, Length length) {
  out += "{\"";
  out += UnitName(length.unit);
  out += "\":";
  Append(out, length.count);
  out += '}';
}

void Append(std::string& out, Timestamp time) {
  Append(out, static_cast<std::int64_t>(time.count()));
}

// For what looks like a map: metrics and files.
template <typename Pairs>
void AppendObject(std::string& out, const Pairs& pairs) {
  out += '{';
  bool first = true;
  for (const auto& [name, value] : pairs) {
    if (!first) out += ',';
    first = false;
    Append(out, std::string_view(name));
    out += ':';
    if constexpr (std::is_same_v<Pairs, MetricValues>) {
      Append(out, value);
    } else {
      Append(out, std::string_view(value));
    }
  }
  out += '}';
}

void Append(std::string& out, const MetricValues& metrics) {
  AppendObject(out, metrics);
}

void Append(std::string& out, const std::map<std::string, std::string>& files) {
  AppendObject(out, files);
}

void Append(std::string& out, const PhaseSeconds& seconds) {
  MetricValues named;
  for (std::size_t i = 0; i < kPhases; ++i) {
    named.emplace_back(kPhaseNames[i], seconds[i]);
  }
  Append(out, named);
}

// One line: begun with its type, ended by `End`.
class Line {
 public:
  explicit Line(std::string_view type) : text_("{\"type\":\"") {
    text_ += type;
    text_ += '"';
  }

  template <typename T>
  Line& Field(std::string_view name, const T& value) {
    text_ += ",\"";
    text_ += name;
    text_ += "\":";
    Append(text_, value);
    return *this;
  }

  // One that is not there is left out.
  template <typename T>
  Line& Field(std::string_view name, const std::optional<T>& value) {
    return value ? Field(name, *value) : *this;
  }

  std::string End() {
    text_ += "}\n";
    return std::move(text_);
  }

 private:
  std::string text_;
};

// A line holds no newline, so that separates names.
std::optional<std::string> NamesText(
    const std::optional<std::vector<std::string>>& names) {
  if (!names) return std::nullopt;
  return Join(*names, "\n");
}

template <typename Report>
std::string Encode(std::string_view type, const Report& report) {
  return Line(type)
      .Field("seq", report.seq)
      .Field("batches", report.batches)
      .Field("epoch", report.epoch)
      .Field("metrics", report.metrics)
      .Field("time", report.time)
      .Field("unread", NamesText(report.unread))
      .End();
}

struct Encoder {
  std::string operator()(const Ready&) const { return Line("ready").End(); }
  std::string operator()(const TrainingReport& report) const {
    return Encode("training", report);
  }
  std::string operator()(const ValidationReport& report) const {
    return Encode("validation", report);
  }
  std::string operator()(const CheckpointSaved& saved) const {
    return Line("checkpoint")
        .Field("seq", saved.seq)
        .Field("uuid", std::string_view(saved.uuid))
        .Field("batches", saved.batches)
        .Field("epoch", saved.epoch)
        .Field("bytes", saved.bytes)
        .Field("files", saved.files)
        .Field("time", saved.time)
        .End();
  }
  std::string operator()(const OperationCompleted& completed) const {
    return Line("completed")
        .Field("seq", completed.seq)
        .Field("length", completed.length)
        .Field("batches", completed.batches)
        .Field("metrics", completed.metrics)
        .Field("early", completed.early)
        .Field("unread", NamesText(completed.unread))
        .Field("message", completed.why_early.empty()
                              ? std::nullopt
                              : std::optional(completed.why_early))
        .End();
  }
  std::string operator()(const ProfileReport& profile) const {
    return Line("profile")
        .Field("seq", profile.seq)
        .Field("batches", profile.batches)
        .Field("trained", profile.trained)
        .Field("samples", profile.samples)
        .Field("seconds", profile.seconds)
        .Field("minor_faults", profile.minor_faults)
        .Field("peak_bytes", profile.peak_bytes)
        .Field("gpu_bytes", profile.gpu_bytes)
        .Field("gpu_percent", profile.gpu_percent)
        .Field("time", profile.time)
        .End();
  }
  std::string operator()(const CheckpointFailed& failed) const {
    return Line(failed.waits ? "disk_wait" : "checkpoint_failed")
        .Field("batches", failed.batches)
        .Field("message", std::string_view(failed.message))
        .End();
  }
  std::string operator()(const Progress& progress) const {
    return Line("progress")
        .Field("batches", progress.batches)
        .Field("total", progress.total)
        .Field("batches_per_epoch", progress.batches_per_epoch)
        .End();
  }
  std::string operator()(const Finished& finished) const {
    return Line("finished")
        .Field("reason", EndReasonName(finished.reason))
        .Field("message", std::string_view(finished.message))
        .Field("unread", std::string_view(Join(finished.unread, "\n")))
        .End();
  }
  std::string operator()(const RunOperation& operation) const {
    return Line("run").Field("length", operation.until).End();
  }
  std::string operator()(const CloseTrial&) const {
    return Line("close").End();
  }
  std::string operator()(const StopTrial&) const { return Line("stop").End(); }
  std::string operator()(const Acknowledge& acknowledge) const {
    return Line("ack").Field("seq", acknowledge.seq).End();
  }
};

}  // namespace

std::string Encode(const TrialMessage& message) {
  return std::visit(Encoder{}, message);
}

std::string Encode(const RunnerMessage& message) {
  return std::visit(Encoder{}, message);
}

std::string_view EndReasonName(EndReason reason) {
  switch (reason) {
    case EndReason::kCompleted:
      return "completed";
    case EndReason::kStopped:
      return "stopped";
    case EndReason::kInvalidHp:
      return "invalid_hp";
    case EndReason::kUserStop:
      return "user_stop";
    case EndReason::kDamaged:
      return "damaged";
    case EndReason::kDiskFull:
      return "disk_full";
    case EndReason::kNotFound:
      return "not_found";
    case EndReason::kRefused:
      return "refused";
    case EndReason::kError:
      return "error";
  }
  return "error";
}

}  // namespace dtrain
