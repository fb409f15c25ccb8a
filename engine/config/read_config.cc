// ReadConfig works in four steps. ReadYaml (yaml_reader.h) parses the text into
// a tree of Nodes with places, and ApplyOverrides changes it by `--set`.
// EffectiveReader checks each key by the schema and returns the effective
// configuration: JSON with every default. CheckConfig and CheckHparamRules
// check the rules between keys. BuildConfig then copies the values to the
// members of ExperimentConfig. Each step reports all of its findings; a key
// with an error has its default in later steps, so that one mistake causes one
// finding.

#include "engine/config/read_config.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/base/web_address.h"
#include "engine/config/config_check.h"
#include "engine/config/entrypoint.h"
#include "engine/config/environment.h"
#include "engine/config/findings.h"
#include "engine/config/hyperparameters.h"
#include "engine/config/metric_source.h"
#include "engine/config/node.h"
#include "engine/config/schema.h"
#include "engine/config/value_reader.h"
#include "engine/config/yaml_reader.h"
#include "searchers/registry.h"

namespace dtrain {
namespace {

// Overrides. `--set KEY=VALUE` changes the tree before it is checked, so
// overrides follow the same rules as the file. An override wins over the file:
// keys of the file that cannot be combined with it are removed instead of being
// reported as conflicts.

// Returns the node of `path`, adding missing maps on the way. Returns null if a
// node on the way is not a map.
Node* Place(Node& root, const std::vector<std::string>& path, Mark mark,
            Findings& findings) {
  Node* node = &root;
  std::string walked;
  for (const std::string& name : path) {
    if (node->is_null()) node->kind = Node::Kind::kMap;
    if (!node->is_map()) {
      findings.Error(mark, walked,
                     "is " + Describe(*node) + ", not a map with a key '" +
                         name + "'; set the whole value");
      return nullptr;
    }
    Node* child = node->Find(name);
    if (child == nullptr) {
      node->entries.push_back({name, mark, {}});
      child = &node->entries.back().value;
      child->mark = mark;
    }
    node = child;
    walked = JoinPath(walked, name);
  }
  return node;
}

// Returns the keys of `section` that cannot be combined with `name`.
std::vector<std::string_view> ExcludedBy(const std::string& section,
                                         std::string_view name) {
  struct Rule {
    std::string_view section;
    std::string_view name;
    std::vector<std::string_view> excluded;
  };
  static const std::vector<Rule> kRules = {
      {"searcher", "max_length", {"max_time", "time_metric"}},
      {"searcher", "max_time", {"max_length"}},
      {"searcher", "source_trial_id", {"source_checkpoint_uuid"}},
      {"searcher", "source_checkpoint_uuid", {"source_trial_id"}},
      {"checkpoint_storage", "path", {"host_path", "container_path"}},
      {"checkpoint_storage", "host_path", {"path", "container_path"}},
      {"checkpoint_storage", "container_path", {"path", "host_path"}},
      {"checkpoint_storage", "storage_path", {"checkpoint_path"}},
      {"checkpoint_storage", "checkpoint_path", {"storage_path"}},
      {"notify", "url", {"url_env"}},
      {"notify", "url_env", {"url"}},
      {"optimizations.clip_gradients", "norm", {"value"}},
      {"optimizations.clip_gradients", "value", {"norm"}},
  };
  for (const Rule& rule : kRules) {
    if (rule.section == section && rule.name == name) return rule.excluded;
  }
  return {};
}

bool IsLength(const std::string& path) {
  const KeySpec* key = FindKey(path);
  return key != nullptr &&
         (key->type == KeyType::kLength || key->type == KeyType::kPeriod ||
          key->type == KeyType::kBudget);
}

// Removes keys of the file that cannot be combined with the override. Overrides
// that exclude each other are left for CheckConfig to report.
// Without this, `--set searcher.max_time=9` would be an error for every file
// that has max_length.
void RemoveExcluded(const std::vector<std::string>& path, Node& root) {
  const std::vector<std::string> parents(path.begin(), path.end() - 1);
  const std::string section = Join(parents, ".");
  Node* map = &root;
  for (const std::string& name : parents) {
    map = map == nullptr ? nullptr : map->Find(name);
  }
  if (map == nullptr) {
    // A unit of a length that the file does not have.
    if (IsLength(section)) RemoveExcluded(parents, root);
    return;
  }
  const auto from_file = [](const Node& node) {
    return node.mark.override_index < 0;
  };
  if (IsLength(section)) {
    if (!map->is_map() && from_file(*map)) *map = {.mark = map->mark};
    std::erase_if(map->entries, [&](const Node::Entry& entry) {
      return entry.key != path.back() && from_file(entry.value);
    });
    return RemoveExcluded(parents, root);
  }
  const std::vector<std::string_view> excluded =
      ExcludedBy(section, path.back());
  std::erase_if(map->entries, [&](const Node::Entry& entry) {
    return std::ranges::find(excluded, entry.key) != excluded.end() &&
           from_file(entry.value);
  });
}

bool IsEmpty(std::string_view value) {
  return value.find_first_not_of(" \t") == value.npos;
}

// Removes the key of `path`. A key that is neither present nor in the schema is
// an error, because it is probably a typing error.
void Unset(const std::vector<std::string>& path, Mark mark, Node& root,
           Findings& findings) {
  Node* map = &root;
  for (auto name = path.begin(); name != path.end() - 1; ++name) {
    map = map == nullptr ? nullptr : map->Find(*name);
  }
  const std::string whole = Join(path, ".");
  if (map != nullptr && map->Find(path.back()) != nullptr) {
    std::erase_if(map->entries, [&](const Node::Entry& entry) {
      return entry.key == path.back();
    });
    return;
  }
  const std::vector<std::string> parents(path.begin(), path.end() - 1);
  if (FindKey(whole) != nullptr || IsLength(Join(parents, "."))) return;
  std::vector<std::string> names = KeyNames(Join(parents, "."));
  if (map != nullptr) {
    for (const Node::Entry& entry : map->entries) names.push_back(entry.key);
  }
  const std::string hint = DidYouMean(path.back(), names);
  findings.Error(mark, whole,
                 "is not set, so it cannot be removed" +
                     (hint.empty() ? "; leave it out" : hint));
}

void ApplyOverride(const std::string& text, Mark mark, Node& root,
                   Findings& findings) {
  const std::size_t equals = text.find('=');
  const std::vector<std::string> path = Split(text.substr(0, equals), '.');
  const bool nameless = std::any_of(
      path.begin(), path.end(), [](const auto& name) { return name.empty(); });
  if (equals == text.npos || nameless) {
    findings.Error(mark, "",
                   "expected a key and a value; write it as "
                   "searcher.metric=accuracy");
    return;
  }
  const std::string_view written = std::string_view(text).substr(equals + 1);
  if (IsEmpty(written)) {
    Unset(path, mark, root, findings);
    return;
  }
  std::optional<Node> value = ReadYaml(written, mark, findings);
  if (!value) return;
  if (!value->is_null()) RemoveExcluded(path, root);
  Node* place = Place(root, path, mark, findings);
  if (place == nullptr) return;
  value->mark = mark;
  *place = *std::move(value);
}

// Applies each `a.b=VALUE` to the tree, in order, adding missing maps. VALUE
// is YAML: `[1, 2]`, `{epochs: 5}`, `1e-4`, `"5"`; an empty VALUE removes the
// key. Keys of the file that cannot be combined with `a.b`, such as another
// unit of a length, are removed.
void ApplyOverrides(std::span<const std::string> overrides, Node& root,
                    Findings& findings) {
  for (std::size_t i = 0; i < overrides.size(); ++i) {
    Mark mark;
    mark.override_index = static_cast<int>(i);
    ApplyOverride(overrides[i], mark, root, findings);
  }
}

// Reads a tree by the schema: checks types and bounds of every key, fills in
// defaults, and reports unknown, ignored and unimplemented keys. Walks the
// schema and the tree together. For each section it first reports names that
// the schema does not have, and keys that are ignored or belong to another
// search method; then it reads each key or takes its default. Rules between
// keys are checked by CheckConfig.
class EffectiveReader {
 public:
  EffectiveReader(const Node& root, Findings& findings);

  // Returns the effective configuration: every key that applies, with
  // defaults. Valid only if there are no errors; its sections always exist.
  nlohmann::json Read();

 private:
  nlohmann::json ReadSection(const Node* node, std::string_view section);
  nlohmann::json ReadKey(const KeySpec& key, const Node* section);
  nlohmann::json ReadGiven(const KeySpec& key, const Node& node);
  Node WithoutRemote(const Node& node, std::span<const std::string_view> keys);
  void CheckNames(const Node& node, std::string_view section);
  bool Applies(const KeySpec& key) const;
  void Refuse(const KeySpec& key, Mark mark);

  const Node& root_;
  Findings& findings_;
  std::string method_;  // canonical; "" if it is unknown
};

// Returns the path of a hyperparameter or of a key of another section with this
// name, or "".
std::string PathElsewhere(const Node& root, const std::string& name) {
  const Node* space = root.Find("hyperparameters");
  if (space != nullptr && space->Find(name) != nullptr) {
    return JoinPath("hyperparameters", name);
  }
  struct Meaning {
    std::string_view name;
    std::string_view path;
  };
  static constexpr Meaning kMeanings[] = {
      {"batches", "searcher.max_length.batches"},
      {"epochs", "searcher.max_length.epochs"},
      {"hparams", "hyperparameters"},
      {"hyperparams", "hyperparameters"},
      {"records", "searcher.max_length.records"},
      {"seed", "reproducibility.experiment_seed"}};
  for (const Meaning& meaning : kMeanings) {
    if (meaning.name == name) return std::string(meaning.path);
  }
  for (const KeySpec& key : Schema()) {
    if (key.name() == name && !key.ignored()) return std::string(key.path);
  }
  return "";
}

// Returns the keys that Determined has for a type of storage that is not a
// directory of this machine, or nothing for another type or section.
std::vector<std::string_view> RemoteKeys(const KeySpec& key, const Node& node) {
  struct Remote {
    std::string_view type;
    std::vector<std::string_view> keys;
  };
  static const std::vector<Remote> kRemote = {
      {"azure",
       {"container", "connection_string", "account_url", "credential"}},
      {"gcs", {"bucket", "prefix"}},
      {"hdfs", {"hdfs_url", "hdfs_path", "user"}},
      {"s3", {"bucket", "access_key", "secret_key", "endpoint_url", "prefix"}},
  };
  const Node* type = node.Find("type");
  if (key.path != "checkpoint_storage" || type == nullptr) return {};
  if (!type->is_string()) return {};
  for (const Remote& remote : kRemote) {
    if (remote.type == type->text) return remote.keys;
  }
  return {};
}

EffectiveReader::EffectiveReader(const Node& root, Findings& findings)
    : root_(root), findings_(findings) {
  const Node* searcher = root.Find("searcher");
  const Node* name = searcher ? searcher->Find("name") : nullptr;
  if (name == nullptr) return;
  // Errors in the key are reported when the key itself is read.
  Findings discarded = Findings::Discarding();
  const auto method = ReadValue(*FindKey("searcher.name"), *name, discarded);
  if (method) method_ = method->get<std::string>();
}

nlohmann::json EffectiveReader::Read() { return ReadSection(&root_, ""); }

// Without `node`, all keys have defaults and required keys are not reported.
nlohmann::json EffectiveReader::ReadSection(const Node* node,
                                            std::string_view section) {
  auto result = nlohmann::json::object();
  if (node != nullptr) CheckNames(*node, section);
  for (const KeySpec& key : Schema()) {
    if (key.section() != section || key.ignored() || !Applies(key)) continue;
    result[std::string(key.name())] = ReadKey(key, node);
  }
  return result;
}

nlohmann::json EffectiveReader::ReadKey(const KeySpec& key,
                                        const Node* section) {
  const Node* node = section ? section->Find(key.name()) : nullptr;
  if (node != nullptr && !node->is_null()) return ReadGiven(key, *node);
  // An unknown searcher has no known required keys.
  const bool required =
      key.required && (SearchersWithKey(key).empty() || !method_.empty());
  if (required && section != nullptr) {
    const Mark mark = node                ? node->mark
                      : section == &root_ ? Mark{}
                                          : section->mark;
    findings_.Error(mark, std::string(key.path),
                    "required but missing; add it");
  }
  if (key.type == KeyType::kSection) return ReadSection(nullptr, key.path);
  return key.Default();
}

nlohmann::json EffectiveReader::ReadGiven(const KeySpec& key,
                                          const Node& node) {
  const bool section =
      key.type == KeyType::kSection || key.type == KeyType::kOptionalSection;
  if (section && node.is_map()) {
    const auto keys = RemoteKeys(key, node);
    if (keys.empty()) return ReadSection(&node, key.path);
    // A file of Determined that stores in a bucket should run here unchanged:
    // its keys are accepted, and a note names the directory instead.
    const Node local = WithoutRemote(node, keys);
    return ReadSection(&local, key.path);
  }
  if (section) {
    ReportType(node, std::string(key.path), "a map", findings_);
    if (key.type == KeyType::kOptionalSection) return nullptr;
    return ReadSection(nullptr, key.path);
  }
  if (key.type == KeyType::kHyperparameters) {
    return ReadHyperparameters(node, findings_);
  }
  std::optional<nlohmann::json> value;
  const int before = findings_.errors();
  if (key.type == KeyType::kPoints || key.type == KeyType::kConstraints) {
    // They are only checked against valid hyperparameters.
    Findings discarded = Findings::Discarding();
    const Node* space = root_.Find("hyperparameters");
    if (space != nullptr) ReadHyperparameters(*space, discarded);
    if (discarded.errors() > 0) return key.Default();
    value = key.type == KeyType::kPoints
                ? ReadPoints(node, space, findings_)
                : ReadConstraints(node, space, findings_);
  } else if (key.type == KeyType::kEntrypoint) {
    value = ReadEntrypoint(node, findings_);
  } else if (key.type == KeyType::kEnvironment) {
    value = ReadEnvironment(node, std::string(key.path), findings_);
  } else if (key.type == KeyType::kMetrics) {
    value = ReadMetricSource(node, findings_);
  } else {
    value = ReadValue(key, node, findings_);
  }
  if (!value || findings_.errors() > before) return key.Default();
  if (!IsReady(key, *value)) Refuse(key, node.mark);
  return *value;
}

// Returns a section for remote storage as one for a local directory, and says
// where the checkpoints will be.
Node EffectiveReader::WithoutRemote(const Node& node,
                                    std::span<const std::string_view> keys) {
  const auto has = [&](std::string_view name) {
    const Node* value = node.Find(name);
    return value != nullptr && !value->is_null();
  };
  const Node& type = *node.Find("type");
  std::string place =
      "in the store, below experiments/ID/trials; for another directory set "
      "checkpoint_storage.path, without the type";
  for (const auto* name :
       {"path", "host_path", "container_path", "checkpoint_path"}) {
    if (has(name)) place = std::string("in the directory of ") + name;
  }
  findings_.AddNote(type.mark, "checkpoint_storage.type",
                    type.text +
                        " is not supported; checkpoints are written to "
                        "this machine, " +
                        place);
  Node local = node;
  std::erase_if(local.entries, [&](const Node::Entry& entry) {
    return entry.key == "type" ||
           std::ranges::find(keys, entry.key) != keys.end();
  });
  return local;
}

void EffectiveReader::CheckNames(const Node& node, std::string_view section) {
  for (const Node::Entry& entry : node.entries) {
    const std::string path = JoinPath(section, entry.key);
    const KeySpec* key = FindKey(path);
    // A name with a dot must not match a key of another section.
    if (key == nullptr || key->section() != section) {
      findings_.UnknownKey(entry.mark, path, entry.key, KeyNames(section),
                           PathElsewhere(root_, entry.key));
    } else if (key->ignored()) {
      findings_.Ignored(entry.mark, path, key->doc);
    } else if (!Applies(*key) && !entry.value.is_null()) {
      const SearcherEntry* method = FindSearcher(method_);
      std::string hint;
      if (path == "searcher.repeats" && method != nullptr &&
          method->brackets != nullptr) {
        hint =
            ", whose rungs would compare points before all their repeats have "
            "ended";
      } else if (path == "searcher.stop_once" && method != nullptr &&
                 method->model_based) {
        hint =
            ", which pauses trials and promotes them, and stops none for good";
      }
      findings_.Error(entry.mark, path,
                      "only applies to " + Join(SearchersWithKey(*key), ", ") +
                          ", not to " + method_ + hint + "; remove it");
    }
  }
}

bool EffectiveReader::Applies(const KeySpec& key) const {
  const std::vector<std::string> all = SearchersWithKey(key);
  return all.empty() || method_.empty() ||
         std::find(all.begin(), all.end(), method_) != all.end();
}

void EffectiveReader::Refuse(const KeySpec& key, Mark mark) {
  const auto values = nlohmann::json::parse(key.ready);
  const auto& first = values.at(0);
  const bool unset = first.is_null() || first.empty();
  const std::string instead =
      unset ? "leave it out"
            : "use " +
                  (first.is_string() ? first.get<std::string>() : first.dump());
  findings_.NotYet(mark, std::string(key.path),
                   "valid, but this version cannot run it; " + instead);
}

// Checks the hyperparameters by the rules of the model, if there are any.
void CheckHparams(const Node& root, const nlohmann::json& entrypoint,
                  const ReadOptions& options, Findings& findings) {
  if (!options.hparam_rules || !entrypoint.is_string()) return;
  const auto name = entrypoint.get<std::string>();
  const std::vector<HparamRule> rules = options.hparam_rules(name);
  if (rules.empty()) return;
  Findings found(options.file_name, options.overrides, !options.is_generated);
  CheckHparamRules(root.Find("hyperparameters"), name, rules, found);
  findings.Append(std::move(found), /*as_warnings=*/options.recorded);
}

// Returns the checked configuration of a tree, or nothing if there are errors.
std::optional<ExperimentConfig> CheckTree(const Node& root,
                                          const ReadOptions& options,
                                          Findings& findings) {
  EffectiveReader reader(root, findings);
  nlohmann::json effective = reader.Read();
  if (effective["name"].is_null()) {
    // The name of the file without directory and extension.
    std::string_view file = options.file_name;
    const std::size_t slash = file.rfind('/');
    if (slash != file.npos) file.remove_prefix(slash + 1);
    const std::size_t dot = file.rfind('.');
    if (dot != file.npos && dot > 0) file = file.substr(0, dot);
    const bool unnamed = file.empty() || file == "-";
    effective["name"] =
        unnamed ? "experiment" : ToValidUtf8(file.substr(0, 1000));
  }
  CheckConfig(root, options, effective, findings);
  CheckHparams(root, effective.at("entrypoint"), options, findings);
  if (findings.errors() > 0) return std::nullopt;
  ExperimentConfig config = BuildConfig(std::move(effective));
  // The path may be secret, and `effective` is printed.
  if (config.notify && !config.notify->url.empty()) {
    config.effective["notify"]["url"] = ShownUrl(config.notify->url);
  }
  FindStorage(root, options, config.checkpoints);
  FindWarmStartPlaces(root, options, config.warm_start);
  const Node* environment = root.Find("environment");
  const Node* variables =
      environment ? environment->Find("environment_variables") : nullptr;
  if (variables != nullptr) config.environment = EnvironmentValues(*variables);
  return config;
}

std::optional<Node> ReadRoot(std::string_view text, const ReadOptions& options,
                             Findings& findings) {
  std::optional<Node> root = ReadYaml(text, {}, findings);
  if (!root) return std::nullopt;
  if (root->is_null()) {
    findings.Error({}, "", "is empty; write an experiment configuration");
    return std::nullopt;
  }
  if (!root->is_map()) {
    findings.Error(root->mark, "",
                   "expected a map of keys, got " + Describe(*root) +
                       "; start with 'name: ...'");
    return std::nullopt;
  }
  ApplyOverrides(options.overrides, *root, findings);
  if (Node* space = root->Find("hyperparameters")) ExpandGroups(*space);
  return root;
}

}  // namespace

ConfigResult ReadConfig(std::string_view text, const ReadOptions& options) {
  Findings findings(options.file_name, options.overrides,
                    !options.is_generated);
  ConfigResult result;
  const std::optional<Node> root = ReadRoot(text, options, findings);
  if (root) result.config = CheckTree(*root, options, findings);
  result.diagnostics = findings.Release();
  return result;
}

nlohmann::json WithOverrides(const nlohmann::json& config,
                             std::span<const std::string> overrides) {
  Node root = NodeFromJson(config);
  Findings findings("", overrides);
  ApplyOverrides(overrides, root, findings);
  const Diagnostics found = findings.Release();
  if (!found.empty()) throw Error(ErrorKind::kUsage, found[0].ToString());
  return ToJson(root);
}

Diagnostics CheckRecordedHparams(const nlohmann::json& effective,
                                 const ReadOptions& options) {
  Findings findings(options.file_name, options.overrides);
  CheckHparams(NodeFromJson(effective), effective.at("entrypoint"), options,
               findings);
  return findings.Release();
}

ExperimentConfig ConfigFromJson(const nlohmann::json& effective) {
  Findings findings("the stored configuration", {});
  std::optional<ExperimentConfig> config;
  if (effective.is_object()) {
    nlohmann::json with_rules = effective;
    with_rules.emplace("rules", 1);  // recorded before the key existed
    config = CheckTree(NodeFromJson(with_rules), {.stored = true}, findings);
  } else {
    findings.Error({}, "", "is not a JSON object");
  }
  if (config) return *std::move(config);
  for (const Diagnostic& diagnostic : findings.Release()) {
    if (diagnostic.severity != Severity::kError) continue;
    throw Error(ErrorKind::kStore, diagnostic.ToString() +
                                       "; it is damaged, or was written by "
                                       "another version of dtrain");
  }
  throw Error(ErrorKind::kStore, "the stored configuration is damaged");
}

}  // namespace dtrain
