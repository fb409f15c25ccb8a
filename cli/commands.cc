#include "cli/commands.h"

#include <array>

namespace dtrain {

// Defined in the files of the commands.
CommandSetUp SetUpArchive, SetUpBackup, SetUpBest, SetUpCancel,
    SetUpCheckpointDelete, SetUpCheckpointExport, SetUpCheckpointImport,
    SetUpCheckpointShow, SetUpCheckpointVerify, SetUpCheckpoints, SetUpCompare,
    SetUpCompletion, SetUpConfig, SetUpContinue, SetUpCreate, SetUpDataFetch,
    SetUpDataList, SetUpDataVerify, SetUpDelete, SetUpDescribe, SetUpDiff,
    SetUpDoctor, SetUpEvaluate, SetUpFiles, SetUpGc, SetUpImportSweep,
    SetUpImportance, SetUpInit, SetUpKill, SetUpLabel, SetUpList, SetUpLogs,
    SetUpMetrics, SetUpModels, SetUpNote, SetUpPause, SetUpPlot, SetUpPredict,
    SetUpPreviewSearch, SetUpReport, SetUpReproduce, SetUpResume, SetUpRun,
    SetUpServe, SetUpSetDescription, SetUpSetMaxSlots, SetUpSetName, SetUpSlots,
    SetUpTensorboard, SetUpTrials, SetUpUnarchive, SetUpValidate, SetUpVersion,
    SetUpWait, SetUpWatch, SetUpWorker, SetUpWorkers;

namespace {

constexpr std::array kCheckpointCommands = {
    Command{CommandGroup::kCheckpoints, "show", "",
            "Show a checkpoint and its files", SetUpCheckpointShow},
    Command{CommandGroup::kCheckpoints, "verify", "",
            "Compare checkpoint files with their checksums",
            SetUpCheckpointVerify},
    Command{CommandGroup::kCheckpoints, "export", "",
            "Export weights for PyTorch and other tools",
            SetUpCheckpointExport},
    Command{CommandGroup::kCheckpoints, "import", "",
            "Import weights from PyTorch and other tools",
            SetUpCheckpointImport},
    Command{CommandGroup::kCheckpoints, "delete", "",
            "Delete checkpoints and their files", SetUpCheckpointDelete},
};

std::span<const Command> CheckpointCommands() { return kCheckpointCommands; }

constexpr std::array kDataCommands = {
    Command{CommandGroup::kData, "fetch", "",
            "Download data sets and pretrained weights", SetUpDataFetch},
    Command{CommandGroup::kData, "list", "",
            "List available and downloaded data sets", SetUpDataList},
    Command{CommandGroup::kData, "verify", "",
            "Compare downloaded files with their checksums", SetUpDataVerify},
};

std::span<const Command> DataCommands() { return kDataCommands; }

constexpr std::array kSetCommands = {
    Command{CommandGroup::kMaintain, "name", "", "Rename an experiment",
            SetUpSetName},
    Command{CommandGroup::kMaintain, "description", "",
            "Change the description of an experiment", SetUpSetDescription},
    Command{CommandGroup::kMaintain, "max-slots", "",
            "Change the maximum of slots that an experiment uses",
            SetUpSetMaxSlots},
};

std::span<const Command> SetCommands() { return kSetCommands; }

constexpr std::array kCommands = {
    Command{CommandGroup::kRun, "create", "",
            "Run an experiment from a YAML file", SetUpCreate},
    Command{CommandGroup::kRun, "run", "",
            "Run a program as an experiment, without a YAML file", SetUpRun},
    Command{CommandGroup::kRun, "import-sweep", "",
            "Convert a sweep of W&B to an experiment YAML", SetUpImportSweep},
    Command{CommandGroup::kRun, "init", "",
            "Create a template for a custom model", SetUpInit},
    Command{CommandGroup::kRun, "validate", "",
            "Check an experiment YAML without running it", SetUpValidate},
    Command{CommandGroup::kRun, "resume", "activate",
            "Resume a paused or interrupted experiment", SetUpResume},
    Command{CommandGroup::kRun, "continue", "",
            "Start a new experiment from a checkpoint", SetUpContinue},
    Command{CommandGroup::kRun, "reproduce", "",
            "Run a trial again and compare its metrics", SetUpReproduce},
    Command{CommandGroup::kRun, "pause", "", "Checkpoint and pause experiments",
            SetUpPause},
    Command{CommandGroup::kRun, "cancel", "", "Cancel experiments permanently",
            SetUpCancel},
    Command{CommandGroup::kRun, "kill", "",
            "Stop experiments or trials immediately", SetUpKill},
    Command{CommandGroup::kRun, "wait", "", "Wait until experiments end",
            SetUpWait},
    Command{CommandGroup::kRun, "watch", "",
            "Show running experiments as they change", SetUpWatch},
    Command{CommandGroup::kRun, "worker", "",
            "Run trials of an experiment of another machine", SetUpWorker},
    Command{CommandGroup::kInspect, "list", "", "List experiments", SetUpList},
    Command{CommandGroup::kInspect, "describe", "",
            "Show the record of an experiment or trial", SetUpDescribe},
    Command{CommandGroup::kInspect, "config", "",
            "Print the configuration of an experiment", SetUpConfig},
    Command{CommandGroup::kInspect, "metrics", "",
            "Print the metrics of an experiment or trial", SetUpMetrics},
    Command{CommandGroup::kInspect, "logs", "",
            "Show trial logs in chronological order", SetUpLogs},
    Command{CommandGroup::kInspect, "files", "",
            "List or copy the files that a trial's program wrote", SetUpFiles},
    Command{CommandGroup::kInspect, "plot", "",
            "Plot trials and searches in the terminal or as SVG", SetUpPlot},
    Command{CommandGroup::kInspect, "report", "",
            "Write experiments to one HTML file, or as Markdown", SetUpReport},
    Command{CommandGroup::kInspect, "serve", "",
            "Show all experiments live in a browser", SetUpServe},
    Command{CommandGroup::kInspect, "slots", "",
            "Show GPU and CPU slots and the trials using them", SetUpSlots},
    Command{CommandGroup::kInspect, "workers", "",
            "Show the machines that run trials of an experiment", SetUpWorkers},
    Command{CommandGroup::kInspect, "tensorboard", "",
            "Write experiments as event files of TensorBoard",
            SetUpTensorboard},
    Command{CommandGroup::kSearch, "preview-search", "",
            "Show the trials that a search would run", SetUpPreviewSearch},
    Command{CommandGroup::kSearch, "trials", "",
            "List the trials of an experiment", SetUpTrials},
    Command{CommandGroup::kSearch, "best", "",
            "List the best trials of an experiment", SetUpBest},
    Command{CommandGroup::kSearch, "compare", "",
            "Compare experiments and trials", SetUpCompare},
    Command{CommandGroup::kSearch, "diff", "",
            "Show what changed between two experiments or trials", SetUpDiff},
    Command{CommandGroup::kSearch, "importance", "",
            "Show which hyperparameters mattered in a search", SetUpImportance},
    Command{CommandGroup::kCheckpoints, "checkpoints", "",
            "List the checkpoints of an experiment or trial", SetUpCheckpoints},
    Command{CommandGroup::kCheckpoints, "checkpoint", "",
            "Show, verify, export, import or delete checkpoints",
            /*set_up=*/nullptr, CheckpointCommands},
    Command{CommandGroup::kCheckpoints, "evaluate", "",
            "Evaluate a checkpoint on a data split", SetUpEvaluate},
    Command{CommandGroup::kCheckpoints, "predict", "",
            "Run a checkpoint's model on images or a data split", SetUpPredict},
    Command{CommandGroup::kData, "data", "",
            "Download, list and verify data sets and weights",
            /*set_up=*/nullptr, DataCommands},
    Command{CommandGroup::kData, "models", "",
            "List built-in models and their hyperparameters", SetUpModels},
    Command{CommandGroup::kMaintain, "label", "",
            "Add or remove labels of experiments", SetUpLabel},
    Command{CommandGroup::kMaintain, "note", "",
            "Attach a note to an experiment", SetUpNote},
    Command{CommandGroup::kMaintain, "set", "",
            "Change the name, description or slots of an experiment",
            /*set_up=*/nullptr, SetCommands},
    Command{CommandGroup::kMaintain, "archive", "",
            "Hide experiments from 'list'", SetUpArchive},
    Command{CommandGroup::kMaintain, "unarchive", "",
            "Show archived experiments in 'list' again", SetUpUnarchive},
    Command{CommandGroup::kMaintain, "delete", "",
            "Delete experiments and all their files", SetUpDelete},
    Command{CommandGroup::kMaintain, "gc", "",
            "Delete unneeded checkpoints and leftover files", SetUpGc},
    Command{CommandGroup::kMaintain, "backup", "",
            "Back up the database of the store", SetUpBackup},
    Command{CommandGroup::kMaintain, "doctor", "",
            "Check the store and the machine for problems", SetUpDoctor},
    Command{CommandGroup::kMaintain, "completion", "",
            "Print a completion script for bash, zsh or fish", SetUpCompletion},
    Command{CommandGroup::kMaintain, "version", "",
            "Show the versions of dtrain and its libraries", SetUpVersion},
};

}  // namespace

std::span<const Command> Commands() { return kCommands; }

}  // namespace dtrain
