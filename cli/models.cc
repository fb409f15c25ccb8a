#include <iostream>
#include <memory>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "models/table.h"

namespace dtrain {
namespace {

struct ModelsOptions : TableOptions {};

nlohmann::json ModelJson(const ModelEntry& model) {
  nlohmann::json hparams = nlohmann::json::array();
  for (const HparamDoc& hparam : model.hparams) {
    const bool required = hparam.default_value.empty();
    hparams.push_back(
        {{"name", hparam.name},
         {"type", hparam.type},
         {"required", required},
         {"default", required ? nlohmann::json(nullptr)
                              : nlohmann::json(hparam.default_value)},
         {"doc", hparam.doc}});
  }
  return {{"entrypoint", model.entrypoint},
          {"summary", model.summary},
          {"hyperparameters", std::move(hparams)}};
}

void PrintModelsText(const GlobalOptions& globals) {
  for (const ModelEntry& model : ModelTable()) {
    const std::string line =
        std::string(model.entrypoint) + "  " + std::string(model.summary);
    std::cout << WrapForStdout(line, 0, kWrapIndent) << '\n';
    Table table({{.name = "hyperparameter"},
                 {.name = "type"},
                 {.name = "default"},
                 {.name = "meaning", .elastic = true}});
    for (const HparamDoc& hparam : model.hparams) {
      const bool required = hparam.default_value.empty();
      table.AddRow({"  " + std::string(hparam.name), std::string(hparam.type),
                    required ? "required" : std::string(hparam.default_value),
                    std::string(hparam.doc)});
    }
    PrintTable(table, Format::kText, globals);
    std::cout << '\n';
  }
  std::cout << WrapForStdout("name one as 'entrypoint' in an experiment YAML",
                             0, kWrapIndent)
            << '\n';
}

void PrintModelsCsv(const GlobalOptions& globals) {
  Table table({{.name = "entrypoint"},
               {.name = "hyperparameter"},
               {.name = "type"},
               {.name = "default"},
               {.name = "doc"}});
  for (const ModelEntry& model : ModelTable()) {
    for (const HparamDoc& hparam : model.hparams) {
      table.AddRow({std::string(model.entrypoint), std::string(hparam.name),
                    std::string(hparam.type), std::string(hparam.default_value),
                    std::string(hparam.doc)});
    }
  }
  PrintTable(table, Format::kCsv, globals);
}

int Models(const ModelsOptions& options, const GlobalOptions& globals) {
  switch (options.format()) {
    case Format::kJson: {
      nlohmann::json array = nlohmann::json::array();
      for (const ModelEntry& model : ModelTable()) {
        array.push_back(ModelJson(model));
      }
      PrintJson({{"models", std::move(array)}});
      break;
    }
    case Format::kCsv:
      PrintModelsCsv(globals);
      break;
    case Format::kText:
      PrintModelsText(globals);
      break;
  }
  return kExitDone;
}

}  // namespace

CommandRun SetUpModels(CLI::App& app) {
  auto options = std::make_shared<ModelsOptions>();
  AddTableOptions(app, *options);
  SetHelp(app, {.notes = "The entrypoint of a model is the value of "
                         "'entrypoint' in an experiment YAML.",
                .exits = {{kExitDone}, {kExitUsage}},
                .examples = {
                    {"List the built-in models", "dtrain models"},
                    {"Print the names of the models only",
                     "dtrain models --json | jq -r '.models[].entrypoint'"}}});
  return RunWith(Models, options);
}

}  // namespace dtrain
