#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/os/process.h"

namespace dtrain {

class Trial;
class TrialContext;

/// Documentation of a hyperparameter that a model reads.
struct HparamDoc {
  std::string_view name;
  std::string_view type;           // int, float, bool, string, list
  std::string_view default_value;  // as YAML; empty: required
  std::string_view doc;            // one line
  // Accepted for compatibility with configurations in the documentation, but
  // not read.
  bool unused = false;
  // Returns why the model refuses a value of the type, such as "expected an
  // integer of at least 1, got 0", or "". Null: it takes all of them.
  std::string (*find_fault)(const nlohmann::json& value) = nullptr;
};

/// A built-in model. Adding one takes a source file and a row of the table in
/// table.cc.
struct ModelEntry {
  std::string_view entrypoint;  // "digits:LeNetTrial"
  std::string_view summary;     // one line
  std::span<const HparamDoc> hparams;
  // Creates a trial of the model; null in the `dtrain` executable, which is
  // without Torch.
  std::unique_ptr<Trial> (*make)(TrialContext& context);
  // Checks the `hyperparameters` of a YAML, including searched ones, on this
  // machine and in the environment of the trials, before the experiment is
  // created. Returns the problem, if any. Null: nothing to check.
  std::optional<std::string> (*check)(const nlohmann::json& space,
                                      const ReadVariable& variable) = nullptr;
};

/// All built-in models, sorted by entrypoint.
std::span<const ModelEntry> ModelTable();

/// Model of `entrypoint`, or null.
const ModelEntry* FindModel(std::string_view entrypoint);

/// All entrypoints, for suggestions.
std::vector<std::string> Entrypoints();

}  // namespace dtrain
