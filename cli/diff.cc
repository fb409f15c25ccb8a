#include <array>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <unistd.h>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "engine/app/stores.h"
#include "engine/app/target_diff.h"
#include "engine/base/error.h"
#include "engine/base/text.h"

namespace dtrain {
namespace {

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
