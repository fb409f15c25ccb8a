#include "cli/entrypoint_check.h"

#include <cstdlib>
#include <optional>
#include <variant>
#include <vector>

#include "cli/config_file.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/plugin/model_sources.h"
#include "engine/process/find_program.h"
#include "models/table.h"

namespace dtrain {
namespace {

// Where a command will be looked for: as the trials will see it.
std::string PathOfTrials(const ExperimentConfig& config) {
  for (const auto& [name, value] : config.environment) {
    if (name == "PATH") return value;
  }
  const char* path = std::getenv("PATH");
  return path == nullptr ? "" : path;
}

void CheckCommand(const std::string& file, const ExperimentConfig& config,
                  const std::filesystem::path& context) {
  const auto* words = std::get_if<std::vector<std::string>>(&config.entrypoint);
  if (words == nullptr) return;
  try {
    FindProgram(words->front(), context, PathOfTrials(config));
  } catch (const Error& error) {
    throw Error(ErrorKind::kUsage, file + ": entrypoint: " + error.what() +
                                       "; nothing was created");
  }
}

void CheckModel(const std::string& file, const ExperimentConfig& config,
                const std::filesystem::path& context) {
  const auto* name = std::get_if<std::string>(&config.entrypoint);
  if (name == nullptr || HasOwnModel(*name, context)) return;
  const ModelEntry* model = FindModel(*name);
  if (model == nullptr || model->check == nullptr) return;
  const auto problem = model->check(config.hyperparameters);
  if (!problem) return;
  throw Error(ErrorKind::kUsage,
              file + ": " + *problem + "; nothing was created");
}

}  // namespace

void CheckEntrypoint(const std::string& file, const ExperimentConfig& config,
                     const std::filesystem::path& context) {
  const auto* name = std::get_if<std::string>(&config.entrypoint);
  if (name == nullptr || HasOwnModel(*name, context)) return;
  if (FindModel(*name) != nullptr) return;
  throw Error(ErrorKind::kUsage,
              file + ": entrypoint: this build has no trial '" + *name + "'" +
                  DidYouMean(*name, Entrypoints()) + "; it has " +
                  Join(Entrypoints(), ", ") + " ('dtrain models' says more)");
}

void CheckOnThisMachine(const std::string& file, const ExperimentConfig& config,
                        const std::filesystem::path& context) {
  CheckModel(file, config, context);
  CheckCommand(file, config, context);
}

std::filesystem::path ContextDirectory(const std::string& file,
                                       const std::string& context) {
  if (context.empty()) return DirectoryOf(file);
  std::error_code ignored;
  if (std::filesystem::is_directory(context, ignored)) {
    return context;
  }
  throw Error(ErrorKind::kUsage,
              context +
                  ": is no directory; CONTEXT is the directory "
                  "of the experiment's files");
}

}  // namespace dtrain
