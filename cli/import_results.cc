#include "engine/app/import_results.h"

#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "engine/app/config_file.h"
#include "engine/app/provenance.h"
#include "engine/app/secrets.h"
#include "engine/app/stores.h"
#include "engine/base/clock.h"
#include "engine/base/rounding.h"
#include "engine/config/experiment_config.h"
#include "engine/report/format.h"
#include "engine/report/json_view.h"

namespace dtrain {
namespace {

struct ImportResultsOptions : JsonOption {
  ResultImport import;
};

int ImportResults(const ImportResultsOptions& options,
                  const GlobalOptions& globals) {
  const ImportedExperiment imported = ReadImport(options.import);
  Diagnostics findings;
  const ExperimentConfig config = CheckImportedConfig(imported, findings);
  PrintDiagnostics(findings, globals);
  for (const std::string& note : imported.results.notes) {
    PrintNotice(globals, "note: " + note);
  }
  Store store = OpenStoreForWriting(FindStore(globals), globals);
  const auto same = FindSameImport(store, imported.origin);
  const std::int64_t id =
      RecordImport(store, imported, config,
                   Provenance(RecordedArgv(globals.argv), ".", /*gpus=*/{}),
                   Clock::System().now());
  if (same) {
    PrintNotice(globals,
                "warning: the same results were already imported as "
                "experiment " +
                    std::to_string(*same) + "; 'dtrain delete " +
                    std::to_string(id) + "' removes the new copy");
  }
  const ExperimentRow row = FindExperiment(store, id);
  std::int64_t values = 0;
  std::set<std::string> hparams, metrics;
  for (const ImportedTrial& trial : imported.results.trials) {
    values += std::ssize(trial.values);
    for (const auto& [name, value] : trial.hparams) hparams.insert(name);
    for (const ImportedValue& value : trial.values) metrics.insert(value.name);
  }
  const auto print_names = [&](const std::string& what,
                               const std::set<std::string>& names,
                               const std::string& remedy) {
    const std::vector<std::string> all(names.begin(), names.end());
    PrintNotice(
        globals,
        what + ": " + (all.empty() ? "none" : JoinFirst(all, 30)) + remedy);
  };
  print_names("hyperparameters", hparams, "");
  print_names("metrics", metrics,
              imported.results.guesses_metrics && metrics.size() > 1
                  ? "; if one is a hyperparameter, name all of those with --hp"
                  : "");
  if (options.json) {
    nlohmann::json best =
        BestJson(row.best, row.metric, {row.id, row.best_trial});
    AddLength(CountedUnit(store, id), best);
    PrintJson({{"experiment", id},
               {"name", row.name},
               {"trials", row.trials},
               {"values", values},
               {"metric", row.metric},
               {"smaller_is_better", row.smaller_is_better},
               {"hyperparameters", hparams},
               {"metrics", metrics},
               {"best", std::move(best)},
               {"imported", imported.origin}});
    return kExitDone;
  }
  std::cout << id << '\n';
  PrintNotice(globals,
              "experiment " + std::to_string(id) + " has " +
                  CountText(row.trials, "trial") + " and " +
                  CountText(values, "value") +
                  (row.best ? "; best " + row.metric + " " +
                                  FormatMetric(row.best->value) + ", trial " +
                                  ToString(TrialId{id, row.best_trial})
                            : "; none has a finite " + row.metric));
  return kExitDone;
}

}  // namespace

CommandRun SetUpImportResults(CLI::App& app) {
  auto options = std::make_shared<ImportResultsOptions>();
  ResultImport& import = options->import;
  AddOption(app, "SOURCE", import.source,
            "CSV or JSON lines, database of Optuna (optuna:sqlite:///FILE), "
            "or directory: of 'dtrain export', W&B, or event files")
      .Required()
      .IsPath();
  AddOption(app, "--metric", import.metric,
            "Metric that decides which trial is best (default: the only one)")
      .TypeName("NAME")
      .NotEmpty();
  AddFlag(app, "--maximize", import.maximize,
          "Larger values of the metric are better");
  AddOption(app, "--hp", import.hparams,
            "Column that is a hyperparameter (repeatable; default: hp.*, "
            "config.*, params_* and the like)")
      .TypeName("COLUMN")
      .OneEach();
  AddOption(app, "--values", import.values,
            "Table of the values of these trials: columns trial, step, name "
            "and value")
      .TypeName("FILE")
      .IsPath();
  AddOption(app, "--study", import.study,
            "Study of a database of Optuna that has several")
      .TypeName("NAME")
      .NotEmpty();
  AddOption(app, "--name", import.name,
            "Name of the experiment (default: that of SOURCE)")
      .TypeName("NAME")
      .NotEmpty();
  AddJsonOption(app, *options);
  SetHelp(
      app,
      {.notes = "Records results of other programs as a COMPLETED "
                "experiment, for comparisons, plots and "
                "searcher.warm_start.",
       .exits = {{kExitDone, "the results were recorded"},
                 {kExitUsage, "they cannot be imported; nothing was recorded"},
                 {kExitStore}},
       .examples = {{"Import a table with a trial a row",
                     "dtrain import-results results.csv --metric accuracy "
                     "--maximize"},
                    {"Import a study of Optuna",
                     "dtrain import-results optuna:sqlite:///study.db"}}});
  return RunWith(ImportResults, options);
}

}  // namespace dtrain
