// Differences between two experiments or trials, as unified diffs by section.
//
// Everything is turned into text first: the configuration as YAML,
// hyperparameters and provenance as lines "name: value", logs without times. An
// experiment stands for its best trial in the sections of trials. Stored files
// are compared by SHA-256 and read only if they differ; binary and large ones
// are named without lines. Texts that were not read completely, and sides that
// lack something, are in the note of the section, so that "no difference" is
// never silent about what was left out.

#include "engine/app/target_diff.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "engine/app/record_experiment.h"
#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/base/text.h"
#include "engine/config/read_config.h"
#include "engine/context/context_list.h"
#include "engine/os/files.h"
#include "engine/report/json_view.h"
#include "engine/report/text_diff.h"
#include "engine/store/store.h"
#include "engine/store/trial_log.h"

namespace dtrain {
namespace {

// Larger texts are not compared line by line.
constexpr std::int64_t kMaxBytes = 4'000'000;
// A NUL among the first bytes makes a file binary, as for git.
constexpr std::size_t kProbedBytes = 8000;

// All that is known of one side.
struct Record {
  DiffSide side;
  ExperimentDetail detail;
  std::optional<TrialRow> trial;
};

Record ReadRecord(const Store& store, const Target& target) {
  Record record{.detail =
                    FindExperimentDetail(store, FindTarget(store, target).id)};
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

std::map<std::string, ContextFile> ReadContextFiles(const Store& store,
                                                    const Record& record,
                                                    std::string& note) {
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

void CompareFiles(const Store& store, const std::array<Record, 2>& records,
                  SectionDiff& section) {
  const auto old_files = ReadContextFiles(store, records[0], section.note);
  const auto new_files = ReadContextFiles(store, records[1], section.note);
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
std::string LogText(const Store& store, const Record& record,
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
void CompareTrials(const std::string& path,
                   const std::array<Record, 2>& records, const Read& read,
                   SectionDiff& section) {
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

SectionDiff Compare(const Store& store, const std::array<Record, 2>& records,
                    DiffSection kind) {
  SectionDiff section{.section = kind};
  const auto both = [&](const std::string& path, const auto& text) {
    CompareTexts(path, {text(records[0]), text(records[1])}, section.texts);
  };
  switch (kind) {
    case DiffSection::kConfig:
      both("config.yaml",
           [](const Record& one) { return ToYaml(one.detail.config); });
      break;
    case DiffSection::kHparams:
      CompareTrials(
          "hparams", records,
          [](const Record& one) {
            return LinesOfNames(one.trial->hparams, /*typed=*/true);
          },
          section);
      break;
    case DiffSection::kFiles:
      CompareFiles(store, records, section);
      break;
    case DiffSection::kEnvironment:
      both("environment", [](const Record& one) {
        return LinesOfNames(one.detail.provenance, /*typed=*/false);
      });
      break;
    case DiffSection::kLog:
      CompareTrials(
          "log", records,
          [&](const Record& one) { return LogText(store, one, section.note); },
          section);
      break;
  }
  return section;
}

}  // namespace

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

bool TargetDiff::different() const {
  return std::ranges::any_of(sections, [](const SectionDiff& section) {
    return !section.texts.empty();
  });
}

TargetDiff DiffTargets(const Store& store, const std::array<Target, 2>& targets,
                       const std::vector<DiffSection>& sections) {
  const std::array<Record, 2> records = {ReadRecord(store, targets[0]),
                                         ReadRecord(store, targets[1])};
  TargetDiff diff{.sides = {records[0].side, records[1].side}};
  for (const DiffSection section : sections) {
    diff.sections.push_back(Compare(store, records, section));
  }
  return diff;
}

}  // namespace dtrain
