#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/command/program_checkpoint.h"
#include "engine/wire/trial_spec.h"

namespace dtrain {

/// The version of docs/protocol.md.
inline constexpr int kProgramProtocol = 1;

/// What a program is told of its trial.
struct ProgramSurroundings {
  std::filesystem::path description;  // of the JSON file
  std::filesystem::path scratch;      // a directory of its own
  std::filesystem::path checkpoint;   // to go on from, or empty
  ProgramState at;                    // of that checkpoint
  std::filesystem::path warm_start;   // to begin from, or empty
  std::string socket;
};

/// The contents of the file that DTRAIN_TRIAL names. `until` of 0: the program
/// decides how long it trains.
nlohmann::json DescribeTrial(const TrialSpec& spec, Length until,
                             const ProgramSurroundings& around);

/// The variables that are added to the program's environment. A hyperparameter
/// that is a number, a text or a truth value is there as DTRAIN_HPARAM_name,
/// one within others as DTRAIN_HPARAM_outer_name; what no variable may be named
/// by becomes an underscore.
std::vector<std::pair<std::string, std::string>> ProgramVariables(
    const TrialSpec& spec, Length until, const ProgramSurroundings& around);

}  // namespace dtrain
