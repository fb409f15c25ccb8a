#include "cli/checkpoint.h"

#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "engine/base/error.h"

namespace dtrain {

void SetUpCheckpoint(CLI::App& app, Invocation& invocation) {
  // Not by require_subcommand: its words would hide those on a mistyped one.
  app.callback([&app] {
    if (!app.get_subcommands().empty()) return;
    throw Error(ErrorKind::kUsage,
                "checkpoint: what of it? give show, verify or delete; see "
                "'dtrain checkpoint --help'");
  });
  SetUpCheckpointShow(
      *app.add_subcommand("show", "Show one checkpoint and its files"),
      invocation);
  SetUpCheckpointVerify(
      *app.add_subcommand("verify", "Compare files with their checksums"),
      invocation);
  SetUpCheckpointDelete(
      *app.add_subcommand("delete", "Delete checkpoints with their files"),
      invocation);
}

}  // namespace dtrain
