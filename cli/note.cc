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
  std::string experiment;
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
  const std::int64_t id =
      ResolveExperiment(OpenStore(globals), options.experiment);
  const std::string name = std::to_string(id);
  Store store = OpenStoreToChange(globals, {id});
  store.Write([&](StoreWriter& writer) { writer.SetNote(id, options.text); });
  if (options.json) {
    PrintJson({{"experiment", id}, {"note", options.text}});
  } else {
    PrintNotice(globals,
                "experiment " + name +
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
  AddOption(app, "EXP", options->experiment, "Experiment ID (3)").Required();
  AddOption(app, "NOTE", options->text,
            "Note text; replaces the existing note");
  AddFlag(app, "--clear", options->clear, "Remove the note");
  AddJsonOption(app, *options);
  SetHelp(
      app,
      {.exits = {{kExitDone}, {kExitUsage}, {kExitNotFound}, {kExitStore}},
       .examples = {{"Attach a note", "dtrain note 3 'baseline for the paper'"},
                    {"Remove the note", "dtrain note 3 --clear"}}});
  return RunWith(Note, options);
}

}  // namespace dtrain
