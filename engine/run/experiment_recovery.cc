// Restoring an experiment from its record. Replaying the searcher's events
// gives the trials and their operations, in O(events). Trials recorded as
// running died with their runner and are paused. A trial may have outlived its
// runner for a moment and finished a checkpoint that has no row: such a
// checkpoint is adopted, unless a reboot may have lost the metrics before it,
// which a trial resumed from there would not measure again. Its reports that no
// runner recorded are in the checkpoint, or beside it if they came later; the
// trial sends them again, but whether a checkpoint is kept is decided now.
// Half-written checkpoints and deletions that were not finished are cleaned up.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "engine/base/error.h"
#include "engine/checkpoint/checkpoint_files.h"
#include "engine/run/experiment.h"
#include "engine/wire/message.h"

namespace dtrain {
namespace {

// Adds the values of `metric` in the validations among a trial's reports.
void AddValidations(const std::vector<std::string>& reports,
                    const std::string& metric,
                    std::map<std::int64_t, double>& values) {
  for (const std::string& line : reports) {
    const TrialMessage message = DecodeTrialMessage(line);
    const auto* const validation = std::get_if<ValidationReport>(&message);
    if (validation == nullptr) continue;
    for (const auto& [name, value] : validation->metrics) {
      if (name == metric) values[validation->batches] = value;
    }
  }
}

// Returns the lines of the reports of the trial in `directory` that came after
// the last of these checkpoints and that no runner has recorded.
std::vector<std::string> LateReports(const std::string& directory,
                                     const std::vector<std::string>& uuids) {
  for (const std::string& uuid : uuids) {
    const auto late = ReadLateReports(directory, uuid);
    if (late) return late->value("unacknowledged", std::vector<std::string>());
  }
  return {};
}

}  // namespace

void Experiment::Recover() {
  const std::int64_t id = setup_.id;
  const Store& store = deps_.store;
  const auto events = store.SearcherEvents(id, 0);
  // The searcher's state comes from its last snapshot and the events after it;
  // the trials come from all events, which are cheap to apply without the
  // searcher. Checkpoints are read last: which of them are kept depends on the
  // trials that have ended.
  search_.Recover(store.LatestSnapshot(id), events);
  for (TrialRow& row : store.Trials(id)) {
    if (row.latest && row.latest->batches > 0) unread_.SetValidated();
    row.rung = 0;  // counted again by the replay
    failures_.Recover(row);
    TrialState* trial = trials_.Add(std::move(row));
    if (trial != nullptr) trial->untimed = true;
  }
  for (const SearcherEventRow& row : events) {
    const Event event = EventFromJson(row.event);
    ApplyEvent(event);
    for (const nlohmann::json& operation : row.operations) {
      trials_.ApplyOperation(event, OperationFromJson(operation));
    }
  }
  RecoverBest();
  RecoverCheckpoints();
  std::vector<TrialState*> unfinished;
  for (const auto& [number, trial] : trials_.trials()) {
    trial->RecoverEarlyEnd(trial->row.reason);
    unfinished.push_back(trial.get());
  }
  for (TrialState* trial : unfinished) {
    Advance(*trial);
    if (trial->ended || trial->row.state != State::kRunning) continue;
    // Its process ended with the runner.
    SetState(*trial, State::kPaused, Remarks(*trial));
    outbox_.Add(
        [trial = trial->row.id](StoreWriter& writer) {
          writer.ClearTrialProcess(trial, /*seconds=*/0);
        },
        Outbox::Urgency::kBatched);
  }
  // The record has no operations that close them.
  if (search_.ended()) CloseAll();
}

// Executes requests to a runner that died before it did: an end is still due. A
// pause is not, since the user resumes the experiment.
void Experiment::RecoverRequests() {
  for (const RequestRow& request : deps_.store.OpenRequests(setup_.id)) {
    if (request.kind == RequestKind::kPause) {
      requests_.Skip(request.id);
      FinishRequest(request.id);
    } else {
      Execute(request);
    }
  }
}

void Experiment::RecoverBest() {
  const Store& store = deps_.store;
  const std::int64_t id = setup_.id;
  const auto experiment = store.Experiment(id);
  if (!experiment) return;
  progress_.Set(experiment->row.progress);
  time_.SetEarlier(experiment->row.seconds);
  ReadBest();
}

void Experiment::RecoverCheckpoints() {
  const auto recorded = deps_.store.Checkpoints(setup_.id, /*deleted=*/true);
  std::vector<TrialId> ended;
  for (const CheckpointRow& row : recorded) {
    if (row.state != "COMPLETED") continue;
    const TrialId trial = row.trial;
    // Policies keep more of an unfinished trial than of one that has ended, and
    // the runner may have died in between.
    const bool is_ended = trials_.Find(trial.number) == nullptr;
    if (is_ended && (ended.empty() || ended.back() != trial)) {
      ended.push_back(trial);
    }
    DeleteCheckpoints(keeper_.Add(row));
  }
  for (const TrialId trial : ended) DeleteCheckpoints(keeper_.End(trial));
  RecoverFiles(recorded);
}

void Experiment::RecoverFiles(const std::vector<CheckpointRow>& recorded) {
  std::map<std::string, std::string> states;
  for (const CheckpointRow& row : recorded) states[row.uuid] = row.state;
  files_.EmptyTrash();
  for (const auto& [number, trial] : trials_.trials()) {
    const TrialId id = trial->row.id;
    // Batched records of metrics are not synced one by one: a power cut may
    // lose the last of them, while checkpoints are always durable.
    const bool saw_no_reboot = trial->row.boot_id == setup_.boot_id;
    std::vector<std::string> found;
    for (const std::string& uuid : files_.CleanCheckpoints(id)) {
      const auto state = states.find(uuid);
      if (state == states.end() && saw_no_reboot) {
        found.push_back(uuid);
      } else if (state == states.end() || state->second == "DELETED") {
        RemoveQuietly(files_.Checkpoint(id, uuid));
      }
    }
    Adopt(id, found);
  }
}

// Returns the recorded value of the trial's last validation in `range`, if any.
// The trial does not report it again.
std::optional<double> Experiment::RecordedMetric(
    TrialId trial, const BatchRange& range) const {
  std::optional<double> value;
  deps_.store.ForEachMetric({.experiment = trial.experiment,
                             .trial = trial.number,
                             .kind = MetricKind::kValidation,
                             .name = searcher().metric},
                            [&](const MetricRow& row) {
                              const bool is_inside =
                                  row.batches >= range.from &&
                                  row.batches < range.until;
                              if (is_inside) value = row.value;
                            });
  return value;
}

// The metric of a checkpoint decides whether it is kept, and may be known only
// from a later checkpoint: the trial reports it again after it has resumed.
void Experiment::Adopt(TrialId trial, const std::vector<std::string>& uuids) {
  std::vector<CheckpointRow> rows;
  std::map<std::int64_t, double> unrecorded;  // metrics by batches
  std::vector<std::string> known = uuids;
  if (const CheckpointRow* latest = keeper_.Latest(trial)) {
    known.push_back(latest->uuid);
  }
  try {
    const auto late =
        LateReports(deps_.store.layout().Trial(trial).string(), known);
    AddValidations(late, searcher().metric, unrecorded);
  } catch (const std::exception&) {
    // Not written by this program; the trial that reads it says so.
  }
  for (const std::string& uuid : uuids) {
    try {
      CheckpointSummary found =
          SummarizeCheckpoint(files_.Checkpoint(trial, uuid).string());
      AddValidations(found.unacknowledged, searcher().metric, unrecorded);
      rows.push_back({.uuid = uuid,
                      .trial = trial,
                      .state = "COMPLETED",
                      .batches = found.batches,
                      .epoch = found.epoch,
                      .bytes = found.bytes,
                      .files = std::move(found.files),
                      .storage = files_.storage(),
                      .time = deps_.clock.now()});
    } catch (const Error&) {
      // It is incomplete; `dtrain gc` removes it.
    }
  }
  // That of the last recorded checkpoint, which the next one must not displace.
  for (const auto& [batches, value] : unrecorded) {
    const CheckpointRow* there = keeper_.At(trial, batches);
    if (there == nullptr || there->metric) continue;
    DeleteCheckpoints(keeper_.SetMetric(trial, batches, value));
  }
  for (CheckpointRow& row : rows) {
    // What the store has counts; the reports in a checkpoint are those that no
    // runner recorded.
    row.metric =
        RecordedMetric(trial, {.from = row.batches, .until = row.batches + 1});
    const auto found = unrecorded.find(row.batches);
    if (!row.metric && found != unrecorded.end()) row.metric = found->second;
    outbox_.Add([row](StoreWriter& writer) { writer.AddCheckpoint(row); },
                Outbox::Urgency::kDurable);
    deps_.reporter.OnNotice(
        LogLevel::kInfo, "trial " + ToString(trial) + ": has a checkpoint at " +
                             PositionText(row.at(), lengths_.units()) +
                             " saved after its runner had died, " + row.uuid);
    DeleteCheckpoints(keeper_.Add(std::move(row)));
  }
}

}  // namespace dtrain
