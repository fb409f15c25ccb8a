#pragma once

#include <optional>
#include <string>
#include <vector>

namespace dtrain {

// Users of Determined type the commands of its CLI, `det`: "experiment list",
// "e lt 3", "trial logs 3.7", "create const.yaml . --config name=x". These
// functions turn them into dtrain's: "list", "trials 3", "logs 3.7", "create
// const.yaml . --set name=x". Words are those after the program's name.

/// Returns the command line in dtrain's words; unchanged if it has none of
/// det's. Throws Error(kUsage) for what dtrain does not have, with what to use
/// in its place.
std::vector<std::string> FromDetermined(const std::vector<std::string>& words);

/// Returns the help of a group of det's commands if the command line asks for
/// it: "experiment --help", "help trial".
std::optional<std::string> DeterminedHelp(
    const std::vector<std::string>& words);

/// A name of a command of det, and the command of dtrain that it stands for.
struct DeterminedName {
  std::string name;
  std::string command;
};

/// Words before the one that is to be completed.
struct DeterminedLine {
  std::vector<std::string> words;  // with the names of commands replaced
  // The names of which one follows, if det's command is not complete.
  std::optional<std::vector<DeterminedName>> names = std::nullopt;
};

/// Prepares a command line for completion. Its options stay as they are.
DeterminedLine CompleteDetermined(const std::vector<std::string>& words);

}  // namespace dtrain
