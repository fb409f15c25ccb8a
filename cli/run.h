#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/ci_report.h"
#include "engine/app/requirements.h"
#include "engine/base/clock.h"
#include "engine/config/findings.h"

namespace dtrain {

class CliOption;
class Nodes;
class Reporter;
class Store;
class StoreLayout;
struct DerivedExperiment;
struct ConfigChanges;
struct ExperimentConfig;
struct GlobalOptions;
struct RunResult;

/// Options of every command that judges an experiment that has ended.
struct DemandFlags {
  std::vector<std::string> require;
  bool require_any = false;
  std::optional<std::int64_t> max_failed;

  bool empty() const { return require.empty() && !require_any && !max_failed; }
};

/// Options of every command that runs an experiment.
struct RunFlags {
  bool detach = false;
  bool follow = false;
  DemandFlags demands;
  std::string timeout_text;
  std::string disk_wait;
  bool json = false;
  bool jsonl = false;
  CiFlags ci;
};

/// A command's own result of a finished run.
struct RunConclusion {
  std::string key;  // of `document`, in the JSON that ends the run
  nlohmann::json document;
  std::string text;
  bool met = true;  // else the exit code is that of --require
};

/// RunFlags after validation.
struct RunRequest {
  bool detach = false;
  bool follow = false;  // of a search too, show what trials print
  bool json = false;
  bool jsonl = false;
  CiFlags ci;
  Demands demands;
  std::optional<Duration> timeout;
  std::optional<Duration> disk_wait;  // see RunOptions
  bool retry_failed = false;          // see RunOptions
  Nodes* nodes = nullptr;  // machines that trials run on besides this one
  // The directory whose copy trials work in, if this command made it.
  std::optional<std::filesystem::path> context;
  // Empty: that of `dtrain confirm` for its experiments, nothing for others.
  std::function<std::optional<RunConclusion>(const Store&, const RunResult&)>
      conclude;

  // State for the report of an error.
  Diagnostics diagnostics;                 // about its configuration
  std::optional<std::int64_t> experiment;  // recorded, or found
  bool is_reported = false;                // how it ended
};

/// Adds --require, --require-any and --max-failed. `detach`, if it exists,
/// excludes them.
void AddDemandFlags(CLI::App& app, DemandFlags& flags,
                    const CliOption* detach = nullptr);
/// Validates them. Throws Error(kUsage).
Demands CheckDemandFlags(const DemandFlags& flags);

void AddRunFlags(CLI::App& app, RunFlags& flags);

/// Validates the flags. Throws Error(kUsage) for invalid ones, and for a JUnit
/// file that cannot be written.
RunRequest CheckRunFlags(const RunFlags& flags, const GlobalOptions& globals);

/// Stores the findings about a configuration for a report, and annotates them.
void RecordFindings(RunRequest& request, const Diagnostics& diagnostics);
/// Returns a function that prints findings and passes them to RecordFindings.
std::function<void(const Diagnostics&)> FindingsRecorder(
    RunRequest& request, const GlobalOptions& globals);

/// Calls `body`, a whole command about `name`, and returns its exit code. If it
/// throws Error before a result was reported, writes the error to the JSON
/// document and the CI reports, and rethrows; `main` prints the message.
int RunOrReport(RunRequest& request, const std::string& name,
                const std::function<int()>& body);

/// Finds or records the experiment to run, and returns its id.
using Recording = std::function<std::int64_t(Store& store)>;

/// Opens the store of `layout` for writing, records the experiment and runs it,
/// in the foreground or in the background. Returns the exit code.
int RunRecorded(const StoreLayout& layout, const Recording& record,
                const ExperimentConfig& config, RunRequest& request,
                const GlobalOptions& globals);

/// Does the same in a process of its own and returns the id as soon as it runs
/// the experiment. Throws what it threw before.
std::int64_t StartRunner(const StoreLayout& layout, const Recording& record,
                         const ExperimentConfig& config, RunRequest& request,
                         const GlobalOptions& globals);

/// Options of every command that makes an experiment of a recorded trial.
struct DeriveFlags {
  std::vector<std::string> overrides;
  std::string name;
  std::vector<std::string> labels;
};

/// Adds --set, --name and --label. `source`: whose configuration changes.
void AddDeriveFlags(CLI::App& app, DeriveFlags& flags,
                    const std::string& source);
ConfigChanges ToChanges(const DeriveFlags& flags);

/// Calls RunRecorded for an experiment that is made of a recorded one.
int RunDerived(const StoreLayout& layout, const DerivedExperiment& derived,
               RunRequest& request, const GlobalOptions& globals);

/// Returns the display of a run: a live display or lines on stderr, JSON lines
/// on stdout. `on_begin` is called once the runner holds the experiment.
std::unique_ptr<Reporter> MakeReporter(const StoreLayout& layout,
                                       const RunRequest& request,
                                       const GlobalOptions& globals,
                                       std::function<void()> on_begin);

/// Prints the summary or JSON of a finished run on stdout, errors and the
/// command to resume on stderr, and writes the JUnit file. Returns the exit
/// code.
int ReportResult(const Store& store, const RunResult& result,
                 const ExperimentConfig& config, RunRequest& request,
                 const GlobalOptions& globals);

}  // namespace dtrain
