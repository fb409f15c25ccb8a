#include "cli/source_checkpoint.h"

#include <algorithm>
#include <vector>

#include "cli/checkpoint_check.h"
#include "cli/output.h"
#include "cli/store_access.h"
#include "engine/base/error.h"

namespace dtrain {
namespace {

SourceCheckpoint At(const Store& store, const CheckpointRow& row) {
  return {.uuid = row.uuid,
          .trial = row.trial,
          .directory = store.PathOf(row),
          .origin = {{"trial", ToString(row.trial)},
                     {"checkpoint", row.uuid},
                     {"batches", row.batches}}};
}

// The trial's checkpoints, the latest first.
std::vector<CheckpointRow> Candidates(const Store& store, TrialId trial) {
  auto rows = store.Checkpoints(trial.experiment);
  std::erase_if(rows, [&](const CheckpointRow& row) {
    return row.trial != trial || row.state != "COMPLETED";
  });
  std::ranges::reverse(rows);
  return rows;
}

}  // namespace

SourceCheckpoint SourceFrom(const Store& store, const CheckpointRow& row) {
  const FileReport report = VerifyCheckpoint(store, row);
  if (report.state == FileState::kGood) return At(store, row);
  const bool is_bad = report.state == FileState::kBad;
  throw Error(is_bad ? ErrorKind::kDamaged : ErrorKind::kFailed,
              report.problem);
}

SourceCheckpoint SourceFrom(const Store& store, TrialId trial,
                            const GlobalOptions& globals) {
  FindTarget(store, {.experiment = trial.experiment, .trial = trial.number});
  for (const CheckpointRow& row : Candidates(store, trial)) {
    const FileReport report = VerifyCheckpoint(store, row);
    if (report.state == FileState::kGood) return At(store, row);
    Say(globals, "warning: " + report.problem + "; trying an older one");
  }
  throw Error(ErrorKind::kNotFound,
              "trial " + ToString(trial) +
                  " has no checkpoint to start from; 'dtrain checkpoints " +
                  std::to_string(trial.experiment) +
                  "' lists the existing ones");
}

std::optional<SourceCheckpoint> FindSource(ExperimentConfig& config,
                                           const GlobalOptions& globals) {
  const std::string& uuid = config.source_checkpoint_uuid;
  if (uuid.empty() && config.source_trial_id.empty()) return std::nullopt;
  const Store store = OpenStore(globals);
  SourceCheckpoint source;
  if (!uuid.empty()) {
    source = SourceFrom(store, FindCheckpoint(store, uuid));
  } else {
    const Target target = ParseTarget(config.source_trial_id);
    source = SourceFrom(store, {target.experiment, *target.trial}, globals);
  }
  SetSource(source, config);
  return source;
}

std::optional<SourceCheckpoint> SourceOf(const Store& store,
                                         const ExperimentDetail& experiment) {
  const std::string uuid =
      ConfigFromJson(experiment.config).source_checkpoint_uuid;
  if (uuid.empty()) return std::nullopt;
  const auto kept = store.layout().Source(experiment.row.id, uuid);
  std::error_code error;
  if (!std::filesystem::is_directory(kept, error)) {
    return SourceFrom(store, FindCheckpoint(store, uuid));
  }
  return SourceCheckpoint{
      .uuid = uuid,
      .directory = kept,
      .origin = experiment.provenance.value("forked_from", nlohmann::json())};
}

void SetSource(const SourceCheckpoint& start, ExperimentConfig& config) {
  config.source_checkpoint_uuid = start.uuid;
  config.source_trial_id.clear();
  config.effective["searcher"]["source_checkpoint_uuid"] = start.uuid;
  config.effective["searcher"]["source_trial_id"] = nullptr;
}

}  // namespace dtrain
