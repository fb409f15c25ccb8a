// The YAML of `dtrain run`: from options and a command to a configuration.
//
// The configuration is made twice, as it is written (`config`) and as it is
// with all --set overrides (`changed`), because whether a placeholder such as
// {length} exists, and which search method has a key, depends on the overrides.
// Only `config` is written; the overrides are applied again when the YAML is
// read.
//
// A program that cannot resume from a checkpoint must not be trained further by
// promotion. So a halving search gets stop_once (train to the end, stop at
// rungs) unless the program resumes or takes its length as an argument. Without
// resuming, the latter is started again for each promotion
// (restarts_on_promotion).

#include "engine/convert/inline_experiment.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/config/hparam_spec.h"
#include "engine/config/read_config.h"
#include "engine/config/schema.h"
#include "engine/convert/inline_command.h"
#include "searchers/hparam_conditions.h"
#include "searchers/hparam_space.h"

namespace dtrain {
namespace {

using SpecJson = nlohmann::json;

[[noreturn]] void RefuseOption(const std::string& option,
                               const std::string& what) {
  throw Error(ErrorKind::kUsage, option + ": " + what);
}

bool IsRange(const SpecJson& spec) {
  return spec.is_object() && spec.value("type", "const") != "const";
}

// Adds one --hp to `all` and returns whether it is a range.
bool AddHyperparameter(const std::string& argument, SpecJson& all) {
  const std::size_t equals = argument.find('=');
  const std::string option = "--hp '" + argument + "'";
  if (equals == argument.npos || equals == 0) {
    RefuseOption(option,
                 "expected NAME=SPEC, such as lr=log(1e-5,1e-1) or batch=32");
  }
  const std::vector<std::string> path = Split(argument.substr(0, equals), '.');
  SpecJson* at = &all;
  for (const std::string& part : path) {
    if (part.empty()) RefuseOption(option, "a part of the name is empty");
    const bool is_leaf_above =
        !at->is_object() || (at != &all && at->contains("type"));
    const bool is_last = &part == &path.back();
    if (is_leaf_above || (is_last && at->contains(part))) {
      RefuseOption(option, "this hyperparameter is given twice");
    }
    if (path.size() > 1 && part == "type") {
      RefuseOption(option, "a nested hyperparameter cannot be named 'type'");
    }
    if (!at->contains(part)) (*at)[part] = SpecJson::object();
    at = &(*at)[part];
  }
  *at = ReadHparamSpec(option, std::string_view(argument).substr(equals + 1));
  return IsRange(*at);
}

// Returns the name of the script, or else of the program, without directory and
// extension.
std::string ScriptName(const std::vector<std::string>& command) {
  const auto stem = [](std::string word) {
    word.erase(0, word.rfind('/') + 1);
    return word.substr(0, std::max<std::size_t>(word.rfind('.'), 1));
  };
  for (const std::string& word : command) {
    const bool is_script = std::ranges::any_of(
        std::array{".py", ".sh", ".pl", ".R", ".jl"},
        [&](const auto* end) { return word.ends_with(end); });
    if (is_script) return stem(word);
  }
  return stem(command.front());
}

// True if the search method has the key, such as max_trials.
bool Has(const std::string& searcher, const std::string& key) {
  std::string name = searcher;
  for (const std::string& word : AllowedWords(*FindKey("searcher.name"))) {
    const std::size_t equals = word.find('=');
    if (word.substr(0, equals) == searcher && equals != word.npos) {
      name = word.substr(equals + 1);
    }
  }
  const auto searchers = SearchersWithKey(*FindKey("searcher." + key));
  return searchers.empty() ||
         std::ranges::find(searchers, name) != searchers.end();
}

// True if trials end at different lengths.
bool Halves(const std::string& searcher) {
  return searcher != "single" && searcher != "random" && searcher != "grid";
}

SpecJson MakeSearcherSection(const InlineExperiment& experiment,
                             bool has_range) {
  const std::string name = !experiment.searcher.empty() ? experiment.searcher
                           : has_range                  ? "random"
                                                        : "single";
  SpecJson searcher = {{"name", name}, {"metric", experiment.metric}};
  if (experiment.maximize) searcher["smaller_is_better"] = false;
  const bool counts = Has(name, "max_trials");
  if (counts && !experiment.max_trials) {
    RefuseOption("--max-trials",
                 "is required by the " + name + " search; add --max-trials N");
  }
  if (!counts && experiment.max_trials) {
    RefuseOption("--max-trials",
                 "does not apply to " + name +
                     (name == "grid" ? ", which tries every point"
                                     : ", which is one trial"));
  }
  if (counts) searcher["max_trials"] = *experiment.max_trials;
  if (experiment.repeats) {
    if (!Has(name, "repeats")) {
      RefuseOption("--repeats", "does not apply to " + name +
                                    ", whose rungs would compare points before "
                                    "all their repeats have ended; choose "
                                    "another --searcher");
    }
    searcher["repeats"] = *experiment.repeats;
    // Points are compared at their full length.
    if (Halves(name)) searcher["num_rungs"] = 1;
  }
  if (!experiment.constraints.empty()) {
    if (!Has(name, "constraints")) {
      RefuseOption("--constraint",
                   "does not apply to " + name +
                       ", which is one trial; leave it out, or add a range by "
                       "--hp");
    }
    searcher["constraints"] = experiment.constraints;
  }
  if (Halves(name) && experiment.max_length.empty()) {
    RefuseOption("--max-length",
                 "is required by " + name +
                     "; add --max-length UNIT=N, such as epochs=27");
  }
  if (!Halves(name) && experiment.resumable) {
    RefuseOption("--resumable",
                 "does not apply to " + name +
                     ", which trains every trial once to its length");
  }
  if (!experiment.max_length.empty()) {
    searcher["max_length"] = ParseMaxLength(experiment.max_length);
  }
  return searcher;
}

// Returns a map of the configuration, which an override may have replaced.
SpecJson GetSection(const SpecJson& config, const std::string& name) {
  const auto found = config.find(name);
  const bool is_map = found != config.end() && found->is_object();
  return is_map ? *found : SpecJson::object();
}

// Returns the key `metrics`; null if no option has a part of it.
SpecJson MakeMetricsSection(const InlineExperiment& experiment) {
  SpecJson metrics;
  if (!experiment.metrics_file.empty()) {
    metrics["file"] = experiment.metrics_file;
  }
  for (const std::string& pattern : experiment.patterns) {
    const std::size_t equals = pattern.find('=');
    const std::string option = "--pattern '" + pattern + "'";
    const std::string name = pattern.substr(0, equals);
    if (equals == pattern.npos || name.empty() ||
        equals + 1 == pattern.size()) {
      RefuseOption(
          option, "expected NAME=REGEX, such as 'val_acc=val_acc[:= ]+(\\S+)'");
    }
    if (metrics.contains(name)) {
      RefuseOption(option, "'" + name + "' is given twice");
    }
    const std::string value = pattern.substr(equals + 1);
    const bool is_number = name == "first_step" || name == "first_value";
    metrics[name] = is_number ? ReadSpecValue(option, value) : SpecJson(value);
  }
  return metrics;
}

}  // namespace

nlohmann::json ParseMaxLength(const std::string& text) {
  const std::string option = "--max-length '" + text + "'";
  const std::size_t equals = text.find('=');
  const std::string unit = text.substr(0, equals);
  const std::vector<std::string> units = {"batches", "records", "epochs"};
  if (equals == text.npos || std::ranges::find(units, unit) == units.end()) {
    RefuseOption(option, "expected UNIT=N, such as epochs=27; units: " +
                             Join(units, ", ") + DidYouMean(unit, units));
  }
  const SpecJson length = ReadSpecValue(option, text.substr(equals + 1));
  if (!length.is_number_integer() || length < 1) {
    RefuseOption(option,
                 "expected an integer of at least 1 after '" + unit + "='");
  }
  return SpecJson::object({{unit, length}});
}

InlineYaml WriteInlineYaml(const InlineExperiment& experiment) {
  for (const std::string& one : experiment.overrides) {
    if (one.substr(0, one.find_first_of(".=")) != "entrypoint") continue;
    RefuseOption("--set entrypoint",
                 "the program follows '--' here; leave it out");
  }
  SpecJson hyperparameters = SpecJson::object();
  bool has_range = false;
  for (const std::string& argument : experiment.hyperparameters) {
    has_range |= AddHyperparameter(argument, hyperparameters);
  }
  SpecJson config = {{"name", ScriptName(experiment.command)},
                     {"searcher", MakeSearcherSection(experiment, has_range)}};
  if (!hyperparameters.empty()) config["hyperparameters"] = hyperparameters;
  SpecJson metrics = MakeMetricsSection(experiment);
  if (!metrics.is_null()) config["metrics"] = std::move(metrics);
  if (!experiment.labels.empty()) config["labels"] = experiment.labels;
  SpecJson changed = WithOverrides(config, experiment.overrides);
  InlineYaml yaml;
  const auto names = HparamNames(GetSection(changed, "hyperparameters"));
  std::vector<std::string> placeholders;
  for (const HparamName& one : names) placeholders.push_back(one.name);
  placeholders.insert(placeholders.end(),
                      {"checkpoint", "directory", "seed", "trial"});
  const SpecJson searcher = GetSection(changed, "searcher");
  if (searcher.contains("max_length") || searcher.contains("max_time")) {
    placeholders.emplace_back("length");
  }
  const auto [entrypoint, placed] =
      ReadInlineCommand(experiment.command, placeholders);
  config["entrypoint"] = entrypoint;
  changed["entrypoint"] = entrypoint;
  const std::set<std::string> deciding =
      HparamConditions(GetSection(changed, "hyperparameters")).Deciding();
  for (const auto& [name, whole] : names) {
    const bool is_placed =
        !whole.empty() || deciding.contains(name) ||
        std::ranges::any_of(placed, [&](const std::string& one) {
          return one == name || one.starts_with(name + ".");
        });
    if (!is_placed) yaml.unplaced.push_back(name);
  }
  const bool resumes = experiment.resumable || experiment.script_continues ||
                       placed.contains("checkpoint");
  const bool restarts = placed.contains("length") && !resumes;
  const SpecJson name =
      GetSection(changed, "searcher").value("name", SpecJson());
  const bool halves = name.is_string() && Halves(name);
  if (halves && Has(name, "stop_once")) {
    config["searcher"]["stop_once"] = !resumes && !restarts;
    changed = WithOverrides(config, experiment.overrides);
  }
  yaml.finds_metrics = !GetSection(changed, "metrics").empty();
  yaml.stops_at_rungs =
      GetSection(changed, "searcher").value("stop_once", SpecJson()) == true;
  yaml.restarts_on_promotion = halves && restarts && !yaml.stops_at_rungs;
  yaml.text = ToYaml(config);
  yaml.printed = ToYaml(changed);
  return yaml;
}

}  // namespace dtrain
