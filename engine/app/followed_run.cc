// Each Poll reads the state first and the rest after it: what belongs to an
// ended run is recorded before its end, so that after an end was read nothing
// can be missing. The store's version of the data tells whether anything was
// written since the last Poll; if not, trials, events and metrics are not read
// again.

#include "engine/app/followed_run.h"

#include <algorithm>
#include <utility>

#include "engine/app/stores.h"
#include "engine/base/error.h"
#include "engine/config/read_config.h"
#include "engine/nodes/worker_table.h"
#include "engine/report/format.h"
#include "engine/run/reported_units.h"
#include "engine/slots/slots.h"
#include "engine/store/store.h"
#include "engine/store/trial_log.h"

namespace dtrain {
namespace {

constexpr Duration kPeriod = std::chrono::milliseconds(200);
constexpr Duration kInterruptedFor = std::chrono::seconds(1);
constexpr int kInterruptedCalls = 5;
constexpr std::size_t kLastLines = 20;  // as the runner shows of a failure

}  // namespace

bool SettledCheck::IsSettled(const ExperimentRow& row, Duration now) {
  if (row.state != State::kInterrupted) {
    interrupted_.reset();
    calls_ = 0;
    return row.state != State::kRunning && row.state != State::kPending;
  }
  if (!interrupted_) interrupted_ = now;
  ++calls_;
  return now - *interrupted_ >= kInterruptedFor && calls_ >= kInterruptedCalls;
}

FollowedRun::FollowedRun(const Store& store, std::int64_t experiment)
    : FollowedRun(store, FindExperimentDetail(store, experiment)) {}

FollowedRun::FollowedRun(const Store& store, const ExperimentDetail& detail)
    : store_(store),
      config_(ConfigFromJson(detail.config)),
      run_(detail.row, config_) {
  const State state = detail.row.state;
  if (!store.IsCopy() || (state != State::kRunning && state != State::kPending))
    return;
  throw Error(ErrorKind::kStore,
              "store " + store.layout().root().string() +
                  ": has an older schema and cannot be migrated, so the run of "
                  "experiment " +
                  std::to_string(detail.row.id) +
                  " cannot be followed; make the store writable, or watch it "
                  "with the dtrain that runs it");
}

void FollowedRun::Poll(Duration now, Reporter& reporter) try {
  Read(now, reporter);
} catch (const Error& error) {
  // Whatever is not found at any point of the reading, a deletion explains it.
  const std::int64_t id = run_.info().experiment;
  if (error.kind() != ErrorKind::kNotFound || store_.Experiment(id)) throw;
  settled_ = deleted_ = true;
}

void FollowedRun::Read(Duration now, Reporter& reporter) {
  // Its state is read first: what was recorded before an end is then read, too.
  records_.experiment = FindExperiment(store_, run_.info().experiment);
  records_.seconds = ElapsedSeconds(records_.experiment, Clock::System().now());
  settled_ = check_.IsSettled(records_.experiment, now);
  records_.events.clear();
  records_.metrics.clear();
  const std::int64_t version = store_.DataVersion();
  if (version_ != version) ReadChanges();
  version_ = version;
  records_.slot_wait.reset();
  workers_.clear();
  if (records_.experiment.state == State::kRunning) {
    if (config_.resources.listen) ReadWorkerSummary();
    const SlotQueueView queue(store_);
    const SlotWait* wait = queue.FindWait(records_.experiment);
    if (wait != nullptr) records_.slot_wait = *wait;
  }
  run_.Apply(records_,
             {.last_lines = [this](TrialId trial) { return LastLines(trial); },
              .checkpoint_at =
                  [this](const std::string& uuid) {
                    return store_.CheckpointByPrefix(uuid).at();
                  }},
             reporter);
}

void FollowedRun::ReadWorkerSummary() {
  const auto id = records_.experiment.id;
  const auto table = ReadWorkers(store_.layout().WorkerTable(id));
  if (table) workers_ = table->Summary();
}

void FollowedRun::ReadChanges() {
  const std::int64_t id = records_.experiment.id;
  records_.trials = ListTrials(store_, records_.experiment);
  records_.events = store_.SearcherEvents(id, run_.last_event());
  for (const TrialRow& trial : records_.trials) {
    if (run_.MayHaveReports(trial)) ReadReports(trial);
  }
  if (counted_) return;
  records_.counted = CountedUnit(store_, id, config_);
  counted_ = store_.FirstReport(id).has_value();
}

void FollowedRun::ReadReports(const TrialRow& trial) {
  for (const MetricKind kind :
       {MetricKind::kTraining, MetricKind::kValidation}) {
    std::int64_t after = run_.ReadUntil(trial, kind);
    if (!version_ && kind == MetricKind::kTraining) {
      // Of the past only the last report is shown.
      after = store_.LastReport(trial.id, kind).value_or(0) - 1;
    }
    store_.ForEachMetric(
        {.experiment = trial.id.experiment,
         .trial = trial.id.number,
         .kind = kind,
         .after = after},
        [this](const MetricRow& row) { records_.metrics.push_back(row); });
  }
}

FollowedRuns::FollowedRuns(const Store& store,
                           const std::vector<std::int64_t>& ids)
    : displays_(ids.size()) {
  for (const std::int64_t id : ids) runs_.emplace_back(store, id);
}

bool FollowedRuns::Poll(Duration now, const std::vector<Reporter*>& reporters) {
  if (next_ && now < *next_) return false;
  const Clock clock = Clock::System();
  const Duration begin = clock.monotonic();
  Reporter none;
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    if (runs_[i].settled()) continue;
    runs_[i].Poll(now, reporters.empty() ? none : *reporters[i]);
    const RunStatus& status = runs_[i].run().status();
    displays_[i].speeds.Update(status, now);
    displays_[i].seconds_left = displays_[i].remaining.Update(status);
  }
  next_ = now + std::max(kPeriod, 10 * (clock.monotonic() - begin));
  return true;
}

bool FollowedRuns::AllSettled() const {
  return std::ranges::all_of(runs_, &FollowedRun::settled);
}

std::vector<LiveFrame> FollowedRuns::Frames() const {
  std::vector<LiveFrame> frames;
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    const RecordedRun& run = runs_[i].run();
    const State state = runs_[i].row().state;
    const std::string state_name =
        state == State::kRunning ? "" : std::string(StateName(state));
    frames.push_back(
        {.info = run.info(),
         .status = run.status(),
         .speeds = displays_[i].speeds,
         .seconds_left = displays_[i].seconds_left,
         .history = [&run](TrialId trial) { return run.History(trial); },
         .state = runs_[i].deleted() ? "deleted" : state_name,
         .workers = runs_[i].workers()});
  }
  return frames;
}

std::vector<std::string> FollowedRun::LastLines(TrialId trial) const {
  std::vector<std::string> lines;
  try {
    TrialLogReader reader(store_.layout().TrialLog(trial));
    reader.SeekToTail(static_cast<std::int64_t>(kLastLines));
    while (const auto record = reader.Next()) lines.push_back(record->text);
  } catch (const Error&) {
    return {};  // the log cannot be read; its end is known all the same
  }
  if (lines.size() > kLastLines) {
    lines.erase(lines.begin(), lines.end() - kLastLines);
  }
  return lines;
}

}  // namespace dtrain
