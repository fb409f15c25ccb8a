#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "engine/base/length.h"
#include "engine/wire/trial_message.h"

namespace dtrain {

// ---- From the runner to the trial.

/// Train until this absolute length, validate, checkpoint.
struct RunOperation {
  static constexpr std::string_view kType = "run";
  Length until;
  static void Fields(auto& field, auto& m) { field("length", m.until); }
};

/// No more operations: exit with success.
struct CloseTrial {
  static constexpr std::string_view kType = "close";
  static void Fields(auto&, auto&) {}
};

/// Checkpoint and exit at the next batch boundary.
struct StopTrial {
  static constexpr std::string_view kType = "stop";
  static void Fields(auto&, auto&) {}
};

/// Everything up to `seq` is durable.
struct Acknowledge {
  static constexpr std::string_view kType = "ack";
  std::int64_t seq = 0;
  static void Fields(auto& field, auto& m) { field("seq", m.seq, 1); }
};

using RunnerMessage =
    std::variant<RunOperation, CloseTrial, StopTrial, Acknowledge>;

/// One JSON line, newline included. Invalid UTF-8 in names is replaced.
std::string Encode(const TrialMessage& message);
std::string Encode(const RunnerMessage& message);

/// The reverse, for one line. Throws Error(kFailed) that says what is wrong
/// with it; nothing in a line can do worse than that.
TrialMessage DecodeTrialMessage(std::string_view line);
RunnerMessage DecodeRunnerMessage(std::string_view line);

std::string_view EndReasonName(EndReason reason);

}  // namespace dtrain
