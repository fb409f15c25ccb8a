#include "cli/checkpoint.h"

#include "cli/command_line.h"
#include "cli/commands.h"
#include "engine/base/error.h"

namespace dtrain {

void SetUpCheckpoint(CLI::App& app, Invocation& invocation) {
  // Not by require_subcommand: its words would hide those on a mistyped one.
  OnParsed(app, [&app] {
    if (HasNamedSubcommand(app)) return;
    throw Error(ErrorKind::kUsage,
                "checkpoint: what of it? give show, verify, export, import "
                "or delete; see 'dtrain checkpoint --help'");
  });
  SetUpCheckpointShow(
      AddSubcommand(app, "show", "Show one checkpoint and its files"),
      invocation);
  SetUpCheckpointVerify(
      AddSubcommand(app, "verify", "Compare files with their checksums"),
      invocation);
  SetUpCheckpointExport(
      AddSubcommand(app, "export", "Write its weights for PyTorch and others"),
      invocation);
  SetUpCheckpointImport(
      AddSubcommand(app, "import", "Take weights of PyTorch and others"),
      invocation);
  SetUpCheckpointDelete(
      AddSubcommand(app, "delete", "Delete checkpoints with their files"),
      invocation);
}

}  // namespace dtrain
