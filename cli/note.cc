#include <iostream>
#include <memory>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "engine/app/stores.h"
#include "engine/base/error.h"
#include "engine/base/text.h"

namespace dtrain {
namespace {

constexpr std::size_t kMaxNote = 64 << 10;

struct NoteOptions : JsonOption {
  std::string target;
  std::string text;
  bool clear = false;
};

void CheckNoteOptions(const NoteOptions& options) {
  if (options.text.empty() != options.clear) {
    throw Error(ErrorKind::kUsage,
                options.clear ? "note: a text cannot be combined with --clear"
                              : "note: missing text; give a text or --clear");
  }
  if (options.text.size() > kMaxNote || !IsValidUtf8(options.text)) {
    throw Error(ErrorKind::kUsage,
                "note: the text must be UTF-8 of at most 64 KiB; shorten it, "
                "or keep it in a file");
  }
}

int Note(const NoteOptions& options, const GlobalOptions& globals) {
  CheckNoteOptions(options);
  Target target;
  {
    const Store store = OpenStore(globals);
    target = ResolveTarget(store, options.target);
    const ExperimentRow experiment = FindExperiment(store, target.experiment);
    if (target.trial) FindTrial(store, experiment, *target.trial);
  }
  Store store = OpenStoreToChange(globals, {target.experiment});
  store.Write([&](StoreWriter& writer) {
    if (target.trial) {
      writer.SetTrialNote({target.experiment, *target.trial}, options.text);
    } else {
      writer.SetNote(target.experiment, options.text);
    }
  });
  const std::string name = ToString(target);
  if (options.json) {
    nlohmann::json document = {{"experiment", target.experiment},
                               {"note", options.text}};
    if (target.trial) document["trial"] = name;
    PrintJson(document);
  } else {
    PrintNotice(globals,
                (target.trial ? "trial " : "experiment ") + name +
                    (options.clear ? ": note removed"
                                   : ": note saved; " +
                                         NamedCommand(CommandFor(
                                             globals, "describe " + name)) +
                                         " shows it"));
  }
  return kExitDone;
}

}  // namespace

CommandRun SetUpNote(CLI::App& app) {
  auto options = std::make_shared<NoteOptions>();
  AddOption(app, "EXP", options->target, "Experiment (3) or trial (3.7)")
      .Required();
  AddOption(app, "NOTE", options->text,
            "Note text; replaces the existing note");
  AddFlag(app, "--clear", options->clear, "Remove the note");
  AddJsonOption(app, *options);
  SetHelp(app,
          {.exits = {{kExitDone}, {kExitUsage}, {kExitNotFound}, {kExitStore}},
           .examples = {
               {"Attach a note to a trial", "dtrain note 3.7 'unstable'"},
               {"Remove the note of an experiment", "dtrain note 3 --clear"}}});
  return RunWith(Note, options);
}

}  // namespace dtrain
