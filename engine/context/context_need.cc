#include "engine/context/context_need.h"

#include <string>
#include <system_error>
#include <variant>

namespace dtrain {

bool NeedsContext(const ExperimentConfig& config,
                  const std::filesystem::path& directory) {
  const auto* name = std::get_if<std::string>(&config.entrypoint);
  if (name == nullptr) return true;
  std::error_code ignored;
  return name->starts_with("model_def:") &&
         std::filesystem::is_regular_file(directory / kModelDefinition,
                                          ignored);
}

}  // namespace dtrain
