// `dtrain checkpoint show`, `verify` and `delete`.
//
// verify reads every file of the checkpoints while the store is open for
// reading only, prints, and records the states that have changed in one short
// transaction at the end: reading gigabytes must not keep a write lock. A
// runner may delete a checkpoint meanwhile, so a failed one is looked up again
// before it is reported, and SetCheckpointFound leaves deleted rows alone.
//
// delete refuses the latest checkpoint of an unfinished trial, which resumes
// from it. The check is repeated within the write transaction, because a runner
// may have recorded a new state in between. Rows are marked DELETED first and
// the files removed afterwards: a crash leaves files that `dtrain gc` finds,
// never a row without files.

#include <algorithm>
#include <iostream>
#include <map>
#include <memory>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/selection.h"
#include "engine/app/checkpoints.h"
#include "engine/app/stores.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/report/format.h"
#include "engine/report/json_view.h"
#include "engine/store/checkpoint_storage.h"
#include "engine/store/file_tree.h"

namespace dtrain {
namespace {

struct ShowOptions : JsonOption {
  std::string source;
  bool latest = false;
};

// Also a deleted one, if its UUID names it.
CheckpointRow FindToShow(const Store& store, const ShowOptions& options) {
  const bool by_uuid = !options.latest && !ResolveSource(store, options.source);
  return by_uuid ? store.CheckpointByPrefix(options.source)
                 : FindSourceCheckpoint(store, options.source, options.latest);
}

int Show(const ShowOptions& options, const GlobalOptions& globals) {
  const Store store = OpenStore(globals);
  const CheckpointRow row = FindToShow(store, options);
  const std::string path = store.CheckpointPath(row).string();
  if (options.json) {
    nlohmann::json document = CheckpointJson(row, path);
    AddLength(FindCountedUnit(store, row.trial.experiment), document);
    PrintJson(document);
    return kExitDone;
  }
  std::cout << "checkpoint " << EscapeForTerminal(row.uuid) << '\n';
  PrintFact("trial", ToString(row.trial));
  PrintFact("state", row.state);
  PrintFact(std::string(UnitName(CountedUnit(store, row.trial.experiment))),
            std::to_string(row.batches));
  PrintFact("epoch", KnowsEpochs(store, row.trial.experiment)
                         ? FormatMetric(row.epoch)
                         : "-");
  PrintFact("size", FormatBytes(row.bytes));
  PrintFact("metric", row.metric ? FormatMetric(*row.metric) : "-");
  PrintFact("saved", FormatTime(row.time));
  PrintFact("directory", path);
  std::cout << "\nfiles and their SHA-256\n";
  for (const auto& [name, sum] : row.files.items()) {
    std::string label = "  " + EscapeForTerminal(name);
    label.resize(std::max<std::size_t>(label.size() + 2, 26), ' ');
    std::cout << label << EscapeForTerminal(sum.get<std::string>()) << '\n';
  }
  return kExitDone;
}

struct VerifyOptions : TableOptions {
  std::vector<std::string> targets;
};

struct Verified {
  CheckpointRow row;
  std::optional<Unit> counted;  // what its `batches` count
  FileReport report;
};

void AddTarget(const Store& store, const std::string& text,
               std::vector<CheckpointRow>& rows) {
  const auto target = ResolveSource(store, text);
  if (!target) {
    rows.push_back(FindCheckpoint(store, text));
    return;
  }
  FindTarget(store, *target);
  for (CheckpointRow& row : store.Checkpoints(target->experiment)) {
    if (target->trial && row.trial.number != *target->trial) continue;
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

// Verifies each checkpoint. Skips those that a runner deletes meanwhile.
std::vector<Verified> Verify(const Store& store,
                             std::vector<CheckpointRow> rows) {
  std::vector<Verified> results;
  std::map<std::int64_t, std::optional<Unit>> units;  // by experiment
  for (CheckpointRow& row : rows) {
    const std::int64_t id = row.trial.experiment;
    if (!units.contains(id)) units[id] = FindCountedUnit(store, id);
    FileReport report = VerifyCheckpoint(store, row);
    if (report.state != FileState::kGood &&
        store.CheckpointByPrefix(row.uuid).state == "DELETED") {
      continue;
    }
    results.push_back({std::move(row), units[id], std::move(report)});
  }
  return results;
}

// True if the result differs from the recorded state.
bool IsChanged(const Verified& result) {
  return (result.report.state == FileState::kBad &&
          result.row.state == "COMPLETED") ||
         (result.report.state == FileState::kGood &&
          result.row.state == "CORRUPT");
}

// Updates the states that differ from the record, and returns their UUIDs.
std::vector<std::string> UpdateStates(std::vector<Verified>& results) {
  std::vector<std::string> uuids;
  for (Verified& result : results) {
    if (!IsChanged(result)) continue;
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
      // Leaves a checkpoint alone that was deleted meanwhile.
      static_cast<void>(
          writer.SetCheckpointFound(result.row.uuid, result.row.state));
    }
  });
}

Listing<Verified> VerifiedListing(Format format) {
  const bool is_text = format == Format::kText;
  Listing<Verified> listing = {
      .name = "checkpoints",
      .columns = {{.name = "uuid"},
                  {.name = "trial", .right = true},
                  {.name = is_text ? "length" : "batches", .right = true},
                  {.name = "bytes", .right = true},
                  {.name = "state"},
                  {.name = "problem", .elastic = true}},
      .json = [](const Verified& result) -> nlohmann::json {
        const bool good = result.report.state == FileState::kGood;
        nlohmann::json problem;
        if (!good) problem = result.report.problem;
        nlohmann::json json = {{"uuid", result.row.uuid},
                               {"trial", ToString(result.row.trial)},
                               {"batches", result.row.batches},
                               {"bytes", result.row.bytes},
                               {"state", result.row.state},
                               {"ok", good},
                               {"problem", std::move(problem)}};
        AddLength(result.counted, json);
        return json;
      },
      .cells = [](const Verified& result) -> std::vector<Cell> {
        const bool good = result.report.state == FileState::kGood;
        const std::string& state = result.row.state;
        return {result.row.uuid,
                ToString(result.row.trial),
                Cell(result.counted
                         ? LengthText(result.row.batches, *result.counted)
                         : std::to_string(result.row.batches),
                     std::to_string(result.row.batches)),
                Cell(FormatBytes(result.row.bytes),
                     std::to_string(result.row.bytes)),
                Cell(state, state, good ? Tone::kGood : Tone::kBad),
                result.report.problem};
      }};
  if (!is_text) {
    AddLengthColumns([](const Verified& result) { return result.row.batches; },
                     [](const Verified& result) { return result.counted; },
                     listing);
  }
  return listing;
}

int Verify(const VerifyOptions& options, const GlobalOptions& globals) {
  const StoreLayout layout = FindStore(globals);
  std::vector<Verified> results;
  {
    const Store store = Store::OpenForReading(layout);
    results = Verify(store, AskedFor(store, options));
  }
  const auto news = UpdateStates(results);
  // Print first: the store may be read-only.
  PrintListing(VerifiedListing(options.format()), results, options.format(),
               globals);
  RecordStates(layout, results, news, globals);
  const auto bad = std::ranges::count_if(results, [](const Verified& result) {
    return result.report.state != FileState::kGood;
  });
  if (bad == 0) return kExitDone;
  PrintError(globals, std::to_string(bad) + " of " +
                          std::to_string(results.size()) +
                          (bad == 1 ? " checkpoints is" : " checkpoints are") +
                          " damaged or unreadable; trials resume "
                          "from the newest intact one");
  return kExitFailed;
}

struct CheckpointDeleteOptions : JsonOption {
  std::vector<std::string> uuids;
};

// Throws for an experiment or trial: it may have several checkpoints, and all
// or only the best could be meant.
CheckpointRow FindToDelete(const Store& store, const std::string& uuid) {
  try {
    return store.CheckpointByPrefix(uuid);
  } catch (const Error&) {
    std::optional<Target> target;
    try {
      target = ResolveSource(store, uuid);
    } catch (const Error&) {
      // Not an experiment either.
    }
    if (!target) throw;
    throw Error(ErrorKind::kUsage,
                "'" + uuid + "' is " +
                    (target->trial ? "trial " : "experiment ") +
                    ToString(*target) +
                    ", but this command takes only checkpoint IDs; 'dtrain "
                    "checkpoints " +
                    ToString(*target) + "' lists them");
  }
}

// An unfinished trial resumes from its latest checkpoint.
void RequireUnused(const Store& store, const CheckpointRow& row) {
  if (row.state == "DELETED") {
    throw Error(
        ErrorKind::kNotFound,
        "checkpoint " + row.uuid + " is already deleted; 'dtrain checkpoints " +
            std::to_string(row.trial.experiment) + "' lists the existing ones");
  }
  RequireStorageThere(store, row);
  if (!row.storage.empty()) {
    const auto why = StorageOwnerProblem(store, store.StorageRoot(row.storage));
    if (!why.empty()) throw Error(ErrorKind::kStore, why);
  }
  const auto trial = store.Trial(row.trial);
  if (!trial || IsFinal(trial->state)) return;
  if (trial->latest_checkpoint != row.uuid) return;
  const std::string id = std::to_string(row.trial.experiment);
  throw Error(ErrorKind::kFailed,
              "checkpoint " + row.uuid + " is the latest checkpoint of trial " +
                  ToString(row.trial) +
                  ", which resumes from it; 'dtrain cancel " + id +
                  "' ends the experiment; then delete the checkpoint");
}

int Delete(const CheckpointDeleteOptions& options,
           const GlobalOptions& globals) {
  const StoreLayout layout = FindStore(globals);
  std::vector<CheckpointRow> rows;
  {
    // Opening for reading does not create a missing store.
    const Store reader = Store::OpenForReading(layout);
    for (const std::string& uuid : options.uuids) {
      CheckpointRow row = FindToDelete(reader, uuid);
      RequireUnused(reader, row);
      if (std::ranges::find(rows, row.uuid, &CheckpointRow::uuid) !=
          rows.end()) {
        continue;  // given twice
      }
      rows.push_back(std::move(row));
    }
  }
  Store store = OpenStoreForWriting(layout, globals);
  store.Write([&](StoreWriter& writer) {
    for (const CheckpointRow& row : rows) {
      RequireUnused(store, row);
      writer.SetCheckpointState(row.uuid, "DELETED");
    }
  });
  nlohmann::json array = nlohmann::json::array();
  for (const CheckpointRow& row : rows) {
    const auto bytes = RemoveTree(store.CheckpointPath(row));
    array.push_back({{"uuid", row.uuid}, {"bytes", bytes}});
    PrintNotice(globals, "checkpoint " + row.uuid + " is deleted, " +
                             FormatBytes(bytes) + " freed");
  }
  if (options.json) PrintJson({{"deleted", std::move(array)}});
  return kExitDone;
}

}  // namespace

CommandRun SetUpCheckpointShow(CLI::App& app) {
  auto options = std::make_shared<ShowOptions>();
  AddOption(app, "CHECKPOINT", options->source,
            "First characters of a checkpoint ID, or a trial (3.7) or "
            "experiment (3) for its best checkpoint")
      .Required();
  AddFlag(app, "--latest", options->latest,
          "Show the latest checkpoint of the trial, not the best");
  AddJsonOption(app, *options);
  SetHelp(app, {.exits = ReaderExits(),
                .examples = {
                    {"Show where a checkpoint is stored",
                     "dtrain checkpoint show 0a1b2c3d"},
                    {"Print its directory in a script",
                     "dtrain checkpoint show 0a1b2c3d --json | jq -r .path"}}});
  return RunWith(Show, options);
}

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

CommandRun SetUpCheckpointDelete(CLI::App& app) {
  auto options = std::make_shared<CheckpointDeleteOptions>();
  AddOption(app, "UUID", options->uuids,
            "Checkpoint IDs, or their first 4 or more characters")
      .Required();
  AddJsonOption(app, *options);
  SetHelp(app, {.notes = "The latest checkpoint of an unfinished trial is "
                         "never deleted, because the trial resumes from it.",
                .exits = {{kExitDone},
                          {kExitFailed, "a trial still needs the checkpoint"},
                          {kExitUsage},
                          {kExitNotFound},
                          {kExitStore}},
                .examples = {{"Delete one checkpoint",
                              "dtrain checkpoint delete 0a1b2c3d"},
                             {"List the checkpoints of an experiment first",
                              "dtrain checkpoints 3"}}});
  return RunWith(Delete, options);
}

}  // namespace dtrain
