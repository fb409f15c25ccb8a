// The schema joins the tables of keys, and adds to them from SearcherTable
// which search methods exist and which keys each has. The rows of docs/yaml.md
// are generated here; a test compares them with the page.
//
// Keys of Determined that have no meaning here are rows as well (kIgnoredKeys):
// they are accepted with a note that names the reason, so that an existing file
// runs unchanged while a misspelled key remains an error.

#include "engine/config/schema.h"

#include <algorithm>
#include <utility>

#include "engine/base/text.h"
#include "engine/config/experiment_config.h"
#include "searchers/registry.h"

namespace dtrain {
namespace {

// Keys of Determined that are accepted and ignored, each with a note that has
// the row's `doc`.
constexpr KeySpec kIgnoredKeys[] = {
    {.path = "bind_mounts",
     .doc = "containers are not used; use paths of this machine"},
    {.path = "data_layer", .doc = "data sources have their own caches"},
    {.path = "debug", .doc = "use `dtrain -v`"},
    {.path = "integrations", .doc = "there are no integrations"},
    {.path = "log_policies", .doc = "restarts only depend on `max_restarts`"},
    {.path = "pbs", .doc = "there is no PBS executor"},
    {.path = "pod_spec", .doc = "containers are not used"},
    {.path = "preemption_timeout",
     .doc = "a stop waits for the end of a batch and its checkpoint"},
    {.path = "project", .doc = "there are no projects; use labels"},
    {.path = "retention_policy",
     .doc = "nothing is deleted by age; use `dtrain delete`"},
    {.path = "security", .doc = "containers are not used"},
    {.path = "tensorboard_storage",
     .doc = "event files are written by `dtrain tensorboard`"},
    {.path = "workspace", .doc = "there are no workspaces; use labels"},
    {.path = "slurm.gpu_type", .doc = "use slurm.constraint or sbatch_args"},
    {.path = "slurm.slots_per_node", .doc = "use slurm.gpus_per_node"},
    {.path = "checkpoint_storage.propagation",
     .doc = "containers are not used"},
    {.path = "checkpoint_storage.tensorboard_path",
     .doc = "event files are written by `dtrain tensorboard`"},
    {.path = "environment.add_capabilities", .doc = "containers are not used"},
    {.path = "environment.drop_capabilities", .doc = "containers are not used"},
    {.path = "environment.force_pull_image", .doc = "containers are not used"},
    {.path = "environment.image",
     .doc = "containers are not used; trials use this machine's libraries"},
    {.path = "environment.pod_spec", .doc = "containers are not used"},
    {.path = "environment.ports", .doc = "containers are not used"},
    {.path = "environment.proxy_ports", .doc = "containers are not used"},
    {.path = "environment.registry_auth", .doc = "containers are not used"},
    {.path = "optimizations.auto_tune_tensor_fusion",
     .doc = "gradients are reduced in buckets of fixed size"},
    {.path = "optimizations.grad_updates_size_file",
     .doc = "gradients are reduced in buckets of fixed size"},
    {.path = "optimizations.gradient_compression",
     .doc = "gradients are reduced in their own type"},
    {.path = "optimizations.tensor_fusion_cycle_time",
     .doc = "gradients are reduced in buckets of fixed size"},
    {.path = "optimizations.tensor_fusion_threshold",
     .doc = "gradients are reduced in buckets of fixed size"},
    {.path = "profiling.begin_on_batch",
     .doc = "a profile covers the whole trial"},
    {.path = "profiling.end_after_batch",
     .doc = "a profile covers the whole trial"},
    {.path = "profiling.sync_timings",
     .doc = "profiling never waits for the device"},
    {.path = "resources.agent_label", .doc = "there are no agents"},
    {.path = "resources.devices", .doc = "containers are not used"},
    {.path = "resources.is_single_node",
     .doc = "not needed; see `WORLD_SIZE` for several machines"},
    {.path = "resources.native_parallel", .doc = "dtrain starts the ranks"},
    {.path = "resources.priority",
     .doc = "the trial that has waited longest gets the next slot"},
    {.path = "resources.resource_pool",
     .doc = "there are no pools; use resources.slots"},
    {.path = "resources.shm_size", .doc = "containers are not used"},
    {.path = "resources.slurm",
     .doc = "may only be empty; the section is `slurm`"},
    {.path = "resources.weight",
     .doc = "the trial that has waited longest gets the next slot"},
};

std::string Bounds(const KeySpec& key) {
  if (key.least == -kMaxCount) return "";
  std::string text = key.above_least ? " > " : " ≥ ";
  text += std::to_string(key.least);
  if (key.most < kMaxCount) text += ", ≤ " + std::to_string(key.most);
  return text;
}

// Returns the words of the key separated by commas; aliases with their meaning.
std::string Words(const KeySpec& key) {
  std::vector<std::string> words = AllowedWords(key);
  for (std::string& word : words) {
    const std::size_t equals = word.find('=');
    if (equals != word.npos) word.replace(equals, 1, " (= ") += ')';
  }
  return Join(words, ", ");
}

// Returns the names of types of only one or a few keys.
std::string SpecialTypeName(KeyType type) {
  switch (type) {
    case KeyType::kBudget:
      return "length or duration";
    case KeyType::kConstraints:
      return "list of expressions";
    case KeyType::kEntrypoint:
      return "`module:Trial`, command, or list of words";
    case KeyType::kEnvironment:
      return "map or list of `NAME=value`, also one each for `cpu` and `cuda`";
    case KeyType::kExperiments:
      return "list of IDs and `label:NAME`";
    case KeyType::kHyperparameters:
      return "map, see below";
    case KeyType::kListen:
      return "port, or `HOST:PORT`";
    case KeyType::kLossScale:
      return "dynamic, or a number > 0";
    case KeyType::kMetrics:
      return "map, see below";
    case KeyType::kPoints:
      return "list of maps";
    case KeyType::kSlots:
      return "auto, none, cpu, `cpu:N`, `gpu:N`, most_free, GPU number or list "
             "of them";
    case KeyType::kSlotsPerTrial:
      return "int ≥ 0, 0.25, 0.5, 0.75 or all";
    case KeyType::kSlurmTime:
      return "minutes, `HOURS:MINUTES:SECONDS` or `DAYS-HOURS`";
    case KeyType::kTrialId:
      return "`EXP.N`";
    case KeyType::kUuid:
      return "UUID or its beginning";
    default:
      return "any";
  }
}

std::string TypeName(const KeySpec& key) {
  switch (key.type) {
    case KeyType::kSection:
    case KeyType::kOptionalSection:
      return "section";
    case KeyType::kBool:
      return "bool";
    case KeyType::kInt:
      return "int" + Bounds(key);
    case KeyType::kNumber:
      return "number" + Bounds(key);
    case KeyType::kText:
      return "string";
    case KeyType::kWord:
      return Words(key);
    case KeyType::kSwitch:
      return "auto, true, false";
    case KeyType::kInts:
      return "list of ints" + Bounds(key);
    case KeyType::kTexts:
      return "list of " + (key.words.empty() ? "strings" : Words(key));
    case KeyType::kMap:
      return "free map";
    case KeyType::kLength:
      return "length";
    case KeyType::kPeriod:
      return "length or 0";
    case KeyType::kDuration:
      return "duration";
    default:
      return SpecialTypeName(key.type);
  }
}

}  // namespace

std::string_view KeySpec::name() const {
  return path.substr(path.rfind('.') + 1);
}

std::string_view KeySpec::section() const {
  const std::size_t dot = path.rfind('.');
  return path.substr(0, dot == path.npos ? 0 : dot);
}

nlohmann::json KeySpec::Default() const {
  auto value = nlohmann::json::parse(fallback);
  // Converted like a given value, so that the default is the same after it was
  // written and read again.
  if (type == KeyType::kDuration && value.is_number()) {
    value = value.get<double>();
  }
  return value;
}

std::span<const KeySpec> Schema() {
  static const std::vector<KeySpec> kAll = [] {
    std::vector<KeySpec> all(UsedKeys().begin(), UsedKeys().end());
    all.insert(all.end(), std::begin(kIgnoredKeys), std::end(kIgnoredKeys));
    return all;
  }();
  return kAll;
}

const KeySpec* FindKey(std::string_view path) {
  const auto all = Schema();
  const auto found =
      std::find_if(all.begin(), all.end(),
                   [&](const KeySpec& key) { return key.path == path; });
  return found == all.end() ? nullptr : &*found;
}

std::vector<std::string> KeyNames(std::string_view section) {
  std::vector<std::string> names;
  for (const KeySpec& key : Schema()) {
    if (key.section() == section) names.emplace_back(key.name());
  }
  return names;
}

bool IsReady(const KeySpec& key, const nlohmann::json& value) {
  if (key.ready.empty()) return true;
  const auto values = nlohmann::json::parse(key.ready);
  return std::find(values.begin(), values.end(), value) != values.end();
}

std::vector<std::string> AllowedWords(const KeySpec& key) {
  if (key.path != "searcher.name") return Split(key.words, ' ');
  std::vector<std::string> words;
  for (const SearcherEntry& entry : SearcherTable()) {
    const std::string name(entry.name);
    words.push_back(name);
    if (!entry.alias.empty()) {
      words.push_back(std::string(entry.alias) + '=' + name);
    }
  }
  return words;
}

std::vector<std::string> SearchersWithKey(const KeySpec& key) {
  std::vector<std::string> names;
  if (key.section() != "searcher") return names;
  for (const SearcherEntry& entry : SearcherTable()) {
    const std::vector<std::string> keys = Split(entry.keys, ' ');
    if (std::ranges::find(keys, key.name()) != keys.end()) {
      names.emplace_back(entry.name);
    }
  }
  return names;
}

ExperimentConfig BuildConfig(nlohmann::json effective) {
  ExperimentConfig config;
  for (const KeySpec& key : Schema()) {
    const nlohmann::json* value = &effective;
    for (const std::string& name : Split(key.path, '.')) {
      const bool found = value->is_object() && value->contains(name);
      value = found ? &value->at(name) : nullptr;
      if (value == nullptr) break;
    }
    if (value != nullptr && key.store != nullptr) key.store(*value, config);
  }
  config.training.requires_metric =
      config.searcher.name != "single" || config.rules < 2;
  config.effective = std::move(effective);
  return config;
}

std::string MarkdownRow(const KeySpec& key) {
  std::string text = "| `" + std::string(key.path) + "` | " + TypeName(key);
  const auto plain = [](const nlohmann::json& value) {
    return value.is_string() ? value.get<std::string>() : value.dump();
  };
  const std::string fallback = key.ignored() || key.type == KeyType::kSection
                                   ? ""
                               : key.required ? "required"
                               : key.type == KeyType::kPeriod
                                   ? "0"
                                   : plain(nlohmann::json::parse(key.fallback));
  text += " | " + fallback + " | " + std::string(key.doc);
  const std::vector<std::string> searchers = SearchersWithKey(key);
  if (!searchers.empty()) text += " (" + Join(searchers, ", ") + ")";
  if (key.ignored()) return text + " | ignored |";
  if (key.ready.empty()) return text + " | yes |";
  std::vector<std::string> values;
  for (const auto& value : nlohmann::json::parse(key.ready)) {
    values.push_back(plain(value));
  }
  const std::string ready = Join(values, ", ");
  const bool none = ready == "null" || ready == "[]" || ready == "{}";
  return text + (none ? " | not yet |" : " | only " + ready + " so far |");
}

}  // namespace dtrain
