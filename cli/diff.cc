// Differences between two experiments or trials, as unified diffs by section.
//
// Everything is turned into text first: the configuration as YAML,
// hyperparameters and provenance as lines "name: value", logs without times. An
// experiment stands for its best trial in the sections of trials. Stored files
// are compared by SHA-256 and read only if they differ; binary and large ones
// are named without lines. Texts that were not read completely, and sides that
// lack something, are in the note of the section, so that "no difference" is
// never silent about what was left out.

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unistd.h>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "engine/app/record_experiment.h"
#include "engine/app/stores.h"
#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/base/text.h"
#include "engine/config/read_config.h"
#include "engine/context/context_links.h"
#include "engine/context/context_list.h"
#include "engine/context/stored_context.h"
#include "engine/os/files.h"
#include "engine/report/json_view.h"
#include "engine/report/text_diff.h"
#include "engine/store/store.h"
#include "engine/store/trial_log.h"

namespace dtrain {
namespace {

// The parts of a record that a diff compares.
enum class DiffSection {
  kConfig,       // the effective configuration as YAML
  kHparams,      // of the trial, or of the only or best one of an experiment
  kFiles,        // the stored context, file by file
  kEnvironment,  // the provenance, such as commit, libraries and GPUs
  kLog           // what that trial wrote, without times
};

// "config", "hparams", "files", "environment" or "log".
std::string_view SectionName(DiffSection section) {
  switch (section) {
    case DiffSection::kConfig:
      return "config";
    case DiffSection::kHparams:
      return "hparams";
    case DiffSection::kFiles:
      return "files";
    case DiffSection::kEnvironment:
      return "environment";
    case DiffSection::kLog:
      return "log";
  }
  return "";
}

// A text that differs between two records.
struct TextDiff {
  std::string path;  // "config.yaml", "files/model_def.cpp"
  // Whether each of the two records has it.
  std::array<bool, 2> exists = {true, true};
  // Replacement of the hunks: "binary files differ". Empty if there are hunks.
  std::string note;
  std::size_t removed = 0;  // lines
  std::size_t added = 0;
  std::string hunks;  // of a unified diff
};

// Differences in one section.
struct SectionDiff {
  DiffSection section = DiffSection::kConfig;
  std::vector<TextDiff> texts;
  std::string note;  // what is missing or was not compared; or empty
};

// One of two compared records.
struct DiffSide {
  std::string id;     // "3" or "3.7", as it was named
  std::string trial;  // whose hyperparameters and log it has; empty if none
};

// The differences of two experiments or trials.
struct TargetDiff {
  std::array<DiffSide, 2> sides;
  std::vector<SectionDiff> sections;

  bool different() const {
    return std::ranges::any_of(sections, [](const SectionDiff& section) {
      return !section.texts.empty();
    });
  }
};

// Larger texts are not compared line by line.
constexpr std::int64_t kMaxBytes = 4'000'000;
// A NUL among the first bytes makes a file binary, as for git.
constexpr std::size_t kProbedBytes = 8000;

// All that is known of one side.
struct ComparedRecord {
  DiffSide side;
  ExperimentDetail detail;
  std::optional<TrialRow> trial;
};

ComparedRecord ReadRecord(const Store& store, const Target& target) {
  ComparedRecord record{
      .detail = FindExperimentDetail(store, FindTarget(store, target).id)};
  const ExperimentRow& row = record.detail.row;
  record.side.id = std::to_string(row.id);
  if (target.trial) {
    record.trial = FindTrial(store, row, *target.trial);
    record.side.id = ToString(record.trial->id);
  } else {
    const auto trials = ListTrials(store, row);
    const auto best = std::ranges::find(
        trials, row.best_trial,
        [](const TrialRow& trial) { return trial.id.number; });
    if (best != trials.end()) {
      record.trial = *best;
    } else if (trials.size() == 1) {
      record.trial = trials.front();
    }
  }
  if (record.trial) record.side.trial = ToString(record.trial->id);
  return record;
}

bool IsBinary(std::string_view text) {
  return text.substr(0, kProbedBytes).find('\0') != text.npos;
}

// Compares two texts of which at least one exists; appends what differs.
void CompareTexts(const std::string& path,
                  const std::array<std::optional<std::string>, 2>& texts,
                  std::vector<TextDiff>& differing) {
  if (texts[0] == texts[1]) return;
  const std::string& from = texts[0] ? *texts[0] : std::string();
  const std::string& to = texts[1] ? *texts[1] : std::string();
  TextDiff diff{.path = path,
                .exists = {texts[0].has_value(), texts[1].has_value()}};
  if (IsBinary(from) || IsBinary(to)) {
    diff.note = "binary files differ";
  } else {
    const auto old_lines = SplitLines(from), new_lines = SplitLines(to);
    const auto changes = DiffLines(old_lines, new_lines);
    for (const LineChange& change : changes) {
      diff.removed += change.old_count;
      diff.added += change.new_count;
    }
    diff.hunks = UnifiedHunks(old_lines, new_lines, changes);
    if (diff.hunks.empty()) diff.note = "only one exists, and it is empty";
  }
  differing.push_back(std::move(diff));
}

// Returns a text with the quotes that `dtrain config` gives it: "1" is not 1.
std::string YamlScalar(const std::string& text) {
  constexpr std::string_view kKey = "text: ";
  const std::string line = ToYaml({{"text", text}});
  return line.substr(kKey.size(), line.size() - kKey.size() - 1);
}

// "name: value" lines of nested values. `typed`: texts are quoted where they
// could be read as another type.
std::string LinesOfNames(const nlohmann::json& json, bool typed) {
  std::string lines;
  for (const auto& [name, value] : FlattenNames(json)) {
    const auto* text = value.get_ptr<const std::string*>();
    lines += name + ": " +
             (text == nullptr ? DumpJson(value)
              : typed         ? YamlScalar(*text)
                              : *text) +
             "\n";
  }
  return lines;
}

std::map<std::string, ContextFile> ReadContextFiles(
    const Store& store, const ComparedRecord& record, std::string& note) {
  const auto context = ReadStoredContext(store.layout(), record.detail);
  std::map<std::string, ContextFile> files;
  if (!context) {
    note +=
        (note.empty() ? "" : "; ") + record.side.id + " has no stored files";
    return files;
  }
  for (const ContextFile& file : context->files) files[file.path] = file;
  return files;
}

// Returns a line for each linked directory, whose files are not stored.
std::string LinkLines(const ComparedRecord& record) {
  std::string lines;
  for (const nlohmann::json& link :
       record.detail.provenance.value(kContextLinks, nlohmann::json::array())) {
    lines += link.value("path", "") + " -> " + link.value("target", "") + ": " +
             LinkedFilesText(link) + ", newest " + link.value("modified", "") +
             "\n";
  }
  return lines;
}

std::optional<std::string> ReadStored(const ContextFile* file) {
  if (file == nullptr) return std::nullopt;
  auto text = ReadFile(file->source);
  if (text) return text;
  throw Error(ErrorKind::kStore, file->source.string() +
                                     ": cannot be read; 'dtrain doctor' "
                                     "checks the store");
}

void CompareFile(const std::string& path,
                 const std::array<const ContextFile*, 2>& files,
                 std::vector<TextDiff>& differing) {
  const std::array<bool, 2> exists = {files[0] != nullptr, files[1] != nullptr};
  if (exists[0] && exists[1]) {
    if (files[0]->executable != files[1]->executable) {
      differing.push_back({.path = path,
                           .note = files[1]->executable
                                       ? "became executable"
                                       : "is no longer executable"});
    }
    if (files[0]->sha256 == files[1]->sha256) return;
  }
  for (const ContextFile* file : files) {
    if (file == nullptr || file->bytes <= kMaxBytes) continue;
    differing.push_back({.path = path,
                         .exists = exists,
                         .note = "differs; " + FormatBytes(file->bytes) +
                                 " are too large to compare by lines"});
    return;
  }
  CompareTexts(path, {ReadStored(files[0]), ReadStored(files[1])}, differing);
}

void CompareFiles(const Store& store,
                  const std::array<ComparedRecord, 2>& records,
                  SectionDiff& section) {
  const auto old_files = ReadContextFiles(store, records[0], section.note);
  const auto new_files = ReadContextFiles(store, records[1], section.note);
  CompareTexts("links", {LinkLines(records[0]), LinkLines(records[1])},
               section.texts);
  std::set<std::string> paths;
  for (const auto& [path, file] : old_files) paths.insert(path);
  for (const auto& [path, file] : new_files) paths.insert(path);
  for (const std::string& path : paths) {
    const auto from = old_files.find(path), to = new_files.find(path);
    CompareFile("files/" + path,
                {from == old_files.end() ? nullptr : &from->second,
                 to == new_files.end() ? nullptr : &to->second},
                section.texts);
  }
}

// The start of the trial's log, without times.
std::string LogText(const Store& store, const ComparedRecord& record,
                    std::string& note) {
  std::string text;
  TrialLogReader log(store.layout().TrialLog(record.trial->id));
  while (const auto line = log.Next()) {
    if (static_cast<std::int64_t>(text.size()) > kMaxBytes) {
      note += (note.empty() ? "" : "; ") + std::string("of ") +
              record.side.trial + " only the first " + FormatBytes(kMaxBytes) +
              " of the log are compared";
      break;
    }
    text += line->text;
    if (!line->partial) text += '\n';
  }
  return text;
}

// Reads a text of both trials. Of an experiment without one it is missing.
template <typename Read>
void CompareTrialTexts(const std::string& path,
                       const std::array<ComparedRecord, 2>& records,
                       const Read& read, SectionDiff& section) {
  std::array<std::optional<std::string>, 2> texts;
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (records[i].trial) {
      texts[i] = read(records[i]);
    } else {
      section.note += (section.note.empty() ? "" : "; ") + records[i].side.id +
                      " has no best trial to compare";
    }
  }
  CompareTexts(path, texts, section.texts);
}

SectionDiff CompareSection(const Store& store,
                           const std::array<ComparedRecord, 2>& records,
                           DiffSection kind) {
  SectionDiff section{.section = kind};
  const auto both = [&](const std::string& path, const auto& text) {
    CompareTexts(path, {text(records[0]), text(records[1])}, section.texts);
  };
  switch (kind) {
    case DiffSection::kConfig:
      both("config.yaml",
           [](const ComparedRecord& one) { return ToYaml(one.detail.config); });
      break;
    case DiffSection::kHparams:
      CompareTrialTexts(
          "hparams", records,
          [](const ComparedRecord& one) {
            return LinesOfNames(one.trial->hparams, /*typed=*/true);
          },
          section);
      break;
    case DiffSection::kFiles:
      CompareFiles(store, records, section);
      break;
    case DiffSection::kEnvironment:
      both("environment", [](const ComparedRecord& one) {
        return LinesOfNames(one.detail.provenance, /*typed=*/false);
      });
      break;
    case DiffSection::kLog:
      CompareTrialTexts(
          "log", records,
          [&](const ComparedRecord& one) {
            return LogText(store, one, section.note);
          },
          section);
      break;
  }
  return section;
}

// Compares two experiments or trials. Throws Error(kNotFound).
TargetDiff DiffTargets(const Store& store, const std::array<Target, 2>& targets,
                       const std::vector<DiffSection>& sections) {
  const std::array<ComparedRecord, 2> records = {ReadRecord(store, targets[0]),
                                                 ReadRecord(store, targets[1])};
  TargetDiff diff{.sides = {records[0].side, records[1].side}};
  for (const DiffSection section : sections) {
    diff.sections.push_back(CompareSection(store, records, section));
  }
  return diff;
}

struct DiffOptions : JsonOption {
  std::string from;
  std::string to;
  bool config = false;
  bool hparams = false;
  bool files = false;
  bool environment = false;
  bool log = false;
  bool exit_code = false;
};

// The sections that the options name; without any, all but the log.
std::vector<DiffSection> ChooseSections(const DiffOptions& options) {
  std::vector<DiffSection> sections;
  if (options.config) sections.push_back(DiffSection::kConfig);
  if (options.hparams) sections.push_back(DiffSection::kHparams);
  if (options.files) sections.push_back(DiffSection::kFiles);
  if (options.environment) sections.push_back(DiffSection::kEnvironment);
  if (options.log) sections.push_back(DiffSection::kLog);
  if (!sections.empty()) return sections;
  return {DiffSection::kConfig, DiffSection::kHparams, DiffSection::kFiles,
          DiffSection::kEnvironment};
}

// The id before the path of a text: hyperparameters and logs are a trial's.
const std::string& OwnerId(const DiffSide& side, DiffSection section) {
  const bool is_trials =
      section == DiffSection::kHparams || section == DiffSection::kLog;
  return is_trials && !side.trial.empty() ? side.trial : side.id;
}

std::string DiffFileName(const TextDiff& text, const DiffSide& side,
                         DiffSection section, bool exists) {
  if (!exists) return "/dev/null";
  return EscapeForTerminal(OwnerId(side, section) + "/" + text.path);
}

// Prints the hunks, a line at a time for a terminal.
void PrintHunks(const std::string& hunks, const TerminalMode& mode) {
  if (!mode.terminal && !mode.color) {
    std::cout << hunks;
    return;
  }
  std::vector<std::string> lines = Split(hunks, '\n');
  lines.pop_back();  // after the last newline
  for (const std::string& line : lines) {
    const Tone tone = line.starts_with('-')   ? Tone::kBad
                      : line.starts_with('+') ? Tone::kGood
                      : line.starts_with('@') ? Tone::kDim
                                              : Tone::kPlain;
    std::cout << Paint(mode, tone,
                       mode.terminal ? EscapeForTerminal(line) : line)
              << '\n';
  }
}

void PrintText(const TargetDiff& diff, const GlobalOptions& globals) {
  const TerminalMode mode = GetTerminalMode(STDOUT_FILENO, globals.color);
  for (const SectionDiff& section : diff.sections) {
    for (const TextDiff& text : section.texts) {
      std::array<std::string, 2> names;
      for (std::size_t i = 0; i < names.size(); ++i) {
        names[i] =
            DiffFileName(text, diff.sides[i], section.section, text.exists[i]);
      }
      if (!text.note.empty()) {
        std::cout << Paint(mode, Tone::kStrong, names[0] + " and " + names[1])
                  << ": " << text.note << '\n';
        continue;
      }
      std::cout << Paint(mode, Tone::kStrong, "--- " + names[0]) << '\n'
                << Paint(mode, Tone::kStrong, "+++ " + names[1]) << '\n';
      PrintHunks(text.hunks, mode);
    }
  }
}

nlohmann::json DiffJson(const TextDiff& text) {
  return {{"path", text.path},   {"exists", text.exists},
          {"note", text.note},   {"removed", text.removed},
          {"added", text.added}, {"diff", text.hunks}};
}

void PrintDiffJson(const TargetDiff& diff) {
  nlohmann::json targets = nlohmann::json::array();
  for (const DiffSide& side : diff.sides) {
    targets.push_back(
        {{"id", side.id},
         {"trial", side.trial.empty() ? nlohmann::json(nullptr)
                                      : nlohmann::json(side.trial)}});
  }
  nlohmann::json sections = nlohmann::json::array();
  for (const SectionDiff& section : diff.sections) {
    nlohmann::json texts = nlohmann::json::array();
    for (const TextDiff& text : section.texts) texts.push_back(DiffJson(text));
    sections.push_back({{"section", SectionName(section.section)},
                        {"different", !section.texts.empty()},
                        {"note", section.note},
                        {"texts", std::move(texts)}});
  }
  PrintJson({{"targets", std::move(targets)},
             {"different", diff.different()},
             {"sections", std::move(sections)}});
}

// Tells on stderr what was compared, and what could not be.
void PrintScope(const TargetDiff& diff, const GlobalOptions& globals) {
  std::vector<std::string> equal;
  bool of_trials = false;
  for (const SectionDiff& section : diff.sections) {
    const std::string name(SectionName(section.section));
    // A note tells that something was not there to compare.
    if (section.texts.empty() && section.note.empty()) equal.push_back(name);
    of_trials = of_trials || section.section == DiffSection::kHparams ||
                section.section == DiffSection::kLog;
    if (!section.note.empty()) {
      PrintNotice(globals, "note: " + name + ": " + section.note);
    }
  }
  for (const DiffSide& side : diff.sides) {
    if (!of_trials || side.trial.empty() || side.trial == side.id) continue;
    PrintNotice(globals, "note: hyperparameters and log of " + side.id +
                             " are those of its trial " + side.trial);
  }
  if (!equal.empty())
    PrintNotice(globals, "no difference in " + Join(equal, ", "));
}

int Diff(const DiffOptions& options, const GlobalOptions& globals) {
  const Store store = OpenStore(globals);
  const std::array<Target, 2> targets = {ResolveTarget(store, options.from),
                                         ResolveTarget(store, options.to)};
  const TargetDiff diff = DiffTargets(store, targets, ChooseSections(options));
  PrintScope(diff, globals);
  if (options.json) {
    PrintDiffJson(diff);
  } else {
    PrintText(diff, globals);
  }
  return options.exit_code && diff.different() ? kExitFailed : kExitDone;
}

}  // namespace

CommandRun SetUpDiff(CLI::App& app) {
  auto options = std::make_shared<DiffOptions>();
  AddOption(app, "A", options->from, "Experiment (3) or trial (3.7)")
      .Completes(ValueKind::kTarget)
      .Required();
  AddOption(app, "B", options->to, "Experiment or trial to compare with A")
      .Completes(ValueKind::kTarget)
      .Required();
  AddFlag(app, "--config", options->config,
          "Compare the effective configurations, with defaults and overrides");
  AddFlag(
      app, "--hparams", options->hparams,
      "Compare hyperparameters: of an experiment, those of its only or best "
      "trial");
  AddFlag(app, "--files", options->files, "Compare the stored context files");
  AddFlag(app, "--environment", options->environment,
          "Compare commit, libraries, GPUs, CPU, host and command line");
  AddFlag(app, "--log", options->log, "Compare the logs, without times");
  AddFlag(app, "--exit-code", options->exit_code, "Exit with 1 if they differ");
  AddJsonOption(app, *options);
  SetHelp(app, {.notes = "Prints a unified diff. Without one of the first five "
                         "options it compares all but the log.",
                .exits = {{kExitDone},
                          {kExitFailed, "they differ, with --exit-code"},
                          {kExitUsage, "invalid usage"},
                          {kExitNotFound},
                          {kExitStore}},
                .examples = {{"Show what changed between two experiments",
                              "dtrain diff 3 4"},
                             {"Check that two trials ran the same code",
                              "dtrain diff 3.7 4.1 --files --exit-code"}}});
  return RunWith(Diff, options);
}

}  // namespace dtrain
