#include "engine/wire/trial_spec.h"

#include <array>

#include "engine/wire/json_codec.h"

namespace dtrain {
namespace {

// In the order of Task.
constexpr std::array<std::string_view, 5> kTasks = {
    "train", "evaluate", "predict", "features", "load"};

}  // namespace

std::span<const std::string_view> NamesOf(Task) { return kTasks; }

std::string ToString(TrialId id) {
  return std::to_string(id.experiment) + "." + std::to_string(id.number);
}

std::string TrialSpec::CheckpointPath(const std::string& uuid) const {
  return (checkpoints.empty() ? directory + "/checkpoints" : checkpoints) +
         "/" + uuid;
}

std::string Encode(const TrialSpec& spec) { return EncodeLine(spec); }

TrialSpec DecodeTrialSpec(std::string_view line) {
  return DecodeLine<TrialSpec>(line, "trial spec", /*strict=*/false);
}

}  // namespace dtrain
