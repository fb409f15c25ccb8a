// `dtrain preview-search`: the plan of a search, and simulations of it. Nothing
// is trained or recorded.
//
// Without --simulate it prints the plan and the range of trials that
// simulations with random metrics reach. With it, the searcher of the
// configuration runs against a synthetic metric (searchers/simulation.h). A
// model-based search also needs the training time of a unit if its budget is a
// duration.
//
// Problems that only matter for a run, such as missing data, are not checked.

#include <array>
#include <charconv>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <sstream>

#include <unistd.h>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "engine/app/config_file.h"
#include "engine/app/slurm_workers.h"
#include "engine/app/warm_start.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/config/read_config.h"
#include "engine/report/search_preview.h"
#include "engine/run/runner.h"
#include "searchers/registry.h"
#include "searchers/search_plan.h"

namespace dtrain {
namespace {

constexpr std::int64_t kMaxSeed = 0x7FFFFFFF;
constexpr double kMaxSecondsPerUnit = 1e9;

struct PreviewSearchOptions : JsonOption {
  std::string config;
  std::vector<std::string> overrides;
  std::optional<std::string> metric;  // none: only the plan is shown
  std::string order = "round_robin";
  std::optional<std::string> seed;
  std::vector<std::string> exits;
  std::optional<std::string> seconds_per_unit;
};

std::optional<std::int64_t> WholeNumberFrom(std::string_view text,
                                            std::int64_t most) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  const bool valid =
      error == std::errc() && rest == end && value >= 0 && value <= most;
  return valid ? std::optional(value) : std::nullopt;
}

SimulatedMetric MetricFrom(const std::string& name) {
  if (const SimulatedMetric metric = FindSimulatedMetric(name)) return metric;
  throw Error(ErrorKind::kUsage,
              "--simulate: unknown metric '" + name +
                  "'; available: " + Join(SimulatedMetricNames(), ", "));
}

SimulationOrder OrderFrom(const std::string& name) {
  if (name == "round_robin") return SimulationOrder::kRoundRobin;
  if (name == "sequential") return SimulationOrder::kSequential;
  throw Error(ErrorKind::kUsage, "--order: unknown order '" + name +
                                     "'; available: round_robin, sequential");
}

SimulatedExit ExitFrom(const std::string& text) {
  const std::vector<std::string> parts = Split(text, ':');
  if (parts.size() == 3) {
    const auto trial = WholeNumberFrom(parts[0], kMaxSeed);
    const auto after = WholeNumberFrom(parts[1], kMaxSeed);
    const bool errored = parts[2] == "errored";
    if (trial && after && (errored || parts[2] == "invalid_hp")) {
      return {
          .trial = *trial,
          .after = *after,
          .reason = errored ? ExitReason::kErrored : ExitReason::kInvalidHp};
    }
  }
  throw Error(ErrorKind::kUsage,
              "--fail: expected TRIAL:AFTER:errored or TRIAL:AFTER:invalid_hp "
              "with numbers from 0, such as 3:1:errored, got '" +
                  text + "'");
}

std::uint32_t SeedFrom(const std::string& text) {
  if (const auto seed = WholeNumberFrom(text, kMaxSeed)) {
    return static_cast<std::uint32_t>(*seed);
  }
  throw Error(ErrorKind::kUsage, "--seed: expected an integer from 0 to " +
                                     std::to_string(kMaxSeed) + ", got '" +
                                     text + "'");
}

double SecondsFrom(const std::string& text) {
  double seconds = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, seconds);
  const bool valid = error == std::errc() && rest == end && seconds > 0 &&
                     seconds <= kMaxSecondsPerUnit;
  if (valid) return seconds;
  throw Error(ErrorKind::kUsage,
              "--seconds-per-unit: expected a number of seconds above 0, such "
              "as 0.5, got '" +
                  text + "'");
}

SimulationOptions SimulationFrom(const PreviewSearchOptions& options) {
  SimulationOptions simulation{.metric = MetricFrom(*options.metric),
                               .order = OrderFrom(options.order)};
  for (const std::string& exit : options.exits) {
    simulation.exits.push_back(ExitFrom(exit));
  }
  if (options.seconds_per_unit) {
    simulation.seconds_per_unit = SecondsFrom(*options.seconds_per_unit);
  }
  return simulation;
}

// Returns the configuration, or prints all findings and throws Error. Ignores
// problems that only matter for a run.
ExperimentConfig PreviewedConfig(const PreviewSearchOptions& options,
                                 const GlobalOptions& globals) {
  ConfigResult result = ParseConfigText(
      ReadConfigFile(options.config), options.config, options.overrides,
      ParentDirectory(options.config), Checks::kKeys);
  PrintDiagnostics(result.diagnostics, globals);
  const std::string refusal = Refusal(result.diagnostics, /*not_yet=*/false);
  if (result.config && refusal.empty()) return *std::move(result.config);
  throw Error(ErrorKind::kUsage, options.config + ": " + refusal);
}

// Draws a seed and prints it, so that the search can be repeated.
std::uint32_t DrawSeed(bool json, const GlobalOptions& globals) {
  const std::uint32_t seed = std::random_device{}() & kMaxSeed;
  if (json) PrintNotice(globals, "random seed " + std::to_string(seed));
  return seed;
}

void WarnOfIdleExits(const SimulationOptions& options,
                     const Simulation& simulation,
                     const GlobalOptions& globals) {
  const auto trials = static_cast<TrialIndex>(simulation.trials.size());
  for (const SimulatedExit& exit : options.exits) {
    const std::string trial = std::to_string(exit.trial);
    if (exit.trial >= trials) {
      PrintNotice(globals, "warning: --fail: the search created no trial " +
                               trial + " (counted from 0); its last trial is " +
                               std::to_string(trials - 1));
    } else if (!simulation.trials[static_cast<std::size_t>(exit.trial)].exit) {
      PrintNotice(globals, "warning: --fail: trial " + trial +
                               " (counted from 0) was closed before " +
                               std::to_string(exit.after) +
                               " validations and another operation");
    }
  }
}

// Time only matters for a model-based search, and must be known if it is the
// budget.
void CheckTime(const ExperimentConfig& config, bool is_given) {
  if (is_given && !IsModelBased(config.searcher)) {
    throw Error(ErrorKind::kUsage,
                "--seconds-per-unit: " + config.searcher.name +
                    " does not take training times into account; remove it");
  }
  if (!is_given && config.searcher.budget_seconds > 0) {
    throw Error(ErrorKind::kUsage,
                "--simulate: searcher.budget is a duration; add the training "
                "time of a unit of length (" +
                    std::string(UnitName(config.length_unit)) +
                    "), such as --seconds-per-unit 0.5");
  }
}

void Play(const PreviewSearchOptions& options, const ExperimentConfig& config,
          const SimulationOptions& simulation_options, std::uint32_t seed,
          const GlobalOptions& globals) {
  const auto searcher =
      MakeSearcher(config.searcher, config.hyperparameters, seed);
  const Simulation simulation = Simulate(*searcher, simulation_options);
  WarnOfIdleExits(simulation_options, simulation, globals);
  if (options.json) {
    return WriteSimulationJson(simulation, std::cout, StdoutIsTerminal());
  }
  std::ostringstream line;
  line << "simulated with " << *options.metric << ", " << options.order;
  if (options.seconds_per_unit) {
    line << ", " << *options.seconds_per_unit << " s per unit";
  }
  line << ", seed " << seed;
  std::cout << '\n' << WrapForStdout(line.str(), 0, kWrapIndent) << '\n';
  PrintSimulation({.config = config.searcher,
                   .hyperparameters = config.hyperparameters,
                   .unit = config.length_unit,
                   .simulation = simulation,
                   .metric = simulation_options.metric},
                  GetTerminalMode(STDOUT_FILENO, globals.color), std::cout);
}

int PreviewSearch(const PreviewSearchOptions& options,
                  const GlobalOptions& globals) {
  std::optional<std::uint32_t> seed;
  if (options.seed) seed = SeedFrom(*options.seed);
  SimulationOptions simulation;
  if (options.metric) simulation = SimulationFrom(options);
  ExperimentConfig config = PreviewedConfig(options, globals);
  // The slots of this machine may not be those of the experiment.
  if (!config.resources.local) {
    ResolveConcurrency(config, TrialsOnSlurm(config));
  }
  if (const auto warning = FindModelWithFewResults(config.searcher)) {
    PrintNotice(globals, *warning);
  }
  if (options.metric) {
    CheckTime(config, options.seconds_per_unit.has_value());
    ResolveWarmStart(config, globals);
  } else if (auto points = FindWarmStartProblem(config, globals)) {
    points->severity = Severity::kWarning;
    PrintDiagnostics({*std::move(points)}, globals);
  }
  if (!options.metric || !options.json) {
    const SearchPlan plan = PlanSearch(config.searcher, config.hyperparameters);
    const auto expected = ExpectSearch(config.searcher, config.hyperparameters);
    if (options.json) {
      nlohmann::json document = PlanJson(plan);
      document["ranges"] = RangesJson(config.hyperparameters);
      document["expected"] = ExpectedJson(expected);
      PrintJson(document);
    } else {
      PrintSearchPlan({.config = config.searcher,
                       .unit = config.length_unit,
                       .plan = plan,
                       .expected = expected},
                      GetTerminalMode(STDOUT_FILENO, globals.color), std::cout);
      PrintRanges(config.hyperparameters,
                  GetTerminalMode(STDOUT_FILENO, globals.color), std::cout);
    }
  }
  if (!options.metric) return kExitDone;
  if (!seed) seed = config.experiment_seed;
  if (!seed) seed = DrawSeed(options.json, globals);
  Play(options, config, simulation, *seed, globals);
  return kExitDone;
}

void AddSimulationOptions(CLI::App& app, PreviewSearchOptions& options) {
  const CliOption simulate =
      AddOption(app, "--simulate", options.metric,
                "Simulate the search with a synthetic metric: constant, "
                "trial_index, neg_trial_index, hash or hash_step")
          .TypeName("METRIC")
          .Suggests({"constant", "trial_index", "neg_trial_index", "hash",
                     "hash_step"})
          .Completes(ValueKind::kText);
  AddOption(
      app, "--order", options.order,
      "Order of the simulated operations: round_robin, one of each trial in "
      "turn, or sequential, always the first trial that has one")
      .TypeName("ORDER")
      .Suggests({"round_robin", "sequential"})
      .ShowDefault()
      .Needs(simulate);
  AddOption(
      app, "--seed", options.seed,
      "Seed of the search (default: experiment_seed of the YAML, else random)")
      .TypeName("N")
      .Needs(simulate);
  AddOption(
      app, "--fail", options.exits,
      "Let trial TRIAL fail when it trains further after AFTER validations, "
      "with END errored or invalid_hp: 3:1:errored (repeatable)")
      .TypeName("TRIAL:AFTER:END")
      .OneEach()
      .Needs(simulate);
  AddOption(
      app, "--seconds-per-unit", options.seconds_per_unit,
      "Training time of a batch, record or epoch, the same for all trials, "
      "for bayesian_asha with a budget of time")
      .TypeName("S")
      .Needs(simulate);
}

}  // namespace

CommandRun SetUpPreviewSearch(CLI::App& app) {
  auto options = std::make_shared<PreviewSearchOptions>();
  AddOption(app, "CONFIG", options->config,
            "Experiment YAML; - reads it from stdin")
      .Required()
      .IsPath();
  AddOption(app, "--set", options->overrides,
            "Override a key of the YAML (repeatable)")
      .TypeName("KEY=VALUE")
      .OneEach();
  AddSimulationOptions(app, *options);
  AddJsonOption(app, *options);
  SetHelp(app, {.notes = "Trials are numbered from 1 in text, and from 0 in "
                         "--json and --fail.",
                .exits = {{kExitDone}, {kExitUsage}},
                .examples = {{"Show how many trials train how long",
                              "dtrain preview-search asha.yaml"},
                             {"Simulate the search with 64 trials",
                              "dtrain preview-search asha.yaml --simulate hash "
                              "--set searcher.max_trials=64"}}});
  return RunWith(PreviewSearch, options);
}

}  // namespace dtrain
