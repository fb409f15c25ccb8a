// ReadConfig works in four steps. ReadYaml (yaml_reader.h) parses the text into
// a tree of Nodes with places, and ApplyOverrides changes it by `--set`.
// EffectiveReader checks each key by the schema and returns the effective
// configuration: JSON with every default. CheckConfig and CheckHparamRules
// check the rules between keys. BuildConfig then copies the values to the
// members of ExperimentConfig. Each step reports all of its findings; a key
// with an error has its default in later steps, so that one mistake causes one
// finding.

#include "engine/config/experiment_config.h"

#include <utility>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/config/config_check.h"
#include "engine/config/effective_reader.h"
#include "engine/config/environment.h"
#include "engine/config/findings.h"
#include "engine/config/hyperparameters.h"
#include "engine/config/overrides.h"
#include "engine/config/schema.h"
#include "engine/config/yaml_reader.h"

namespace dtrain {
namespace {

// Returns the name of the file without directory and extension.
std::string NameOf(std::string_view file) {
  const std::size_t slash = file.rfind('/');
  if (slash != file.npos) file.remove_prefix(slash + 1);
  const std::size_t dot = file.rfind('.');
  if (dot != file.npos && dot > 0) file = file.substr(0, dot);
  const bool unnamed = file.empty() || file == "-";
  return unnamed ? "experiment" : ToValidUtf8(file.substr(0, 1000));
}

// Checks the hyperparameters by the rules of the model, if there are any.
void CheckHparams(const Node& root, const nlohmann::json& entrypoint,
                  const ReadOptions& options, Findings& findings) {
  if (!options.hparam_rules || !entrypoint.is_string()) return;
  const auto name = entrypoint.get<std::string>();
  const std::vector<HparamRule> rules = options.hparam_rules(name);
  if (rules.empty()) return;
  Findings found(options.file_name, options.overrides);
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
    effective["name"] = NameOf(options.file_name);
  }
  CheckConfig(root, options, effective, findings);
  CheckHparams(root, effective.at("entrypoint"), options, findings);
  if (findings.errors() > 0) return std::nullopt;
  ExperimentConfig config = BuildConfig(std::move(effective));
  FindStorage(root, options, config.checkpoints);
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
  return root;
}

}  // namespace

nlohmann::json MaxLengthJson(const ExperimentConfig& config) {
  const std::int64_t length = config.searcher.max_length;
  if (length == 0) return nullptr;
  return {{UnitName(config.length_unit), length}};
}

std::string EntrypointText(const ExperimentConfig& config) {
  if (const auto* name = std::get_if<std::string>(&config.entrypoint)) {
    return *name;
  }
  return Join(std::get<std::vector<std::string>>(config.entrypoint), " ");
}

ConfigResult ReadConfig(std::string_view text, const ReadOptions& options) {
  Findings findings(options.file_name, options.overrides);
  ConfigResult result;
  const std::optional<Node> root = ReadRoot(text, options, findings);
  if (root) result.config = CheckTree(*root, options, findings);
  result.diagnostics = findings.Take();
  return result;
}

Diagnostics CheckRecordedHparams(const nlohmann::json& effective,
                                 const ReadOptions& options) {
  Findings findings(options.file_name, options.overrides);
  CheckHparams(NodeFromJson(effective), effective.at("entrypoint"), options,
               findings);
  return findings.Take();
}

ExperimentConfig ConfigFromJson(const nlohmann::json& effective) {
  Findings findings("the stored configuration", {});
  std::optional<ExperimentConfig> config;
  if (effective.is_object()) {
    config = CheckTree(NodeFromJson(effective), {}, findings);
  } else {
    findings.Error({}, "", "is not a JSON object");
  }
  if (config) return *std::move(config);
  for (const Diagnostic& diagnostic : findings.Take()) {
    if (diagnostic.severity != Severity::kError) continue;
    throw Error(ErrorKind::kStore, diagnostic.ToString() +
                                       "; it is damaged, or was written by "
                                       "another version of dtrain");
  }
  throw Error(ErrorKind::kStore, "the stored configuration is damaged");
}

}  // namespace dtrain
