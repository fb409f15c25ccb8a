// Messages between a trial's process and its runner: one line of JSON each. The
// structs list their fields (engine/wire/json_codec.h); here are the checks
// that a list of fields cannot express. A trial runs its user's code, so a line
// may be anything: whatever cannot be accepted ends in Error(kFailed).
#include "engine/wire/message.h"

#include <array>
#include <span>

#include "engine/base/error.h"
#include "engine/base/rng.h"
#include "engine/base/text.h"
#include "engine/wire/json_codec.h"
#include "engine/wire/trial_spec.h"

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

}  // namespace

void CheckpointSaved::Check() const {
  if (!IsUuid(uuid)) {
    Fail("field 'uuid': " + Quoted(uuid) + " is not a UUID");
  }
  for (const auto& [name, hash] : files) {
    if (IsInside(name)) continue;
    Fail("field 'files': " + Quoted(name) + " is not a file of a checkpoint");
  }
}

void ProfileReport::Check() const {
  if (trained > batches) {
    Fail("field 'trained' is more than 'batches'");
  }
}

std::string Encode(const TrialMessage& message) { return EncodeLine(message); }

std::string Encode(const RunnerMessage& message) { return EncodeLine(message); }

std::string Encode(const TrialSpec& spec) { return EncodeLine(spec); }

TrialMessage DecodeTrialMessage(std::string_view line) {
  return DecodeLine<TrialMessage>(line, "message from the trial",
                                  /*strict=*/true);
}

RunnerMessage DecodeRunnerMessage(std::string_view line) {
  return DecodeLine<RunnerMessage>(line, "message from the runner",
                                   /*strict=*/true);
}

TrialSpec DecodeTrialSpec(std::string_view line) {
  return DecodeLine<TrialSpec>(line, "trial spec", /*strict=*/false);
}

std::span<const std::string_view> EnumNames(EndReason) { return kReasons; }

std::string_view EndReasonName(EndReason reason) {
  return kReasons[static_cast<std::size_t>(reason)];
}

}  // namespace dtrain
