#include "tests/bench/scale_bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <deque>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include <poll.h>

#include "engine/base/error.h"
#include "engine/config/read_config.h"
#include "engine/nodes/nodes.h"
#include "engine/nodes/nodes_launcher.h"
#include "engine/nodes/runner_link.h"
#include "engine/os/poller.h"
#include "engine/process/local_launcher.h"
#include "engine/run/experiment.h"
#include "engine/run/runner.h"
#include "tests/support/fake_launcher.h"

namespace dtrain {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::int64_t kSlotsOfWorker = 8;
// Until a started process is ready, and until a closed one has ended.
constexpr Duration kProcessTime = milliseconds(10);
constexpr int kMeanSpeed = 1000;  // batches a second
constexpr std::int64_t kBatchesOfEpoch = 10000;
constexpr char kBenchVersion[] = "bench";

double ToSeconds(Duration time) {
  return std::chrono::duration<double>(time).count();
}

// Time of the simulation: it runs while the runner works, stands still while
// workers do, and jumps over waits. One thread, but `now` may be called by
// others while it stands still.
class SimulatedTime {
 public:
  // With the machine's clock, or with the processor time of this thread.
  explicit SimulatedTime(bool cpu_time)
      : source_(cpu_time ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC) {}

  Duration now() const {
    return running_ ? passed_ + (Real(source_) - since_) : passed_;
  }
  Clock clock() {
    return {.now =
                [this] {
                  return Timestamp(1'700'000'000'000'000) +
                         std::chrono::duration_cast<Timestamp>(now());
                },
            .monotonic = [this] { return now(); }};
  }
  void Run() {
    since_ = Real(source_);
    real_since_ = Real(CLOCK_MONOTONIC);
    cpu_since_ = Real(CLOCK_THREAD_CPUTIME_ID);
    running_ = true;
  }
  void Stop() {
    passed_ = now();
    worked_ += Real(CLOCK_MONOTONIC) - real_since_;
    cpu_ += Real(CLOCK_THREAD_CPUTIME_ID) - cpu_since_;
    running_ = false;
  }
  // REQUIRES: it stands still.
  void JumpTo(Duration time) { passed_ = std::max(passed_, time); }
  // Time that it ran, and processor time of that.
  Duration worked() const { return worked_; }
  Duration cpu() const { return cpu_; }

 private:
  static Duration Real(clockid_t clock) {
    timespec time{};
    ::clock_gettime(clock, &time);
    return seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  }

  const clockid_t source_;
  bool running_ = false;
  Duration passed_{0};
  Duration since_{0};
  Duration real_since_{0};
  Duration cpu_since_{0};
  Duration worked_{0};
  Duration cpu_{0};
};

// The workers of a runner in this process. All are joined by the constructor.
class SimulatedWorkers {
 public:
  // Called with the time from the end of a trial's process until the order to
  // start the next one on its slot.
  using OnStart = std::function<void(TrialId trial, Duration free_since)>;

  SimulatedWorkers(Launcher& runner, int port, const SecretFile& secret,
                   std::int64_t slots, SimulatedTime& time, OnStart on_start)
      : time_(time), on_start_(std::move(on_start)) {
    Join(runner, port, secret, slots);
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      poller_.Add(workers_[i].link->fd(), i);
      Plan(time_.now(), {.worker = i});
    }
  }

  // Receives all orders, and does what is due.
  void Act() {
    Receive();
    while (!plan_.empty() && plan_.top().time <= time_.now()) {
      const Step step = plan_.top();
      plan_.pop();
      Handle(step);
    }
  }
  // Time of the next thing to do.
  Duration next() const { return plan_.top().time; }
  std::int64_t reports() const { return reports_; }
  std::int64_t messages() const { return messages_; }

 private:
  struct Worker {
    std::unique_ptr<RunnerLink> link;
    std::deque<Duration> free_since;  // its slots that a trial has used
  };
  // A running trial.
  struct Trial {
    std::size_t worker = 0;
    Duration started{0};
    std::int64_t seq = 0;
    std::int64_t batches = 0;
    std::int64_t until = 0;
    std::int64_t speed = 1;  // batches a second
    EndReason end = EndReason::kCompleted;
  };
  // Something that a worker or a trial does.
  struct Step {
    enum class Kind { kBeat, kReady, kReport, kEnd };
    Duration time{0};
    std::int64_t order = 0;
    Kind kind = Kind::kBeat;
    std::size_t worker = 0;
    TrialId trial;

    bool operator>(const Step& other) const {
      return std::tie(time, order) > std::tie(other.time, other.order);
    }
  };

  void Join(Launcher& runner, int port, const SecretFile& secret,
            std::int64_t slots) {
    const auto count =
        static_cast<std::size_t>((slots + kSlotsOfWorker - 1) / kSlotsOfWorker);
    workers_.resize(count);
    std::thread joining([&] {
      std::int64_t left = slots;
      for (std::size_t i = 0; i < count; ++i) {
        const std::int64_t own = std::min(left, kSlotsOfWorker);
        left -= own;
        workers_[i].link = JoinOne(secret, port, "node" + std::to_string(i));
        workers_[i].link->Send(WorkerReady{.slots = own});
      }
    });
    while (runner.Capacity() < static_cast<std::size_t>(slots)) {
      std::this_thread::sleep_for(milliseconds(1));
      static_cast<void>(runner.Wait(Duration(0)));
    }
    joining.join();
  }

  std::unique_ptr<RunnerLink> JoinOne(const SecretFile& secret, int port,
                                      const std::string& name) {
    auto link =
        JoinRunner({.runner = {"127.0.0.1", port},
                    .secret = secret,
                    .claim = EncodeReport(WorkerHello{
                        .version = kBenchVersion, .host = name, .name = name}),
                    .clock = time_.clock()});
    static_cast<void>(link->Await());  // the task
    return link;
  }

  void Receive() {
    while (true) {
      const auto all = poller_.Wait(Duration(0));
      for (const Poller::Ready& ready : all) {
        const auto worker = static_cast<std::size_t>(ready.token);
        while (const auto order = workers_[worker].link->Receive()) {
          Apply(worker, *order);
        }
      }
      if (all.empty()) return;
    }
  }

  void Apply(std::size_t worker, const NodeOrder& order) {
    if (const auto* start = std::get_if<StartShard>(&order)) {
      Start(worker, start->spec);
    } else if (const auto* tell = std::get_if<TellShard>(&order)) {
      const RunnerMessage message = DecodeRunnerMessage(tell->line);
      if (const auto* run = std::get_if<RunOperation>(&message)) {
        trials_.at(tell->trial).until = run->until.count;
        PlanReport(time_.now(), tell->trial);
      } else if (std::holds_alternative<CloseTrial>(message)) {
        End(tell->trial, EndReason::kCompleted);
      }
    } else if (const auto* stop = std::get_if<StopShard>(&order)) {
      End(stop->trial, EndReason::kStopped);
    }
  }

  void Start(std::size_t worker, const TrialSpec& spec) {
    auto& free_since = workers_[worker].free_since;
    if (!free_since.empty()) {
      on_start_(spec.id, free_since.front());
      free_since.pop_front();
    }
    trials_[spec.id] = {
        .worker = worker,
        .started = time_.now(),
        .batches = spec.completed.empty() ? 0 : spec.completed.back().count,
        .until = spec.until->count,
        .speed = DrawSpeed(spec.id)};
    Plan(time_.now() + kProcessTime, Step::Kind::kReady, spec.id);
  }

  // No trial is stopped in the middle of an operation.
  void End(TrialId trial, EndReason reason) {
    trials_.at(trial).end = reason;
    Plan(time_.now() + kProcessTime, Step::Kind::kEnd, trial);
  }

  void Handle(const Step& step) {
    switch (step.kind) {
      case Step::Kind::kBeat:
        // It sends Alive if it has sent nothing else.
        static_cast<void>(workers_[step.worker].link->Receive());
        return Plan(step.time + kNodeBeat, {.worker = step.worker});
      case Step::Kind::kReady:
        Report(step.trial,
               ShardStarted{step.trial, {"cpu:" + std::to_string(1)}});
        Report(step.trial, Ready{});
        return PlanReport(step.time, step.trial);
      case Step::Kind::kReport:
        return Train(step);
      case Step::Kind::kEnd:
        return EndProcess(step);
    }
  }

  // Between half and twice kMeanSpeed, so that trials do not end together.
  static std::int64_t DrawSpeed(TrialId id) {
    const double share = ScriptedTrials::Hash(id.number, 0);
    return std::llround(kMeanSpeed * std::exp2(2 * share - 1));
  }

  // After a second, or at the end of the operation.
  void PlanReport(Duration from, TrialId id) {
    const Trial& trial = trials_.at(id);
    const std::int64_t batches =
        std::min(trial.until - trial.batches, trial.speed);
    Plan(from + batches * Duration(seconds(1)) / trial.speed,
         Step::Kind::kReport, id);
  }

  void Train(const Step& step) {
    Trial& trial = trials_.at(step.trial);
    trial.batches = std::min(trial.batches + trial.speed, trial.until);
    const auto at = static_cast<double>(trial.batches);
    Report(step.trial, TrainingReport{.seq = ++trial.seq,
                                      .batches = trial.batches,
                                      .epoch = at / kBatchesOfEpoch,
                                      .metrics = {{"loss", 1 / at},
                                                  {"accuracy", 1 - 1 / at}},
                                      .time = time_.clock().now()});
    Report(step.trial, Progress{.batches = trial.batches,
                                .total = trial.until,
                                .batches_per_epoch = kBatchesOfEpoch});
    ++reports_;
    if (trial.batches < trial.until) return PlanReport(step.time, step.trial);
    CompleteOperation(step.trial);
  }

  void CompleteOperation(TrialId id) {
    Trial& trial = trials_.at(id);
    const std::int64_t batches = trial.batches;
    const Timestamp now = time_.clock().now();
    Report(id,
           ValidationReport{
               .seq = ++trial.seq,
               .batches = batches,
               .metrics = {{"loss", ScriptedTrials::Hash(id.number, batches)}},
               .time = now});
    Report(id, CheckpointSaved{.seq = ++trial.seq,
                               .uuid = CheckpointName(id, batches),
                               .batches = batches,
                               .bytes = 10,
                               .time = now});
    Report(id, OperationCompleted{.seq = ++trial.seq,
                                  .length = {.count = batches},
                                  .batches = batches});
  }

  static std::string CheckpointName(TrialId id, std::int64_t batches) {
    std::string number = std::to_string(id.number * 1'000'000 + batches);
    number.insert(0, 12 - number.size(), '0');
    return "00000000-0000-4000-8000-" + number;
  }

  void EndProcess(const Step& step) {
    const Trial trial = trials_.at(step.trial);
    Report(
        step.trial,
        ShardEnded{.exited = {.trial = step.trial,
                              .seconds = ToSeconds(step.time - trial.started)},
                   .finished = Finished{.reason = trial.end}});
    trials_.erase(step.trial);
    workers_[trial.worker].free_since.push_back(step.time);
  }

  void Report(TrialId trial, const TrialMessage& message) {
    std::string line = Encode(message);
    line.pop_back();
    Report(trial, ShardMessage{trial, std::move(line)});
  }
  void Report(TrialId trial, const NodeReport& report) {
    ++messages_;
    workers_[trials_.at(trial).worker].link->Send(report);
  }

  void Plan(Duration time, Step::Kind kind, TrialId trial) {
    Plan(time, {.kind = kind, .trial = trial});
  }
  void Plan(Duration time, Step step) {
    step.time = time;
    step.order = ++order_;
    plan_.push(step);
  }

  SimulatedTime& time_;
  OnStart on_start_;
  Poller poller_;
  std::vector<Worker> workers_;
  std::map<TrialId, Trial> trials_;
  std::priority_queue<Step, std::vector<Step>, std::greater<>> plan_;
  std::int64_t order_ = 0;
  std::int64_t reports_ = 0;
  std::int64_t messages_ = 0;
};

// A launcher whose waits let the workers act and time pass.
class SimulatedLauncher final : public Launcher {
 public:
  SimulatedLauncher(Launcher& inner, Nodes& nodes, SimulatedTime& time)
      : inner_(inner), nodes_(nodes), time_(time) {}

  void SetWorkers(SimulatedWorkers& workers) { workers_ = &workers; }
  // Time at which the order to start the trial was written.
  Duration StartTime(TrialId trial) const { return started_.at(trial); }
  std::int64_t events() const { return events_; }

  std::size_t FreeSlots() const override { return inner_.FreeSlots(); }
  std::size_t Capacity() const override { return inner_.Capacity(); }
  void SetDemand(std::size_t trials) override { inner_.SetDemand(trials); }
  void Start(const TrialSpec& spec) override {
    inner_.Start(spec);
    started_[spec.id] = time_.now();
  }
  void Send(TrialId trial, const RunnerMessage& message) override {
    inner_.Send(trial, message);
  }
  void RequestStop(TrialId trial) override { inner_.RequestStop(trial); }
  void Kill(TrialId trial) override { inner_.Kill(trial); }
  std::optional<SlotWait> LongWait() override { return inner_.LongWait(); }
  void Abort() override { inner_.Abort(); }

  LaunchEvent Wait(Duration timeout) override {
    const Duration end = time_.now() + timeout;
    while (true) {
      time_.Stop();
      workers_->Act();
      time_.Run();
      LaunchEvent event = inner_.Wait(Duration(0));
      if (!std::holds_alternative<Idle>(event)) {
        ++events_;
        return event;
      }
      if (IsReadable()) continue;
      if (time_.now() >= end) return event;
      time_.Stop();
      time_.JumpTo(std::min(end, workers_->next()));
      time_.Run();
    }
  }

 private:
  bool IsReadable() const {
    pollfd entry{.fd = nodes_.fd(), .events = POLLIN, .revents = 0};
    return ::poll(&entry, 1, 0) > 0;
  }

  Launcher& inner_;
  Nodes& nodes_;
  SimulatedTime& time_;
  SimulatedWorkers* workers_ = nullptr;
  std::map<TrialId, Duration> started_;
  std::int64_t events_ = 0;
};

std::string ScaleYaml(const ScaleOptions& options) {
  return "name: " + std::to_string(options.slots) +
         " slots\n"
         "entrypoint: builtin:FaultTrial\n"
         "hyperparameters:\n"
         "  x: {type: double, minval: 0, maxval: 1}\n"
         "  lr: {type: log, base: 10, minval: -5, maxval: -1}\n"
         "  layers: {type: int, minval: 1, maxval: 8}\n"
         "searcher: {name: asha, metric: loss, num_rungs: 4, divisor: 4,\n"
         "  max_length: " +
         std::to_string(options.seconds * kMeanSpeed * 64) +
         ", max_trials: " + std::to_string(options.trials) +
         ", max_concurrent_trials: " + std::to_string(options.slots) +
         "}\n"
         "max_restarts: 0\n";
}

// Megabytes that this process has used at most.
double PeakMegabytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  double kibibytes = 0;
  while (status >> word && word != "VmHWM:") {
  }
  status >> kibibytes;
  return kibibytes * 1024 / 1e6;
}

json Quantiles(std::vector<double> values) {
  if (values.empty()) return nullptr;
  std::ranges::sort(values);
  const auto at = [&values](double share) {
    return values[static_cast<std::size_t>(
        share * static_cast<double>(values.size() - 1))];
  };
  return {{"count", values.size()},
          {"p50", at(0.5)},
          {"p99", at(0.99)},
          {"max", values.back()}};
}

// The search of a simulation, with all that it needs.
class ScaledSearch {
 public:
  explicit ScaledSearch(const ScaleOptions& options);
  json Run();

 private:
  std::int64_t Create();
  std::unique_ptr<Launcher> MakeInner();
  void OnStart(TrialId trial, Duration free_since);
  json Result(std::int64_t transactions);

  const ScaleOptions options_;
  SimulatedTime time_;
  const Clock clock_;
  const StoreLayout layout_;
  const std::string yaml_;
  const ExperimentConfig config_;
  Store store_;
  const std::int64_t id_;
  Nodes nodes_;
  const std::unique_ptr<Launcher> inner_;
  SimulatedLauncher launcher_;
  std::int64_t created_ = 0;   // trials
  std::vector<double> waits_;  // of free slots, in milliseconds
  SimulatedWorkers workers_;
};

ScaledSearch::ScaledSearch(const ScaleOptions& options)
    : options_(options),
      time_(options.cpu_time),
      clock_(time_.clock()),
      layout_(options.directory),
      yaml_(ScaleYaml(options)),
      config_(ReadConfig(yaml_, {.file_name = "bench.yaml"}).config.value()),
      store_(Store::OpenForWriting(layout_)),
      id_(Create()),
      nodes_({.place = {"127.0.0.1", 0},
              .version = kBenchVersion,
              .secret = SecretFile(layout_),
              .clock = clock_}),
      inner_(MakeInner()),
      launcher_(*inner_, nodes_, time_),
      workers_(*inner_, nodes_.port(), SecretFile(layout_), options.slots,
               time_, [this](TrialId trial, Duration free_since) {
                 OnStart(trial, free_since);
               }) {
  launcher_.SetWorkers(workers_);
}

std::int64_t ScaledSearch::Create() {
  const std::int64_t id =
      CreateExperiment(store_, config_, yaml_, json::object(), clock_);
  std::filesystem::create_directories(layout_.Experiment(id));
  return id;
}

// Workers join as soon as they are made, so their task comes first.
std::unique_ptr<Launcher> ScaledSearch::MakeInner() {
  nodes_.SetTask({.experiment = id_, .gpus = false});
  return MakeNodesLauncher(
      nodes_,
      {.experiment = id_,
       .slots = {.count = 0},
       .layout = layout_,
       .clock = clock_},
      {.changed = [path = layout_.WorkerTable(id_)](const WorkerTable& table) {
        WriteWorkers(path, table);
      }});
}

// Once all trials are created, slots wait for results of others.
void ScaledSearch::OnStart(TrialId trial, Duration free_since) {
  created_ = std::max(created_, trial.number);
  if (created_ == options_.trials) return;
  waits_.push_back(1e3 * ToSeconds(launcher_.StartTime(trial) - free_since));
}

json ScaledSearch::Run() {
  Reporter quiet;
  Experiment experiment({.id = id_, .config = config_, .seed = 1, .slots = 0},
                        {.store = store_,
                         .launcher = launcher_,
                         .reporter = quiet,
                         .clock = clock_});
  time_.Run();
  const RunResult result = experiment.Run();
  time_.Stop();
  const json found = Result(experiment.transactions());
  time_.Run();  // for destructors that wait
  if (result.state == State::kCompleted) return found;
  throw Error(ErrorKind::kFailed, "the search did not end: " + result.error);
}

json ScaledSearch::Result(std::int64_t transactions) {
  const double cpu = ToSeconds(time_.cpu());
  return {
      {"slots", options_.slots},
      {"trials", options_.trials},
      {"reports", workers_.reports()},
      {"messages", workers_.messages()},
      {"transactions", transactions},
      {"simulated_seconds", ToSeconds(time_.now())},
      {"runner_seconds", ToSeconds(time_.worked())},
      {"runner_cpu_seconds", cpu},
      {"cpu_ms_per_trial", 1e3 * cpu / static_cast<double>(options_.trials)},
      {"events_per_cpu_second", static_cast<double>(launcher_.events()) / cpu},
      {"start_after_free_slot_ms", Quantiles(waits_)},
      {"peak_mb", PeakMegabytes()}};
}

}  // namespace

json SearchAtScale(const ScaleOptions& options) {
  return ScaledSearch(options).Run();
}

}  // namespace dtrain
