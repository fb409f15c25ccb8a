// `dtrain set`: changes the name, the description or the maximum number of
// slots of a recorded experiment, in its configuration. The text of its YAML
// stays as the user wrote it.

#include <algorithm>
#include <memory>
#include <utility>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "engine/app/config_file.h"
#include "engine/app/stores.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/config/read_config.h"

namespace dtrain {
namespace {

using nlohmann::json;

struct SetOptions : JsonOption {
  std::string experiment;
  std::string value;
};

// A key of the configuration that may change, and the command's name for it.
struct SettableKey {
  std::string_view command;  // "max-slots"
  std::string_view name;     // "max_slots", in JSON
  const char* pointer;       // "/resources/max_slots"
  std::string_view path;     // "resources.max_slots"
};

constexpr SettableKey kName = {"name", "name", "/name", "name"};
constexpr SettableKey kDescription = {"description", "description",
                                      "/description", "description"};
constexpr SettableKey kMaxSlots = {
    "max-slots", "max_slots", "/resources/max_slots", "resources.max_slots"};

// Returns the value that `yaml` has as this key of the configuration. Throws
// Error(kUsage) if it is not valid there.
json CheckedValue(const SettableKey& key, const json& config,
                  const std::string& yaml) {
  const ConfigResult read = ReadConfig(
      ToYaml(config), {.file_name = "the recorded configuration",
                       .overrides = {std::string(key.path) + "=" + yaml},
                       .recorded = true,
                       .is_generated = true});
  if (read.config)
    return read.config->effective.at(json::json_pointer(key.pointer));
  const auto error = std::ranges::find(read.diagnostics, Severity::kError,
                                       &Diagnostic::severity);
  throw Error(ErrorKind::kUsage, "set " + std::string(key.command) + ": " +
                                     (error == read.diagnostics.end()
                                          ? "'" + yaml + "' is not valid"
                                          : error->message));
}

std::string ValueText(const SettableKey& key, const std::string& value) {
  if (key.command != kMaxSlots.command) return QuotedForYaml(value);
  return value == "none" ? "null" : value;
}

void RequireOpen(const SettableKey& key, const ExperimentRow& row) {
  if (key.command != kMaxSlots.command || !IsFinal(row.state)) return;
  throw Error(ErrorKind::kFailed,
              "experiment " + std::to_string(row.id) + " is " +
                  std::string(StateName(row.state)) +
                  " and uses no more slots; nothing was changed");
}

// Describes when a new maximum number of slots applies.
std::string WhenApplied(const ExperimentRow& row) {
  return row.state == State::kRunning
             ? "; running trials continue, and others start only within this "
               "limit; for more slots than its run began with, pause and "
               "resume the experiment"
             : "; it applies when the experiment is resumed";
}

int Set(const SettableKey& key, const SetOptions& options,
        const GlobalOptions& globals) {
  const std::int64_t id =
      ResolveExperiment(OpenStore(globals), options.experiment);
  Store store = OpenStoreToChange(globals, {id});
  ExperimentDetail detail;
  json value;
  store.Write([&](StoreWriter& writer) {
    // Read inside the transaction, so that no other writer interferes.
    detail = FindExperimentDetail(store, id);
    RequireOpen(key, detail.row);
    value = CheckedValue(key, detail.config, ValueText(key, options.value));
    detail.config[json::json_pointer(key.pointer)] = value;
    writer.SetConfig(id, detail.config);
  });
  if (options.json) {
    PrintJson({{"experiment", id}, {std::string(key.name), value}});
    return kExitDone;
  }
  const std::string shown =
      value.is_string() ? "'" + value.get<std::string>() + "'" : value.dump();
  const bool is_slots = key.command == kMaxSlots.command;
  PrintNotice(globals, "experiment " + std::to_string(id) + ": " +
                           std::string(key.name) + " is now " + shown +
                           (is_slots ? WhenApplied(detail.row) : ""));
  return kExitDone;
}

struct SetTexts {
  std::string_view value;  // name of the argument
  std::string help;        // on it
  std::string_view notes;
  std::vector<HelpExample> examples;
};

CommandRun SetUpSet(CLI::App& app, const SettableKey& key, SetTexts texts) {
  auto options = std::make_shared<SetOptions>();
  AddOption(app, "EXP", options->experiment, "Experiment ID (3)").Required();
  AddOption(app, std::string(texts.value), options->value, texts.help)
      .Required();
  AddJsonOption(app, *options);
  std::vector<ExitMeaning> exits = {{kExitDone}};
  if (key.command == kMaxSlots.command) {
    exits.push_back({kExitFailed, "the experiment has ended"});
  }
  exits.insert(exits.end(), {{kExitUsage}, {kExitNotFound}, {kExitStore}});
  SetHelp(app, {.notes = texts.notes,
                .exits = std::move(exits),
                .examples = std::move(texts.examples)});
  return [&key, options](const GlobalOptions& globals) {
    return Set(key, *options, globals);
  };
}

}  // namespace

CommandRun SetUpSetName(CLI::App& app) {
  return SetUpSet(
      app, kName,
      {.value = "NAME",
       .help = "New name, at most 1,000 bytes",
       .examples = {{"Rename an experiment", "dtrain set name 3 baseline"},
                    {"Rename the newest experiment",
                     "dtrain set name last 'larger batches'"}}});
}

CommandRun SetUpSetDescription(CLI::App& app) {
  return SetUpSet(
      app, kDescription,
      {.value = "DESCRIPTION",
       .help = "New description; '' removes it",
       .notes = "'dtrain note' attaches a note, which is not part of the "
                "configuration.",
       .examples = {
           {"Describe an experiment",
            "dtrain set description 3 'batch size doubled'"},
           {"Remove the description", "dtrain set description 3 ''"}}});
}

CommandRun SetUpSetMaxSlots(CLI::App& app) {
  return SetUpSet(
      app, kMaxSlots,
      {.value = "SLOTS",
       .help = "New maximum of slots in use at a time, or none for no limit",
       .notes =
           "Trials that run continue. Fewer slots apply at once: no trial "
           "starts above the limit. More slots than the run began with apply "
           "after 'dtrain pause' and 'dtrain resume'.",
       .examples = {
           {"Leave GPUs to other experiments", "dtrain set max-slots 3 2"},
           {"Remove the limit", "dtrain set max-slots 3 none"}}});
}

}  // namespace dtrain
