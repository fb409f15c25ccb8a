// Messages between a trial's process and its runner: one line of JSON each. The
// structs list their fields (engine/wire/json_codec.h); this file adds the
// checks that concern a whole message. A trial runs its user's code, so a line
// may be anything: whatever cannot be accepted ends in Error(kFailed).
#include "engine/wire/message.h"

#include <array>
#include <span>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/base/uuid.h"
#include "engine/wire/json_codec.h"

namespace dtrain {
namespace {

// In the order of EndReason.
constexpr std::array<std::string_view, 9> kReasons = {
    "completed", "stopped",   "invalid_hp", "user_stop", "damaged",
    "disk_full", "not_found", "refused",    "error"};

[[noreturn]] void Fail(const std::string& error) {
  throw Error(ErrorKind::kFailed, error);
}

// True for a relative path that stays in its directory.
bool IsInside(const std::string& name) {
  bool inside = !name.empty() && name.find('\0') == std::string::npos;
  for (const std::string& part : Split(name, '/')) {
    inside = inside && !part.empty() && part != "." && part != "..";
  }
  return inside;
}

void Check(const CheckpointSaved& saved) {
  // The UUID and the names become parts of paths.
  if (!IsUuid(saved.uuid)) {
    Fail("field 'uuid': " + Quoted(saved.uuid) + " is not a UUID");
  }
  for (const auto& [name, hash] : saved.files) {
    if (IsInside(name)) continue;
    Fail("field 'files': " + Quoted(name) + " is not a file of a checkpoint");
  }
}

void Check(const ProfileReport& profile) {
  if (profile.trained > profile.batches) {
    Fail("field 'trained' is more than 'batches'");
  }
}

void Check(const auto&) {}

// Names the sender in errors.
template <typename Message>
Message Decode(std::string_view line, const std::string& sender) {
  try {
    auto message = DecodeLine<Message>(line, /*strict=*/true);
    std::visit([](const auto& alternative) { Check(alternative); }, message);
    return message;
  } catch (const Error& error) {
    Fail("message from the " + sender + ": " + error.what() +
         "; does it come from another version of dtrain?");
  }
}

}  // namespace

std::string Encode(const TrialMessage& message) { return EncodeLine(message); }

std::string Encode(const RunnerMessage& message) { return EncodeLine(message); }

TrialMessage DecodeTrialMessage(std::string_view line) {
  return Decode<TrialMessage>(line, "trial");
}

RunnerMessage DecodeRunnerMessage(std::string_view line) {
  return Decode<RunnerMessage>(line, "runner");
}

std::span<const std::string_view> NamesOf(EndReason) { return kReasons; }

std::string_view EndReasonName(EndReason reason) {
  return kReasons[static_cast<std::size_t>(reason)];
}

}  // namespace dtrain
