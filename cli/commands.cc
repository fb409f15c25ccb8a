#include "cli/commands.h"

#include <array>

namespace dtrain {
namespace {

constexpr std::array kCommands = {
    Command{"create", "", "Run an experiment from a YAML file", SetUpCreate},
    Command{"validate", "", "Check an experiment YAML without running it",
            SetUpValidate},
    Command{"preview-search", "", "Show the trials that a search would run",
            SetUpPreviewSearch},
    Command{"resume", "activate",
            "Go on with a paused or interrupted experiment", SetUpResume},
    Command{"wait", "", "Wait until experiments end", SetUpWait},
    Command{"list", "", "Show the experiments", SetUpList},
    Command{"describe", "", "Show all that is recorded of an experiment",
            SetUpDescribe},
    Command{"config", "", "Print the YAML of an experiment as it was run",
            SetUpConfig},
    Command{"trials", "", "Show the trials of an experiment", SetUpTrials},
    Command{"best", "", "Show the best trials of an experiment", SetUpBest},
    Command{"metrics", "", "Print the metrics of an experiment or trial",
            SetUpMetrics},
    Command{"logs", "", "Print what trials wrote, by time", SetUpLogs},
    Command{"checkpoints", "", "Show the checkpoints of an experiment or trial",
            SetUpCheckpoints},
    Command{"models", "",
            "Show the trials of this build and their hyperparameters",
            SetUpModels},
    Command{"slots", "", "Show the GPUs and CPUs and who uses them",
            SetUpSlots},
    Command{"version", "", "Show the versions of dtrain and its libraries",
            SetUpVersion},
};

}  // namespace

std::span<const Command> Commands() { return kCommands; }

}  // namespace dtrain
