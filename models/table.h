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

/// A hyperparameter that a trial reads.
struct HparamDoc {
  std::string_view name;
  std::string_view type;           // int, float, bool, string, list
  std::string_view default_value;  // as YAML; empty: required
  std::string_view doc;            // one line
  // Accepted for compatibility, as in the configurations of the documentation;
  // the trial does not read it.
  bool unused = false;
};

/// One registered trial. Adding one is a file pair and a row of the table in
/// table.cc.
struct ModelEntry {
  std::string_view entrypoint;  // "digits:LeNetTrial"
  std::string_view summary;     // one line
  std::span<const HparamDoc> hparams;
  // Makes the trial; null in the `dtrain` executable, which has no Torch.
  std::unique_ptr<Trial> (*make)(TrialContext& context);
  // What is wrong on this machine with the `hyperparameters` of a YAML,
  // searched ones included, in the environment that trials will have: asked
  // before an experiment is made. Null: nothing to ask.
  std::optional<std::string> (*check)(const nlohmann::json& space,
                                      const ReadVariable& variable) = nullptr;
};

/// Every trial of this build, by entrypoint.
std::span<const ModelEntry> ModelTable();

/// The row of `entrypoint`, or null.
const ModelEntry* FindModel(std::string_view entrypoint);

/// All entrypoints, for suggestions.
std::vector<std::string> Entrypoints();

}  // namespace dtrain
