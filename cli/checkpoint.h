#pragma once

#include "cli/commands.h"

namespace dtrain {

// The commands of `dtrain checkpoint`, each in a file of its own.
void SetUpCheckpointDelete(CLI::App& app, Invocation& invocation);
void SetUpCheckpointExport(CLI::App& app, Invocation& invocation);
void SetUpCheckpointImport(CLI::App& app, Invocation& invocation);
void SetUpCheckpointShow(CLI::App& app, Invocation& invocation);
void SetUpCheckpointVerify(CLI::App& app, Invocation& invocation);

}  // namespace dtrain
