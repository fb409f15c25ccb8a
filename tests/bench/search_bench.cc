#include "tests/bench/search_bench.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <deque>
#include <exception>
#include <fstream>
#include <functional>
#include <iostream>
#include <limits>
#include <memory>
#include <numbers>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/rng.h"
#include "engine/config/read_config.h"
#include "engine/os/files.h"
#include "searchers/hparam_space.h"
#include "searchers/registry.h"

namespace dtrain {
namespace {

using nlohmann::json;

// --- Configuration

// Returns the section `searcher` with the keys that every simulation sets.
std::string SearcherSection(const std::string& searcher, const SearchTask& task,
                            int workers) {
  const std::size_t brace = searcher.find('{');
  if (brace == std::string::npos) {
    throw Error(ErrorKind::kUsage, "'" + searcher +
                                       "' is not a flow map; expected a "
                                       "searcher such as {name: random}");
  }
  std::string added =
      "metric: error, max_length: " + std::to_string(task.steps()) + ", ";
  if (searcher.find("max_trials") == std::string::npos) {
    added += "max_trials: 1000000, ";
  }
  if (searcher.find("max_concurrent_trials") == std::string::npos) {
    added += "max_concurrent_trials: " + std::to_string(workers) + ", ";
  }
  return std::string(searcher).insert(brace + 1, added);
}

// `space`: empty for that of the task.
ExperimentConfig MakeSearchConfig(const std::string& searcher,
                                  const SearchTask& task, int workers,
                                  const std::string& space = "") {
  const std::string yaml =
      "name: simulation\nentrypoint: builtin:FaultTrial\nhyperparameters: " +
      (space.empty() ? std::string(task.hyperparameters()) : space) +
      "\nsearcher: " + SearcherSection(searcher, task, workers) + "\n";
  ConfigResult result = ReadConfig(yaml, {.file_name = searcher});
  if (result.config) return *std::move(result.config);
  const auto error = std::ranges::find(result.diagnostics, Severity::kError,
                                       &Diagnostic::severity);
  throw Error(ErrorKind::kUsage,
              searcher + ": " + error->key + ": " + error->message);
}

// --- Normalization of errors and times

struct Reference {
  double best = 0;
  double best_percent = 0;  // 1 % of the trainings are as good
  double median = 0;
  double unit_seconds = 0;  // median time of a full training

  double Regret(double error) const { return (error - best) / (median - best); }
};

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Reference, best, best_percent, median,
                                   unit_seconds)

// Quantile of sorted values, interpolated.
double Quantile(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto index = static_cast<std::size_t>(place);
  const std::size_t next = std::min(index + 1, sorted.size() - 1);
  return sorted[index] +
         (place - std::floor(place)) * (sorted[next] - sorted[index]);
}

Reference Measured(const SearchTask& task) {
  std::vector<std::unique_ptr<LearningCurve>> curves = task.Table();
  if (curves.empty()) {
    const json space =
        MakeSearchConfig("{name: random}", task, /*workers=*/1).hyperparameters;
    Rng rng(777);
    for (int i = 0; i < task.reference_trainings(); ++i) {
      curves.push_back(task.Train(SampleHparams(space, rng)));
    }
  }
  std::vector<double> errors;
  std::vector<double> seconds;
  for (const auto& curve : curves) {
    errors.push_back(std::ranges::min(curve->Errors(0, task.steps())));
    seconds.push_back(curve->seconds_per_step() * task.steps());
  }
  std::ranges::sort(errors);
  std::ranges::sort(seconds);
  return {.best = errors.front(),
          .best_percent = Quantile(errors, 0.01),
          .median = Quantile(errors, 0.5),
          .unit_seconds = Quantile(seconds, 0.5)};
}

// Reads the normalization from `file`, or measures and writes it.
Reference ReadReference(const SearchTask& task, const std::string& file) {
  if (file.empty()) return Measured(task);
  if (const auto text = ReadFile(file)) {
    try {
      return json::parse(*text).get<Reference>();
    } catch (const json::exception&) {
      throw Error(ErrorKind::kUsage,
                  file + ": is not a normalization; remove it");
    }
  }
  const Reference measured = Measured(task);
  std::ofstream out(file);
  out << json(measured).dump(2) << '\n';
  if (!out.flush()) {
    throw Error(ErrorKind::kUsage, file + ": cannot be written");
  }
  return measured;
}

// --- Workers

// The incumbent's error without noise since a time.
struct Improvement {
  double seconds = 0;
  double error = 0;
};

struct SearchCourse {
  std::vector<Improvement> improvements;
  std::int64_t trials = 0;
  std::int64_t full_trainings = 0;
  std::int64_t steps = 0;
  bool ended = false;           // by itself
  std::int64_t decisions = 0;   // events that the searcher handled
  double decision_seconds = 0;  // in all
  double slowest_decision = 0;  // seconds
};

// A searcher's event with the seconds that the trial trained, if its type has
// them.
template <typename Event>
Event WithSeconds(Event event, double seconds) {
  if constexpr (requires { event.seconds; }) event.seconds = seconds;
  return event;
}

// Simulates one search. Finished steps are handled in the order of their times.
// A trial with further operations keeps its worker; a free worker takes the
// trial that has waited longest.
class WorkerSimulation {
 public:
  WorkerSimulation(const SearchTask& task, Searcher& searcher, int workers,
                   double end, std::uint32_t noise_seed)
      : task_(task),
        searcher_(searcher),
        free_workers_(workers),
        end_(end),
        noise_(noise_seed) {}

  SearchCourse Run() {
    Send(Started{});
    OccupyWorkers();
    while (!steps_.empty() && std::get<double>(steps_.top()) <= end_) {
      const auto [time, order, trial] = steps_.top();
      steps_.pop();
      now_ = time;
      ++course_.steps;
      FinishStep(trial);
    }
    course_.ended = steps_.empty();
    course_.trials = static_cast<std::int64_t>(trials_.size());
    return std::move(course_);
  }

 private:
  struct WorkerTrial {
    std::unique_ptr<LearningCurve> curve;
    std::deque<std::int64_t> lengths;  // operations not yet begun
    bool running = false;
    bool close = false;
    int done = 0;                // steps
    int begun = 0;               // steps before the present operation
    std::vector<double> errors;  // after each step of that operation
  };

  void Send(const Event& event) {
    const auto start = std::chrono::steady_clock::now();
    const std::vector<Operation> operations = searcher_.Handle(event);
    const std::chrono::duration<double> spent =
        std::chrono::steady_clock::now() - start;
    ++course_.decisions;
    course_.decision_seconds += spent.count();
    course_.slowest_decision =
        std::max(course_.slowest_decision, spent.count());
    for (const Operation& operation : operations) Apply(operation);
  }

  void Apply(const Operation& operation) {
    if (const auto* create = std::get_if<Create>(&operation)) {
      trials_.push_back({.curve = task_.Train(create->hparams)});
      Send(Created{create->trial});
    } else if (const auto* more = std::get_if<ValidateAfter>(&operation)) {
      WorkerTrial& trial = At(more->trial);
      if (!trial.running && trial.lengths.empty()) {
        waiting_.push_back(more->trial);
      }
      trial.lengths.push_back(more->length);
    } else if (const auto* close = std::get_if<Close>(&operation)) {
      WorkerTrial& trial = At(close->trial);
      trial.close = true;
      if (!trial.running && trial.lengths.empty()) {
        closing_.push_back(close->trial);
      }
    }
  }

  void OccupyWorkers() {
    while (!closing_.empty()) {
      const TrialIndex trial = closing_.front();
      closing_.pop_front();
      Send(Closed{trial});
    }
    while (free_workers_ > 0 && !waiting_.empty()) {
      --free_workers_;
      Begin(waiting_.front());
      waiting_.pop_front();
    }
  }

  void Begin(TrialIndex index) {
    WorkerTrial& trial = At(index);
    const auto length = static_cast<int>(trial.lengths.front());
    trial.lengths.pop_front();
    trial.running = true;
    trial.begun = trial.done;
    trial.errors = trial.curve->Errors(trial.done, length);
    PlanStep(index);
  }

  void PlanStep(TrialIndex trial) {
    steps_.emplace(now_ + At(trial).curve->seconds_per_step(), ++order_, trial);
  }

  void FinishStep(TrialIndex index) {
    WorkerTrial& trial = At(index);
    const double error =
        trial.errors[static_cast<std::size_t>(trial.done - trial.begun)];
    ++trial.done;
    const double reported = error + task_.noise() * NormalNumber();
    if (reported < best_reported_) {
      best_reported_ = reported;
      course_.improvements.push_back({now_, error});
    }
    if (trial.done < trial.begun + static_cast<int>(trial.errors.size())) {
      return PlanStep(index);
    }
    FinishOperation(index, reported);
  }

  void FinishOperation(TrialIndex index, double reported) {
    const double seconds = static_cast<double>(At(index).errors.size()) *
                           At(index).curve->seconds_per_step();
    if (At(index).done == task_.steps()) ++course_.full_trainings;
    Send(WithSeconds(
        ValidationCompleted{
            .trial = index, .length = At(index).done, .metric = reported},
        seconds));
    WorkerTrial& trial = At(index);  // Send may have moved it
    if (!trial.lengths.empty()) return Begin(index);
    trial.running = false;
    if (trial.close) closing_.push_back(index);
    ++free_workers_;
    OccupyWorkers();
  }

  // Box and Muller's method.
  double NormalNumber() {
    if (task_.noise() == 0) return 0;
    const double radius = std::sqrt(-2 * std::log(1 - noise_.Uniform()));
    return radius * std::cos(2 * std::numbers::pi * noise_.Uniform());
  }

  WorkerTrial& At(TrialIndex trial) {
    return trials_.at(static_cast<std::size_t>(trial));
  }

  using PlannedStep = std::tuple<double, std::int64_t, TrialIndex>;

  const SearchTask& task_;
  Searcher& searcher_;
  int free_workers_;
  double end_;
  Rng noise_;
  std::vector<WorkerTrial> trials_;
  std::deque<TrialIndex> waiting_;
  std::deque<TrialIndex> closing_;
  std::priority_queue<PlannedStep, std::vector<PlannedStep>, std::greater<>>
      steps_;
  std::int64_t order_ = 0;
  double now_ = 0;
  double best_reported_ = std::numeric_limits<double>::infinity();
  SearchCourse course_;
};

// --- Results

// Times at which regrets are reported.
constexpr std::array<double, 7> kTimes = {0.25, 0.5, 1, 2, 4, 8, 16};
// Error, in medians, before the first report.
constexpr double kNoReport = 1.5;
// Smallest regret in geometric means.
constexpr double kMinRegret = 1e-4;

double ErrorAt(const SearchCourse& course, double seconds,
               const Reference& reference) {
  double error = kNoReport * reference.median;
  for (const Improvement& step : course.improvements) {
    if (step.seconds <= seconds) error = step.error;
  }
  return error;
}

// Time until the error of the best 1 % is reached, if it is.
std::optional<double> TimeToBestPercent(const SearchCourse& course,
                                        const Reference& reference) {
  for (const Improvement& step : course.improvements) {
    if (step.error <= reference.best_percent) {
      return step.seconds / reference.unit_seconds;
    }
  }
  return std::nullopt;
}

json RunJson(const SearchCourse& course, const Reference& reference,
             const SearchSimulations& options, std::uint32_t seed) {
  json regret = json::array();
  for (const double time : kTimes) {
    if (time > options.budget) break;
    regret.push_back(reference.Regret(
        ErrorAt(course, time * reference.unit_seconds, reference)));
  }
  const auto hit = TimeToBestPercent(course, reference);
  json run = {{"seed", seed},
              {"regret", regret},
              {"to_best_percent", hit ? json(*hit) : json(nullptr)},
              {"trials", course.trials},
              {"full_trainings", course.full_trainings},
              {"steps", course.steps},
              {"decision_ms_mean", 1000 * course.decision_seconds /
                                       static_cast<double>(course.decisions)},
              {"decision_ms_max", 1000 * course.slowest_decision}};
  if (course.ended) {
    constexpr double kEnd = std::numeric_limits<double>::infinity();
    run["plan_regret"] = reference.Regret(ErrorAt(course, kEnd, reference));
  }
  if (!options.trajectories) return run;
  json trajectory = json::array();
  for (const Improvement& step : course.improvements) {
    trajectory.push_back(
        {step.seconds / reference.unit_seconds, reference.Regret(step.error)});
  }
  run["trajectory"] = std::move(trajectory);
  return run;
}

// Median of the times, in which null is infinite; null if it is infinite.
json MedianTime(const json& runs) {
  std::vector<double> times;
  for (const json& run : runs) {
    const json& time = run.at("to_best_percent");
    times.push_back(time.is_null() ? std::numeric_limits<double>::infinity()
                                   : time.get<double>());
  }
  std::ranges::sort(times);
  const double median =
      (times[(times.size() - 1) / 2] + times[times.size() / 2]) / 2;
  return std::isfinite(median) ? json(median) : json(nullptr);
}

json Summary(const std::string& searcher, json runs) {
  json means = json::array();
  json geometric = json::array();
  const auto count = static_cast<double>(runs.size());
  for (std::size_t i = 0; i < runs.at(0).at("regret").size(); ++i) {
    double sum = 0;
    double logs = 0;
    for (const json& run : runs) {
      const double regret = run.at("regret").at(i);
      sum += regret;
      logs += std::log(std::max(regret, kMinRegret));
    }
    means.push_back(sum / count);
    geometric.push_back(std::exp(logs / count));
  }
  const json to_best = MedianTime(runs);
  return {{"searcher", searcher},
          {"mean_regret", std::move(means)},
          {"geometric_mean_regret", std::move(geometric)},
          {"median_to_best_percent", to_best},
          {"runs", std::move(runs)}};
}

// Prints a line for people.
void LogSummary(const json& summary) {
  std::cerr << summary.at("searcher").get<std::string>() << ": regret x1000";
  for (std::size_t i = 0; i < summary.at("mean_regret").size(); ++i) {
    std::array<char, 64> text{};
    std::snprintf(text.data(), text.size(), "%s at %g: %.1f", i > 0 ? "," : "",
                  kTimes.at(i), 1000 * summary["mean_regret"][i].get<double>());
    std::cerr << text.data();
  }
  std::cerr << "; median time to the best 1 %: "
            << summary.at("median_to_best_percent") << '\n';
}

json SimulateSearcher(const SearchTask& task, const std::string& searcher,
                      const Reference& reference,
                      const SearchSimulations& options) {
  const ExperimentConfig config =
      MakeSearchConfig(searcher, task, options.workers, options.space);
  json runs = json::array();
  for (std::uint32_t seed = 0; seed < options.seeds; ++seed) {
    const auto made =
        MakeSearcher(config.searcher, config.hyperparameters, seed);
    WorkerSimulation simulation(task, *made, options.workers,
                                options.budget * reference.unit_seconds,
                                /*noise_seed=*/seed + 1'000'000);
    runs.push_back(RunJson(simulation.Run(), reference, options, seed));
  }
  json summary = Summary(searcher, std::move(runs));
  LogSummary(summary);
  return summary;
}

std::vector<double> ReportedTimes(double budget) {
  std::vector<double> times(kTimes.begin(), kTimes.end());
  std::erase_if(times, [budget](double time) { return time > budget; });
  return times;
}

}  // namespace

json SimulateSearches(const SearchTask& task,
                      const SearchSimulations& options) {
  const Reference reference = ReadReference(task, options.reference);
  json searchers = json::array();
  for (const std::string& searcher : options.searchers) {
    searchers.push_back(SimulateSearcher(task, searcher, reference, options));
  }
  return {{"workers", options.workers},
          {"budget", options.budget},
          {"reference", reference},
          {"times", ReportedTimes(options.budget)},
          {"searchers", std::move(searchers)}};
}

void ServeTask(const SearchTask& task, const std::string& reference,
               std::istream& in, std::ostream& out) {
  const json space =
      MakeSearchConfig("{name: random}", task, /*workers=*/1).hyperparameters;
  out << json{{"hyperparameters", space},
              {"steps", task.steps()},
              {"noise", task.noise()},
              {"reference", ReadReference(task, reference)}}
      << std::endl;
  for (std::string line; std::getline(in, line);) {
    try {
      const auto curve = task.Train(json::parse(line));
      out << json{{"seconds_per_step", curve->seconds_per_step()},
                  {"errors", curve->Errors(0, task.steps())}}
          << std::endl;
    } catch (const std::exception& error) {
      throw Error(ErrorKind::kUsage,
                  "invalid hyperparameters " + line + ": " + error.what());
    }
  }
}

}  // namespace dtrain
