// `dtrain create`, and the part of `dtrain run` that begins with a YAML text.
//
// The order in CreateAndRun is that of cost and of traces left. The
// configuration is checked first, then the files, checkpoints and slots that it
// needs, so that an impossible experiment leaves nothing behind; --dry-run ends
// there. Then a model is compiled, and jobs and the program are checked on this
// machine; --test ends there. Only after that the store is opened for writing,
// the experiment recorded together with its files (record_experiment.cc), and
// run.
//
// Options that stand for a key of the YAML become overrides (CollectOverrides),
// and messages about those keys are changed back to the option that the user
// wrote (NameOptions). --label and --link need two passes, since they add to
// the lists of the file.
//
// --test shortens the experiment to a few batches, in a temporary store. The
// searcher is replaced by one that trains two trials alternately on one slot.
// The first trial trains, is validated and checkpointed, and makes room for the
// second; then it is restored from its checkpoint and trains further. So the
// code paths that a long run would reach only after hours run once in seconds.

#include "cli/create.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "engine/app/config_file.h"
#include "engine/app/entrypoint_check.h"
#include "engine/app/notifications.h"
#include "engine/app/provenance.h"
#include "engine/app/record_experiment.h"
#include "engine/app/recorded_trial.h"
#include "engine/app/run_experiment.h"
#include "engine/app/script_check.h"
#include "engine/app/secrets.h"
#include "engine/app/slurm_workers.h"
#include "engine/app/stores.h"
#include "engine/app/warm_start.h"
#include "engine/app/worker.h"
#include "engine/base/error.h"
#include "engine/base/length.h"
#include "engine/base/rounding.h"
#include "engine/base/text.h"
#include "engine/config/experiment_config.h"
#include "engine/config/read_config.h"
#include "engine/context/context_list.h"
#include "engine/nodes/distributed_env.h"
#include "engine/nodes/nodes.h"
#include "engine/os/files.h"
#include "engine/os/signals.h"
#include "engine/plugin/model_library.h"
#include "engine/report/search_preview.h"
#include "engine/run/reported_units.h"
#include "engine/run/reporter.h"
#include "engine/run/runner.h"
#include "engine/slots/slots.h"
#include "engine/slurm/job_request.h"
#include "engine/store/store.h"
#include "searchers/registry.h"
#include "searchers/search_plan.h"
#include "searchers/simulation.h"

namespace dtrain {
namespace {

std::string LengthText(const ExperimentConfig& config) {
  if (config.searcher.max_length == 0) return "program-defined length";
  return LengthText(config.searcher.max_length, config.length_unit);
}

nlohmann::json ContextPlanJson(const std::optional<ContextList>& context) {
  if (!context) return nullptr;
  nlohmann::json links = nlohmann::json::array();
  for (const ContextLink& link : context->origin.links) {
    links.push_back({{"path", link.path}, {"target", link.target.string()}});
  }
  return {{"files", context->files.size()},
          {"bytes", context->bytes},
          {"links", std::move(links)}};
}

std::string ContextText(const std::optional<ContextList>& context) {
  if (!context) return "";
  return "; would store " +
         ContextSize(std::ssize(context->files), context->bytes) + " of " +
         context->directory.string();
}

// Returns how many trials are expected to reach the maximum length, if not all
// are, or the budget of a model-based search.
std::string ReachText(const SearchPlan& plan, const ExperimentConfig& config,
                      const std::optional<ExpectedSearch>& expected) {
  if (IsModelBased(config.searcher)) {
    return " (budget of " + BudgetText(plan, config.length_unit) + ")";
  }
  if (!expected || expected->simulations == 0) return "";
  const ExpectedRange range = expected->trials.at(config.searcher.max_length);
  return " (" + (range.max == 0 ? "none" : RangeText(range)) +
         " expected to reach it)";
}

nlohmann::json JobJson(const std::optional<JobRequest>& job) {
  if (!job) return nullptr;
  return {{"submit", job->SubmitCommand()},
          {"script", job->Script()},
          {"max_jobs", job->config.max_jobs},
          {"min_jobs", job->config.min_jobs},
          {"idle_timeout",
           std::chrono::duration<double>(job->config.idle_timeout).count()}};
}

// Prints the jobs that would start workers, `max_jobs` at one time.
void PrintJob(const JobRequest& job, std::int64_t max_jobs) {
  std::string command;
  for (const std::string& word : job.SubmitCommand()) {
    command += (command.empty() ? "" : " ") + QuoteForShell(word);
  }
  std::cout << (InAllocation()
                    ? "\nthe workers of this allocation would be started by "
                      "the script\n\n"
                    : "\nup to " + CountText(max_jobs, "job") +
                          " would be submitted to Slurm by\n\n  " +
                          EscapeForTerminal(command) +
                          "\n\nwith the script\n\n");
  for (const std::string& line : Split(job.Script(), '\n')) {
    if (!line.empty()) std::cout << "  " << EscapeForTerminal(line) << '\n';
  }
}

// Prints the result of `create --dry-run`: the experiment as it would run, and
// the context that would be stored.
void PrintPlan(const ExperimentConfig& config, const SlotPlan& slots,
               const std::optional<ContextList>& context,
               const std::optional<JobRequest>& job, bool json) {
  const SearcherConfig& searcher = config.searcher;
  const SearchPlan plan = PlanSearch(searcher, config.hyperparameters);
  const std::int64_t trials = plan.max_trials;
  const auto expected = ExpectSearch(searcher, config.hyperparameters);
  if (json) {
    PrintJson({{"dry_run", true},
               {"name", config.name},
               {"entrypoint", EntrypointText(config)},
               {"searcher", searcher.name},
               {"metric", searcher.metric},
               {"smaller_is_better", searcher.smaller_is_better},
               {"max_trials", trials},
               {"max_length", MaxLengthJson(config)},
               {"expected", ExpectedJson(expected)},
               {"slots", slots.ToString()},
               {"context", ContextPlanJson(context)},
               {"slurm", JobJson(job)},
               {"config", config.effective}});
    return;
  }
  const std::string text =
      "would run '" + config.name + "': " + searcher.name + " search " +
      (searcher.smaller_is_better ? "minimizing " : "maximizing ") +
      searcher.metric + " with " + EntrypointText(config) + ", up to " +
      CountText(trials, "trial") + " of " + LengthText(config) +
      ReachText(plan, config, expected) + " on " + slots.ToString() +
      ContextText(context);
  std::cout << WrapForStdout(text, 0, kWrapIndent) << "\n\n";
  PrintYaml(ToYaml(config.effective));
  if (job) PrintJob(*job, MaxJobs(config));
}

// Findings of a rehearsal, collected while it runs.
class RehearsalFindings : public Reporter {
 public:
  void OnValidation(TrialId, const ValidationReport&, bool) override {
    ++validations_;
  }
  void OnCheckpoint(TrialId, const CheckpointSaved& saved) override {
    checkpoint_bytes_ = saved.bytes;
  }
  void OnTrialStarted(const TrialRow&, const ReportedAt& from) override {
    if (from.batches > 0) restored_ = true;
  }
  void OnTrialEnded(const TrialRow& trial,
                    const std::vector<std::string>& last_lines) override {
    const bool failed =
        trial.state == State::kError || trial.state == State::kInvalid;
    if (!failed || !failure_.empty()) return;
    failure_ = trial.reason;
    last_lines_ = last_lines;
  }
  void OnUnread(TrialId, const std::vector<std::string>& names) override {
    unread_.insert(names.begin(), names.end());
  }

  nlohmann::json Json(const RunResult& result) const {
    return {{"passed", Passed(result)},
            {"error", failure_.empty() ? nlohmann::json(nullptr)
                                       : nlohmann::json(failure_)},
            {"restored", restored_},
            {"validations", validations_},
            {"checkpoint_bytes", checkpoint_bytes_},
            {"unread_hyperparameters", unread_},
            {"seconds", result.seconds}};
  }
  bool Passed(const RunResult& result) const {
    return result.state == State::kCompleted && failure_.empty();
  }
  std::string Text(const RunResult& result) const {
    return "test passed in " +
           FormatDuration(std::chrono::duration_cast<Duration>(
               std::chrono::duration<double>(result.seconds))) +
           ": trained, " + (validations_ > 0 ? "validated, " : "") +
           (checkpoint_bytes_ > 0
                ? "checkpointed (" + FormatBytes(checkpoint_bytes_) + "), " +
                      (restored_ ? "restored" : "not restored")
                : "wrote no checkpoint");
  }

  const std::string& failure() const { return failure_; }
  const std::vector<std::string>& last_lines() const { return last_lines_; }
  std::vector<std::string> unread() const {
    return {unread_.begin(), unread_.end()};
  }

 private:
  std::int64_t validations_ = 0;
  std::int64_t checkpoint_bytes_ = 0;
  bool restored_ = false;
  std::string failure_;
  std::vector<std::string> last_lines_;
  std::set<std::string> unread_;
};

// A finished rehearsal.
struct Rehearsal {
  RunResult result;
  RehearsalFindings findings;

  bool Passed() const { return findings.Passed(result); }
};

// Batches of each trial, before and after it made room: enough for a schedule,
// an accumulation over two batches, and a report.
constexpr std::int64_t kTestBatches = 2;

ExperimentConfig Shortened(const ExperimentConfig& config) {
  ExperimentConfig test = config;
  // Before any training is lost, a wrong name is an error.
  test.training.requires_metric = true;
  if (test.searcher.max_length == 0) {
    // A program that decides its length is stopped at its first validation.
    test.searcher.name = "single";
  } else {
    test.searcher.name = kRehearsal;
    test.searcher.max_trials = 2;
    test.searcher.max_concurrent_trials = 1;
    test.searcher.max_length = 2 * kTestBatches;
    // A command reports in its own unit.
    if (!IsCommand(config)) test.length_unit = Unit::kBatches;
  }
  test.searcher.repeats = 1;
  test.max_restarts = 0;
  test.resources.listen.reset();
  test.resources.local = true;
  // One trial at a time, with all its slots.
  if (!test.resources.all_slots) {
    test.resources.max_slots =
        std::max<std::int64_t>(1, std::llround(test.resources.slots_per_trial));
  }
  test.training.scheduling_unit = 1;
  test.training.validation_batches = kTestBatches;
  test.training.min_validation_period = {};
  test.training.min_checkpoint_period = {};
  test.training.early_stopping.reset();
  test.checkpoints.path.clear();
  test.source_checkpoint_uuid.clear();  // of another store
  test.notify.reset();
  return test;
}

// Runs everything that happens to a trial of `config` once, with a few
// batches, as `create --test` does: constructor, training, validation,
// checkpoint, making room for another trial, restoring. Uses a temporary store
// that is deleted. `library` is that of the user's own model, or empty;
// `context` is the directory that a command runs in. Throws Error(kFailed) if
// there is no temporary directory.
Rehearsal Rehearse(const ExperimentConfig& config, const std::string& library,
                   const std::filesystem::path& context) {
  const ScratchDirectory scratch;
  if (scratch.path().empty()) {
    throw Error(
        ErrorKind::kFailed,
        "cannot create a temporary directory; free some space or set TMPDIR");
  }
  const ExperimentConfig test = Shortened(config);
  Store store = Store::OpenForWriting(StoreLayout(scratch.path()));
  const std::int64_t id = CreateExperiment(
      store, test, "",
      {{"context", std::filesystem::absolute(context).string()}},
      Clock::System());
  Rehearsal rehearsal;
  rehearsal.result =
      RunExperiment(store, id, test, {.library = library}, rehearsal.findings);
  return rehearsal;
}

// Returns why a test has failed; never empty.
std::string FailureReason(const Rehearsal& rehearsal) {
  const auto& [result, findings] = rehearsal;
  if (!findings.failure().empty()) return findings.failure();
  if (!result.error.empty()) return result.error;
  if (result.signal != 0) {
    return "stopped by " + SignalName(result.signal) + " before its end";
  }
  return "it ended as " + std::string(StateName(result.state));
}

void Explain(const Rehearsal& rehearsal, const GlobalOptions& globals) {
  const auto& [result, findings] = rehearsal;
  for (const std::string& line : findings.last_lines()) {
    if (line != findings.failure()) PrintNotice(globals, line);
  }
  if (!findings.Passed(result)) {
    PrintError(globals, "the test failed: " + FailureReason(rehearsal));
  }
  const std::vector<std::string> unread = findings.unread();
  if (unread.empty()) return;
  PrintNotice(globals, "warning: the trial did not read the hyperparameter" +
                           std::string(unread.size() == 1 ? " " : "s ") +
                           Join(unread, ", "));
}

// Prints the result of `create --test` and returns the exit code.
int PrintRehearsal(const Rehearsal& rehearsal, bool json,
                   const GlobalOptions& globals) {
  const auto& [result, findings] = rehearsal;
  if (json) {
    PrintJson(findings.Json(result));
  } else if (rehearsal.Passed()) {
    std::cout << findings.Text(result) << '\n';
  }
  Explain(rehearsal, globals);
  if (result.signal != 0) return ToExitCode(result);
  return rehearsal.Passed() ? kExitDone : kExitFailed;
}

// Returns the override that adds texts to a list of the file.
std::string AddedTo(const std::string& key,
                    const std::vector<std::string>& list,
                    const std::vector<std::string>& added) {
  std::string texts;
  for (const auto* part : {&list, &added}) {
    for (const std::string& text : *part) {
      texts += (texts.empty() ? "" : ", ") + QuotedForYaml(text);
    }
  }
  return key + "=[" + texts + "]";
}

// Replaces the remedy of a warning about a key by that of the option of `run`
// that has written it.
void NameOptionsOfRun(const CreateOptions& options, Diagnostics& diagnostics) {
  for (Diagnostic& one : diagnostics) {
    const std::size_t remedy = one.message.rfind("; set it to ");
    if (one.key != "searcher.smaller_is_better" || one.file != options.config ||
        remedy == one.message.npos) {
      continue;
    }
    const bool minimizes = one.message.ends_with("true");
    one.message.replace(
        remedy, one.message.npos,
        minimizes ? "; leave out --maximize" : "; add --maximize");
  }
}

// Names the option that a user wrote in place of the `--set` that it stands
// for.
void NameOptions(const CreateOptions& options, Diagnostics& diagnostics) {
  struct Alias {
    const char* set;
    const char* option;
    bool is_given;
  };
  const std::array<Alias, 9> aliases = {
      {{"--set notify.url", "--notify", !options.notify.empty()},
       {"--set notify.command", "--notify-command",
        !options.notify_command.empty()},
       {"--set name", "--name", !options.name.empty()},
       {"--set labels", "--label", !options.labels.empty()},
       {"--set context.links", "--link", !options.links.empty()},
       {"--set resources.slots", "--slots", !options.slots.empty()},
       {"--set resources.executor", "--executor", !options.executor.empty()},
       {"--set resources.listen", "--listen", !options.listen.empty()},
       {"--set slurm.", "--slurm ", !options.slurm.empty()}}};
  for (Diagnostic& one : diagnostics) {
    for (const auto& [set, option, is_given] : aliases) {
      const bool is_family = std::string_view(set).ends_with('.');
      const bool is_it =
          is_family ? one.file.starts_with(set) : one.file == set;
      if (!is_given || !is_it) continue;
      one.file.replace(0, std::strlen(set), option);
      break;
    }
  }
}

// Returns the words of a command line, which quotes may hold together. No
// variables or patterns are expanded.
std::vector<std::string> SplitWords(const std::string& line) {
  std::vector<std::string> words;
  std::optional<std::string> word;
  char quote = '\0';
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '\\' && quote != '\'' && i + 1 < line.size()) {
      word = word.value_or("") + line[++i];
    } else if (quote != '\0' ? c == quote : c == '"' || c == '\'') {
      quote = quote == '\0' ? c : '\0';
      word = word.value_or("");
    } else if (quote == '\0' && (c == ' ' || c == '\t' || c == '\n')) {
      if (word) words.push_back(*std::exchange(word, std::nullopt));
    } else {
      word = word.value_or("") + c;
    }
  }
  if (quote != '\0') {
    throw Error(ErrorKind::kUsage,
                "--notify-command: a quote is not closed; close it");
  }
  if (word) words.push_back(*std::move(word));
  return words;
}

// Returns the directory of the experiment's files.
std::filesystem::path FilesDirectory(const CreateOptions& options) {
  if (options.recorded) return options.context;
  return ContextDirectory(options.config, options.context);
}

ConfigResult Parse(const CreateOptions& options, const std::string& text) {
  std::vector<std::string> overrides = CollectOverrides(options);
  const auto read = [&] {
    const auto context = FilesDirectory(options);
    if (options.recorded) {
      return ReadConfig(text,
                        RecordedOptions(options.config, overrides, context));
    }
    return ParseConfigText(text, options.config, overrides, context,
                           Checks::kTrial, options.is_inline);
  };
  ConfigResult result = read();
  if (!result.config || (options.labels.empty() && options.links.empty())) {
    return result;
  }
  if (!options.labels.empty()) {
    overrides.push_back(
        AddedTo("labels", result.config->labels, options.labels));
  }
  if (!options.links.empty()) {
    overrides.push_back(
        AddedTo("context.links", result.config->links, options.links));
  }
  return read();
}

// Finds the files, the checkpoint and the first points of a new experiment.
// Replaces the name of the checkpoint in `config` by its UUID.
ExperimentParts FindParts(const CreateOptions& options,
                          ExperimentConfig& config,
                          const std::filesystem::path& directory,
                          const GlobalOptions& globals) {
  const std::string& path = options.config;
  ExperimentParts parts;
  if (options.recorded) {
    const Store store = OpenStore(globals);
    parts = {
        .context = FindRecordedContext(store.layout(), *options.recorded,
                                       config, globals),
        .source = FindSourceLike(store, *options.recorded, config, globals)};
  } else {
    parts = {.context = FindContext(config, directory, path, globals),
             .source = FindSource(config, globals)};
  }
  parts.warm_start = ResolveWarmStart(config, globals);
  if (parts.context) CheckStoredScript(path, config, *parts.context);
  return parts;
}

void NoteEarlierSearches(const CreateOptions& options,
                         const ExperimentConfig& config,
                         const ExperimentParts& parts,
                         const GlobalOptions& globals) {
  const bool has_warm_start =
      !parts.warm_start.is_null() ||
      (options.recorded && options.recorded->provenance.contains(kWarmStart));
  if (has_warm_start) return;
  if (const auto note = SuggestWarmStart(config, globals)) {
    PrintNotice(globals, "note: " + *note);
  }
}

// Prints what `create` would do.
int DryRun(const CreateOptions& options, const ExperimentConfig& config,
           const SlotPlan& slots, const std::filesystem::path& directory,
           const std::optional<ContextList>& context, const RunRequest& request,
           const GlobalOptions& globals) {
  if (const auto problem = ProblemOnThisMachine(config, directory)) {
    PrintNotice(globals, "warning: it cannot run on this machine: " + *problem);
  }
  if (const auto problem = FindStorageProblem(config, globals)) {
    PrintNotice(globals, "warning: it cannot run on this machine: " +
                             problem->first.ToString());
  }
  RequireSlotsOfNodes(config);
  if (RunsOnSlurm(config) && InAllocation()) {
    PrintNotice(globals, AllocationText(config));
  }
  std::optional<JobRequest> job;
  if (RunsOnSlurm(config)) job = PlannedJob(config, FindStore(globals));
  PrintPlan(config, slots, context, job, request.json || request.jsonl);
  WriteCiAcceptance(request.ci, options.config, request.diagnostics);
  return kExitDone;
}

// Records the experiment without running it.
int RecordPaused(const Recording& record, RunRequest& request,
                 const GlobalOptions& globals) {
  const StoreLayout layout = FindStore(globals);
  Store store = OpenStoreForWriting(layout, globals);
  const std::int64_t id = record(store);
  request.experiment = id;
  if (request.json) {
    PrintJson({{"experiment", id}, {"store", layout.root().string()}});
  } else {
    std::cout << id << '\n';
  }
  const std::string text = std::to_string(id);
  PrintNotice(globals, "experiment " + text + " is paused; start it with " +
                           NamedCommand(CommandFor(globals, "resume " + text)));
  return kExitDone;
}

}  // namespace

void AddCreateOptions(CLI::App& app, CreateOptions& options) {
  AddOption(app, "--set", options.overrides,
            "Override a key of the YAML (repeatable)")
      .TypeName("KEY=VALUE")
      .OneEach()
      .Completes(ValueKind::kKey);
  AddOption(app, "--name", options.name, "Override the name of the experiment")
      .TypeName("NAME");
  AddOption(app, "--label", options.labels, "Add a label (repeatable)")
      .TypeName("LABEL")
      .OneEach();
  AddOption(app, "--link", options.links,
            "Link a directory of data into the copy that trials work in, such "
            "as data or ../data (repeatable)")
      .TypeName("DIR")
      .OneEach()
      .IsPath();
  AddOption(app, "--slots", options.slots,
            "Override resources.slots: auto, all, none, cpu, cpu:N, gpu:N, "
            "most_free, or GPU numbers such as [0,1]")
      .TypeName("SLOTS")
      .Suggests({"auto", "all", "none", "cpu", "most_free"});
  AddOption(app, "--notify", options.notify,
            "Set notify.url: send a message to this address when the "
            "experiment ends")
      .TypeName("URL")
      .NotEmpty();
  AddOption(app, "--notify-command", options.notify_command,
            "Set notify.command: a program that reads the message from "
            "standard input, and its arguments, in one word")
      .TypeName("COMMAND")
      .NotEmpty();
  AddFlag(app, "--dry-run", options.dry_run,
          "Print the plan and the full configuration; create nothing");
  AddFlag(app, "--test", options.test,
          "Smoke test: train, validate, checkpoint, restore; keep nothing");
  AddFlag(app, "--paused", options.paused,
          "Record the experiment as PAUSED and print its ID; 'dtrain resume' "
          "starts it");
}

std::vector<std::string> CollectOverrides(const CreateOptions& options) {
  std::vector<std::string> overrides = options.overrides;
  if (!options.name.empty()) {
    overrides.push_back("name=" + QuotedForYaml(options.name));
  }
  for (std::string& override : SlotOverrides(options.slots)) {
    overrides.push_back(std::move(override));
  }
  if (!options.notify.empty()) {
    overrides.push_back("notify.url=" + QuotedForYaml(options.notify));
  }
  if (!options.notify_command.empty()) {
    overrides.push_back(
        "notify.command=" +
        nlohmann::json(SplitWords(options.notify_command)).dump());
  }
  if (!options.executor.empty()) {
    overrides.push_back("resources.executor=" + options.executor);
  }
  for (const std::string& setting : options.slurm) {
    overrides.push_back("slurm." + setting);
  }
  if (!options.listen.empty()) {
    overrides.push_back(ListenOverride(options.listen));
  }
  return overrides;
}

ExperimentConfig CheckedConfig(const CreateOptions& options,
                               const std::string& text, RunRequest& request,
                               const GlobalOptions& globals) {
  ConfigResult result = Parse(options, text);
  NameOptions(options, result.diagnostics);
  if (options.is_inline) NameOptionsOfRun(options, result.diagnostics);
  PrintDiagnostics(result.diagnostics, globals);
  RecordFindings(request, result.diagnostics);
  const std::string refusal = Refusal(result.diagnostics, /*not_yet=*/true);
  if (!refusal.empty() || !result.config) {
    throw Error(ErrorKind::kUsage,
                options.config + ": " + refusal + "; nothing was created");
  }
  RequireNotifyVariables(options.config, *result.config);
  if (options.recorded) {
    // The files were checked when they were stored.
    FillRecordedEnvironment(*result.config, globals);
    CheckEntrypoint(options.config, *result.config, options.context);
    return *std::move(result.config);
  }
  const Diagnostics warnings =
      CheckScript(options.config, *result.config, FilesDirectory(options));
  PrintDiagnostics(warnings, globals);
  RecordFindings(request, warnings);
  return *std::move(result.config);
}

namespace {

// Rejects options that need an experiment.
void CheckTestFlags(const CreateOptions& options) {
  const RunFlags& run = options.run;
  const bool other = options.dry_run || run.detach || run.jsonl ||
                     !run.demands.empty() || !run.timeout_text.empty() ||
                     run.ci.has_file();
  if (options.test && !options.from.empty()) {
    throw Error(ErrorKind::kUsage,
                "--test runs in the directory of CONFIG, so it cannot be "
                "combined with --from; write the files to a new directory with "
                "'dtrain config " +
                    options.from + " --export DIR' and test them there");
  }
  if (!options.test || !other) return;
  throw Error(ErrorKind::kUsage,
              "--test keeps no experiment, so it cannot be combined with "
              "--dry-run, --detach, --jsonl, --require, --require-any, "
              "--max-failed, --timeout or --junit");
}

// Rejects options that need a run.
void CheckPausedFlags(const CreateOptions& options) {
  const RunFlags& run = options.run;
  const bool other = options.dry_run || options.test || run.detach ||
                     run.follow || run.jsonl || !run.demands.empty() ||
                     !run.timeout_text.empty() || !run.disk_wait.empty() ||
                     run.ci.has_file();
  if (!options.paused || !other) return;
  throw Error(ErrorKind::kUsage,
              "--paused starts no run, so it cannot be combined with "
              "--dry-run, --test, --detach, --follow, --jsonl, --require, "
              "--require-any, --max-failed, --timeout, --disk-wait or --junit; "
              "most of them are options of 'dtrain resume', which starts it");
}

// Sets the number of trials of a model-based search, and says if it leaves
// slots on other machines without trials.
void SettleConcurrency(ExperimentConfig& config, const GlobalOptions& globals) {
  const bool set = config.searcher.max_concurrent_trials > 0;
  ResolveConcurrency(config, TrialsOnSlurm(config));
  const bool counts_none = config.resources.listen && !RunsOnSlurm(config);
  if (!set && counts_none && IsModelBased(config.searcher)) {
    const auto trials = config.searcher.max_concurrent_trials;
    PrintNotice(globals,
                "warning: searcher.max_concurrent_trials: is not set, and the "
                "slots of workers are not known yet; at most " +
                    CountText(trials, "trial runs", "trials run") +
                    " at once; set it to the number that all machines hold");
  }
  if (const auto warning = FindModelWithFewResults(config.searcher)) {
    PrintNotice(globals, *warning);
  }
  if (const auto note = SlotsWithoutTrials(config)) {
    PrintNotice(globals, "note: " + *note);
  }
}

}  // namespace

void CheckCreateFlags(const CreateOptions& options) {
  CheckTestFlags(options);
  CheckPausedFlags(options);
}

int CreateAndRun(const CreateOptions& options, const std::string& text,
                 RunRequest& request, const GlobalOptions& globals) {
  ExperimentConfig config = CheckedConfig(options, text, request, globals);
  SettleConcurrency(config, globals);
  const auto directory = FilesDirectory(options);
  const bool runs = !options.dry_run && !options.test;
  const auto place =
      runs ? FindDistributedEnv(config, request.detach || options.paused)
           : std::optional<DistributedEnv>();
  if (place && place->follows()) {
    CheckOnThisMachine(options.config, config, directory, globals);
    return RunRank(*place, config, globals);
  }
  ExperimentParts parts = FindParts(options, config, directory, globals);
  if (parts.context && !options.recorded) request.context = directory;
  parts.paused = options.paused;
  // Before the store is opened: an impossible experiment leaves no trace.
  const SlotPlan slots = PlanExperimentSlots(config);
  if (options.dry_run) {
    NoteEarlierSearches(options, config, parts, globals);
    return DryRun(options, config, slots, directory, parts.context, request,
                  globals);
  }
  if (runs) {
    const std::string wait = CheckSubmission(config, FindStore(globals));
    if (!wait.empty())
      PrintNotice(
          globals,
          "warning: some nodes start no jobs now, so Slurm may let jobs wait, "
          "or refuse them: " +
              wait);
  }
  PythonQuery python(config, directory);
  const auto own = CompileOwnModel(config, directory, globals);
  CheckOnThisMachine(options.config, config, directory, globals);
  if (!options.test && !options.paused) RequireListening(config);
  if (options.test) {
    return PrintRehearsal(
        Rehearse(config, own ? own->file.string() : "", directory),
        request.json, globals);
  }
  auto provenance = Provenance(RecordedArgv(globals.argv),
                               options.recorded ? "." : directory, slots.gpus);
  provenance[kAllowUnread] = options.allow_unread;
  if (options.recorded) {
    const nlohmann::json& before = options.recorded->provenance;
    provenance[kAllowUnread] =
        options.allow_unread || before.value(kAllowUnread, false);
    provenance["git"] = before.value("git", nlohmann::json());
    provenance["created_from"] = options.recorded->row.id;
  }
  python.Record(provenance);
  const std::string submitted =
      options.recorded ? ToYaml(config.effective) : text;
  const Recording record = [&](Store& store) {
    // No note comes first: it could be written to a file that is copied.
    const std::int64_t id = RecordExperiment(
        store, config, RecordedYaml(submitted, config), provenance, parts);
    if (parts.context) {
      WarnAboutCopies(store.layout(), config, slots, *parts.context, globals);
    }
    NoteEarlierSearches(options, config, parts, globals);
    return id;
  };
  if (options.paused) return RecordPaused(record, request, globals);
  const auto nodes = ConnectRanks(place, config, slots, globals);
  request.nodes = nodes.get();
  const StoreLayout layout = FindStore(globals);
  if (!IsPlainlyChosen(layout, globals)) {
    PrintNotice(globals, "the experiment is recorded in the store " +
                             layout.root().string());
  }
  return RunRecorded(layout, record, config, request, globals);
}

namespace {

// Returns the options with the experiment of --from, whose stored files must
// be whole.
CreateOptions FindRecorded(CreateOptions options,
                           const GlobalOptions& globals) {
  const Store store = OpenStore(globals);
  const ExperimentDetail detail =
      FindExperimentDetail(store, ResolveExperiment(store, options.from));
  RequireStoredFiles(detail);
  RequireWholeContext(store.layout(), detail);
  options.config = "experiment " + std::to_string(detail.row.id);
  options.context = store.layout().Context(detail.row.id).string();
  options.recorded = detail;
  return options;
}

int CheckAndCreate(const CreateOptions& options, const GlobalOptions& globals) {
  CheckCreateFlags(options);
  if (options.from.empty() && options.config.empty()) {
    throw Error(ErrorKind::kUsage,
                "create: CONFIG is required, or --from EXP; see 'dtrain create "
                "--help'");
  }
  if (!options.from.empty() && !options.config.empty()) {
    throw Error(ErrorKind::kUsage,
                "--from: takes the YAML and the files of experiment " +
                    options.from + ", so it cannot be combined with '" +
                    options.config + "'; leave out one of them");
  }
  RunRequest request = CheckRunFlags(options.run, globals);
  if (!options.from.empty()) {
    return RunOrReport(request, options.from, [&] {
      const CreateOptions found = FindRecorded(options, globals);
      nlohmann::json config = found.recorded->config;
      config.erase("notify");  // its address may be that of somebody else
      return CreateAndRun(found, ToYaml(config), request, globals);
    });
  }
  return RunOrReport(request, options.config, [&] {
    return CreateAndRun(options, ReadConfigFile(options.config), request,
                        globals);
  });
}

}  // namespace

CommandRun SetUpCreate(CLI::App& app) {
  auto options = std::make_shared<CreateOptions>();
  AddOption(app, "CONFIG", options->config,
            "Experiment YAML; - reads it from stdin (required without --from)")
      .IsPath();
  AddOption(
      app, "CONTEXT", options->context,
      "Directory of the experiment's files (default: the directory of CONFIG)")
      .IsPath();
  AddOption(app, "--from", options->from,
            "Take YAML and stored files of an experiment in place of CONFIG")
      .TypeName("EXP");
  AddCreateOptions(app, *options);
  AddOption(app, "--listen", options->listen,
            "Accept 'dtrain worker' of other machines at this port, or "
            "HOST:PORT; 0: any free port")
      .TypeName("PORT");
  AddOption(app, "--executor", options->executor,
            "Override resources.executor: local, or slurm, which submits jobs "
            "of workers")
      .TypeName("EXECUTOR")
      .Suggests({"local", "slurm"});
  AddOption(app, "--slurm", options->slurm,
            "Set a key of the section slurm, such as partition=gpu "
            "(repeatable)")
      .TypeName("KEY=VALUE")
      .OneEach();
  AddFlag(
      app, "--allow-unread", options->allow_unread,
      "Search on if the first trial has not read a searched hyperparameter");
  AddRunFlags(app, options->run);
  SetHelp(app, {.exits = RunExits(),
                .examples = {
                    {"Run an experiment and require a result",
                     "dtrain create digits.yaml --require 'accuracy>=0.95'"},
                    {"Search again, longer, with the files of experiment 3",
                     "dtrain create --from 3 --set searcher.max_trials=64 "
                     "--detach"}}});
  return RunWith(CheckAndCreate, options);
}

}  // namespace dtrain
