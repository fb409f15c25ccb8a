#include "cli/commands.h"

#include <array>

namespace dtrain {

// Each is defined in the file of its command.
CommandSetUp SetUpArchive, SetUpBackup, SetUpBest, SetUpCancel,
    SetUpCheckpointDelete, SetUpCheckpointExport, SetUpCheckpointImport,
    SetUpCheckpointShow, SetUpCheckpointVerify, SetUpCheckpoints, SetUpConfig,
    SetUpContinue, SetUpCreate, SetUpDataFetch, SetUpDataList, SetUpDataVerify,
    SetUpDelete, SetUpDescribe, SetUpDoctor, SetUpEvaluate, SetUpGc, SetUpInit,
    SetUpKill, SetUpLabel, SetUpList, SetUpLogs, SetUpMetrics, SetUpModels,
    SetUpNote, SetUpPause, SetUpPlot, SetUpPredict, SetUpPreviewSearch,
    SetUpReproduce, SetUpResume, SetUpSlots, SetUpTrials, SetUpUnarchive,
    SetUpValidate, SetUpVersion, SetUpWait;

namespace {

constexpr std::array kCheckpointCommands = {
    Command{"show", "", "Show one checkpoint and its files",
            SetUpCheckpointShow},
    Command{"verify", "", "Compare files with their checksums",
            SetUpCheckpointVerify},
    Command{"export", "", "Write its weights for PyTorch and others",
            SetUpCheckpointExport},
    Command{"import", "", "Take weights of PyTorch and others",
            SetUpCheckpointImport},
    Command{"delete", "", "Delete checkpoints with their files",
            SetUpCheckpointDelete},
};

std::span<const Command> CheckpointCommands() { return kCheckpointCommands; }

constexpr std::array kDataCommands = {
    Command{"fetch", "", "Download data sets and weights", SetUpDataFetch},
    Command{"list", "", "Show what can be fetched and what is there",
            SetUpDataList},
    Command{"verify", "", "Compare files with their checksums",
            SetUpDataVerify},
};

std::span<const Command> DataCommands() { return kDataCommands; }

constexpr std::array kCommands = {
    Command{"create", "", "Run an experiment from a YAML file", SetUpCreate},
    Command{"init", "", "Begin a model of your own in a new directory",
            SetUpInit},
    Command{"validate", "", "Check an experiment YAML without running it",
            SetUpValidate},
    Command{"preview-search", "", "Show the trials that a search would run",
            SetUpPreviewSearch, /*rare=*/true},
    Command{"pause", "", "Have experiments save what they have and stop",
            SetUpPause},
    Command{"resume", "activate",
            "Go on with a paused or interrupted experiment", SetUpResume},
    Command{"continue", "", "Begin a new experiment from a checkpoint",
            SetUpContinue, /*rare=*/true},
    Command{"reproduce", "", "Run a trial again and compare the metrics",
            SetUpReproduce, /*rare=*/true},
    Command{"cancel", "", "End experiments for good", SetUpCancel},
    Command{"kill", "", "End experiments or trials at once", SetUpKill,
            /*rare=*/true},
    Command{"wait", "", "Wait until experiments end", SetUpWait},
    Command{"list", "", "Show the experiments", SetUpList},
    Command{"describe", "", "Show what is recorded of an experiment or trial",
            SetUpDescribe},
    Command{"config", "", "Print the YAML of an experiment as it was run",
            SetUpConfig, /*rare=*/true},
    Command{"trials", "", "Show the trials of an experiment", SetUpTrials},
    Command{"best", "", "Show the best trials of an experiment", SetUpBest},
    Command{"metrics", "", "Print the metrics of an experiment or trial",
            SetUpMetrics},
    Command{"logs", "", "Print what trials wrote, by time", SetUpLogs},
    Command{"checkpoints", "", "Show the checkpoints of an experiment or trial",
            SetUpCheckpoints},
    Command{"plot", "", "Draw metrics over batches, here or into an SVG file",
            SetUpPlot, /*rare=*/true},
    Command{"evaluate", "",
            "Measure a checkpoint on its validation or test set", SetUpEvaluate,
            /*rare=*/true},
    Command{"predict", "", "Print what a checkpoint's model says of samples",
            SetUpPredict, /*rare=*/true},
    Command{"checkpoint", "", "Show, verify, export or delete checkpoints",
            /*set_up=*/nullptr, /*rare=*/true, CheckpointCommands},
    Command{"label", "", "Change the labels of experiments", SetUpLabel,
            /*rare=*/true},
    Command{"note", "", "Write a note on an experiment", SetUpNote,
            /*rare=*/true},
    Command{"archive", "", "Take experiments out of the list", SetUpArchive,
            /*rare=*/true},
    Command{"unarchive", "", "Show archived experiments in the list again",
            SetUpUnarchive, /*rare=*/true},
    Command{"delete", "", "Delete experiments with all they have", SetUpDelete},
    Command{"gc", "", "Remove what no experiment needs any more", SetUpGc,
            /*rare=*/true},
    Command{"backup", "",
            "Copy the store's database, without checkpoints and logs",
            SetUpBackup, /*rare=*/true},
    Command{"doctor", "", "Look for what is wrong with store and machine",
            SetUpDoctor, /*rare=*/true},
    Command{"models", "",
            "Show the trials of this build and their hyperparameters",
            SetUpModels, /*rare=*/true},
    Command{"data", "", "Fetch, list and verify data sets and weights",
            /*set_up=*/nullptr, /*rare=*/true, DataCommands},
    Command{"slots", "", "Show the GPUs and CPUs and who uses them", SetUpSlots,
            /*rare=*/true},
    Command{"version", "", "Show the versions of dtrain and its libraries",
            SetUpVersion, /*rare=*/true},
};

}  // namespace

std::span<const Command> Commands() { return kCommands; }

}  // namespace dtrain
