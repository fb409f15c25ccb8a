#include "engine/wire/trial_spec.h"

#include <algorithm>
#include <array>
#include <limits>

#include "engine/base/json_depth.h"
#include "engine/wire/json_fields.h"

namespace dtrain {
namespace {

using nlohmann::json;

constexpr std::int64_t kMaxInt = std::numeric_limits<int>::max();

std::vector<int> Gpus(const JsonFields& fields) {
  const json& array = fields.At("gpus");
  if (!array.is_array()) fields.Fail("gpus", "a list of integers");
  std::vector<int> gpus;
  for (const json& gpu : array) {
    const bool ordinal = gpu.is_number_integer() && gpu >= 0 && gpu <= kMaxInt;
    if (!ordinal) fields.Fail("gpus", "a list of integers");
    gpus.push_back(gpu.get<int>());
  }
  return gpus;
}

double GpuShare(const JsonFields& fields) {
  const double share = fields.Number("gpu_share");
  if (share > 0 && share <= 1) return share;
  fields.Fail("gpu_share", "above 0 and at most 1");
}

std::vector<std::string> Command(const JsonFields& fields) {
  const json& words = fields.At("command");
  if (!words.is_array()) fields.Fail("command", "a list of strings");
  std::vector<std::string> command;
  for (const json& word : words) {
    if (!word.is_string()) fields.Fail("command", "a list of strings");
    command.push_back(word.get<std::string>());
  }
  return command;
}

json ToJsonArray(const std::vector<Length>& lengths) {
  json array = json::array();
  for (const Length& length : lengths) array.push_back(LengthToJson(length));
  return array;
}

json ToJsonOrNull(const std::optional<RankAddress>& address) {
  if (!address) return nullptr;
  return {{"host", address->host},
          {"port", address->port},
          {"token", address->token},
          {"ranks_here", address->ranks_here}};
}

std::optional<RankAddress> AddressOf(const JsonFields& fields) {
  const json& object = fields.At("address");
  if (object.is_null()) return std::nullopt;
  const JsonFields address(object, "address of a trial spec");
  return RankAddress{
      .host = address.String("host"),
      .port = static_cast<int>(address.Int("port", 1, 65535)),
      .token = address.String("token"),
      .ranks_here = static_cast<int>(address.Int("ranks_here", 1, kMaxInt))};
}

// In the order of Task.
constexpr std::array kTasks = {"train", "evaluate", "predict", "features",
                               "load"};

Task TaskOf(const JsonFields& fields) {
  const auto found = std::ranges::find(kTasks, fields.String("task"));
  if (found == kTasks.end()) {
    fields.Fail("task", "train, evaluate, predict, features or load");
  }
  return static_cast<Task>(found - kTasks.begin());
}

json ObjectOf(const JsonFields& fields, const char* name) {
  const json& object = fields.At(name);
  if (!object.is_object()) fields.Fail(name, "an object");
  if (NestsDeeperThan(object)) {
    fields.Fail(name, "nested at most " + std::to_string(kMostJsonLevels) +
                          " levels deep");
  }
  return object;
}

}  // namespace

std::string ToString(TrialId id) {
  return std::to_string(id.experiment) + "." + std::to_string(id.number);
}

std::string TrialSpec::CheckpointPath(const std::string& uuid) const {
  return (checkpoints.empty() ? directory + "/checkpoints" : checkpoints) +
         "/" + uuid;
}

json TrialSpec::ToJson() const {
  return {{"experiment", id.experiment},
          {"trial", id.number},
          {"task", kTasks[static_cast<std::size_t>(task)]},
          {"split", split},
          {"limit", limit},
          {"images", images},
          {"run", run},
          {"entrypoint", entrypoint},
          {"library", library},
          {"command", command},
          {"context", context},
          {"master", master},
          {"hparams", hparams},
          {"data", data},
          {"seed", seed},
          {"rank", rank},
          {"world_size", world_size},
          {"address", ToJsonOrNull(address)},
          {"threads", threads},
          {"gpus", gpus},
          {"gpu_share", gpu_share},
          {"directory", directory},
          {"checkpoints", checkpoints},
          {"restore", restore},
          {"warm_start", warm_start},
          {"completed", ToJsonArray(completed)},
          {"until", until ? LengthToJson(*until) : json(nullptr)},
          {"settings", settings.ToJson()}};
}

TrialSpec TrialSpec::FromJson(const json& object) {
  const JsonFields fields(object, "trial spec");
  TrialSpec spec{
      .id = {fields.Int("experiment", 1), fields.Int("trial", 1)},
      .task = TaskOf(fields),
      .split = fields.String("split"),
      .limit = fields.Int("limit"),
      .images = fields.String("images"),
      .run = fields.Int("run"),
      .entrypoint = fields.String("entrypoint"),
      .library = fields.String("library"),
      .command = Command(fields),
      .context = fields.String("context"),
      .hparams = ObjectOf(fields, "hparams"),
      .data = ObjectOf(fields, "data"),
      .seed = static_cast<std::uint32_t>(
          fields.Int("seed", 0, std::numeric_limits<std::uint32_t>::max())),
      .rank = static_cast<int>(fields.Int("rank", 0, kMaxInt)),
      .world_size = static_cast<int>(fields.Int("world_size", 1, kMaxInt)),
      .address = AddressOf(fields),
      .threads = static_cast<int>(fields.Int("threads", 1, kMaxInt)),
      .gpus = Gpus(fields),
      .directory = fields.String("directory"),
      .restore = fields.String("restore"),
      .warm_start = fields.String("warm_start"),
      .settings = TrainerSettings::FromJson(fields.At("settings"))};
  spec.completed = fields.Lengths("completed");
  if (object.contains("master")) spec.master = fields.String("master");
  if (object.contains("checkpoints")) {
    spec.checkpoints = fields.String("checkpoints");
  }
  if (object.contains("gpu_share")) spec.gpu_share = GpuShare(fields);
  if (!fields.At("until").is_null()) spec.until = fields.LengthOf("until");
  return spec;
}

}  // namespace dtrain
