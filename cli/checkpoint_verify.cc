#include <algorithm>
#include <memory>

#include "cli/checkpoint_check.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/listing.h"
#include "cli/output.h"
#include "cli/store_access.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/report/format.h"
#include "engine/report/json_view.h"

namespace dtrain {
namespace {

struct VerifyOptions : TableOptions {
  std::vector<std::string> targets;
};

struct Verified {
  CheckpointRow row;
  FileReport report;
};

void AddTarget(const Store& store, const std::string& text,
               std::vector<CheckpointRow>& rows) {
  if (!IsTarget(store, text)) {
    rows.push_back(FindCheckpoint(store, text));
    return;
  }
  const Target target = ParseTarget(text);
  FindTarget(store, target);
  for (CheckpointRow& row : store.Checkpoints(target.experiment)) {
    if (target.trial && row.trial.number != *target.trial) continue;
    rows.push_back(std::move(row));
  }
}

std::vector<CheckpointRow> AskedFor(const Store& store,
                                    const VerifyOptions& options) {
  std::vector<CheckpointRow> rows;
  for (const std::string& text : options.targets) AddTarget(store, text, rows);
  if (options.targets.empty()) {
    for (const ExperimentRow& experiment : ListExperiments(store, true)) {
      for (CheckpointRow& row : store.Checkpoints(experiment.id)) {
        rows.push_back(std::move(row));
      }
    }
  }
  return rows;
}

// Verifies each. One that its runner deletes meanwhile is left out.
std::vector<Verified> Verify(const Store& store,
                             std::vector<CheckpointRow> rows) {
  std::vector<Verified> results;
  for (CheckpointRow& row : rows) {
    FileReport report = VerifyCheckpoint(store, row);
    if (report.state != FileState::kGood &&
        store.CheckpointByPrefix(row.uuid).state == "DELETED") {
      continue;
    }
    results.push_back({std::move(row), std::move(report)});
  }
  return results;
}

// What was found and is not in the record yet.
bool IsNews(const Verified& result) {
  return (result.report.state == FileState::kBad &&
          result.row.state == "COMPLETED") ||
         (result.report.state == FileState::kGood &&
          result.row.state == "CORRUPT");
}

// Notes what is news, as it is shown; gives the UUIDs.
std::vector<std::string> NoteNews(std::vector<Verified>& results) {
  std::vector<std::string> uuids;
  for (Verified& result : results) {
    if (!IsNews(result)) continue;
    const bool good = result.report.state == FileState::kGood;
    result.row.state = good ? "COMPLETED" : "CORRUPT";
    uuids.push_back(result.row.uuid);
  }
  return uuids;
}

void RecordStates(const StoreLayout& layout,
                  const std::vector<Verified>& results,
                  const std::vector<std::string>& news,
                  const GlobalOptions& globals) {
  if (news.empty()) return;
  Store store = OpenStoreForWriting(layout, globals);
  store.Write([&](StoreWriter& writer) {
    for (const Verified& result : results) {
      if (std::ranges::count(news, result.row.uuid) == 0) continue;
      // One that was deleted meanwhile stays so.
      static_cast<void>(
          writer.SetCheckpointFound(result.row.uuid, result.row.state));
    }
  });
}

Listing<Verified> VerifiedListing() {
  return {.name = "checkpoints",
          .columns = {{.name = "uuid"},
                      {.name = "trial", .right = true},
                      {.name = "batches", .right = true},
                      {.name = "bytes", .right = true},
                      {.name = "state"},
                      {.name = "problem", .elastic = true}},
          .json = [](const Verified& result) -> nlohmann::json {
            const bool good = result.report.state == FileState::kGood;
            nlohmann::json problem;
            if (!good) problem = result.report.problem;
            return {{"uuid", result.row.uuid},
                    {"trial", ToString(result.row.trial)},
                    {"batches", result.row.batches},
                    {"bytes", result.row.bytes},
                    {"state", result.row.state},
                    {"ok", good},
                    {"problem", std::move(problem)}};
          },
          .cells = [](const Verified& result) -> std::vector<Cell> {
            const bool good = result.report.state == FileState::kGood;
            const std::string& state = result.row.state;
            return {result.row.uuid,
                    ToString(result.row.trial),
                    std::to_string(result.row.batches),
                    Cell(FormatBytes(result.row.bytes),
                         std::to_string(result.row.bytes)),
                    Cell(state, state, good ? Tone::kGood : Tone::kBad),
                    result.report.problem};
          }};
}

int Verify(const VerifyOptions& options, const GlobalOptions& globals) {
  const StoreLayout layout = FindStore(globals);
  std::vector<Verified> results;
  {
    const Store store = Store::OpenForReading(layout);
    results = Verify(store, AskedFor(store, options));
  }
  const auto news = NoteNews(results);
  // Where the store cannot be written to, what was found is told all the same.
  PrintListing(VerifiedListing(), results, options.format(), globals);
  RecordStates(layout, results, news, globals);
  const auto bad = std::ranges::count_if(results, [](const Verified& result) {
    return result.report.state != FileState::kGood;
  });
  if (bad == 0) return kExitDone;
  SayError(globals, std::to_string(bad) + " of " +
                        std::to_string(results.size()) +
                        " checkpoints are damaged or unreadable; trials resume "
                        "from the newest intact one");
  return kExitFailed;
}

}  // namespace

CommandRun SetUpCheckpointVerify(CLI::App& app) {
  auto options = std::make_shared<VerifyOptions>();
  AddOption(app, "TARGET", options->targets,
            "Checkpoint IDs, experiments (3) or trials (3.7); without any, all "
            "checkpoints of the store");
  AddTableOptions(app, *options);
  SetHelp(
      app,
      {.notes = "A checkpoint whose files changed is marked CORRUPT; no trial "
                "resumes from it. If a later check succeeds, its state returns "
                "to COMPLETED.",
       .exits = {{kExitDone, "all checkpoints are intact"},
                 {kExitFailed, "a checkpoint is damaged or unreadable"},
                 {kExitUsage},
                 {kExitNotFound},
                 {kExitStore}},
       .examples = {{"Verify all checkpoints of an experiment",
                     "dtrain checkpoint verify 3"},
                    {"Verify the whole store and keep a report",
                     "dtrain checkpoint verify --json > checkpoints.json"}}});
  return RunWith(Verify, options);
}

}  // namespace dtrain
