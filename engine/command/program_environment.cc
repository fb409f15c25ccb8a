#include "engine/command/program_environment.h"

#include <cstdlib>

#include "engine/base/text.h"
#include "engine/command/program.h"
#include "engine/wire/json_fields.h"

namespace dtrain {
namespace {

using nlohmann::json;
using Variables = std::vector<std::pair<std::string, std::string>>;

json PathOrNull(const std::filesystem::path& path) {
  return path.empty() ? json(nullptr) : json(path.string());
}

json CheckpointOf(const ProgramSurroundings& around, Unit unit) {
  if (around.checkpoint.empty()) return nullptr;
  json checkpoint = {{"path", around.checkpoint.string()},
                     {"batches", around.at.trainer.batches},
                     {"epochs", around.at.epoch}};
  checkpoint[UnitName(unit)] = around.at.count;
  // Whole numbers are to look like such.
  for (auto& [name, value] : checkpoint.items()) {
    if (!value.is_number_float()) continue;
    const auto number = value.get<double>();
    const auto whole = static_cast<std::int64_t>(number);
    if (static_cast<double>(whole) == number) value = whole;
  }
  return checkpoint;
}

bool MayBeInAName(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9');
}

std::string TextOf(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return FormatNumber(value.get<double>());
  return value.dump();
}

void AddHparams(const std::string& prefix, const json& hparams,
                Variables& variables) {
  for (const auto& [name, value] : hparams.items()) {
    std::string variable = prefix + "_";
    for (const char c : name) variable += MayBeInAName(c) ? c : '_';
    if (value.is_object()) {
      AddHparams(variable, value, variables);
    } else if (!value.is_array() && !value.is_null()) {
      const std::string text = TextOf(value);
      if (text.find('\0') == text.npos) variables.emplace_back(variable, text);
    }
  }
}

}  // namespace

json DescribeTrial(const TrialSpec& spec, Length until,
                   const ProgramSurroundings& around) {
  const TrainerSettings& settings = spec.settings;
  return {
      {"protocol", kProgramProtocol},
      {"experiment", spec.id.experiment},
      {"trial", spec.id.number},
      {"run", spec.run},
      {"hyperparameters", spec.hparams},
      {"data", spec.data},
      {"seed", spec.seed},
      {"until", until.count > 0 ? LengthToJson(until) : json(nullptr)},
      {"checkpoint", CheckpointOf(around, until.unit)},
      {"warm_start", PathOrNull(around.warm_start)},
      {"directory", around.scratch.string()},
      {"devices", spec.gpus},
      {"gpu_share", spec.gpu_share},
      {"threads", spec.threads},
      {"rank", spec.rank},
      {"world_size", spec.world_size},
      {"metric", settings.searcher_metric},
      {"smaller_is_better", settings.smaller_is_better},
      {"scheduling_unit", settings.scheduling_unit},
      {"min_validation_period", LengthToJson(settings.min_validation_period)},
      {"min_checkpoint_period", LengthToJson(settings.min_checkpoint_period)},
      {"checkpoint_policy", settings.checkpoint_policy},
      {"perform_initial_validation", settings.perform_initial_validation},
      {"records_per_epoch", settings.records_per_epoch}};
}

Variables ProgramVariables(const TrialSpec& spec, Length until,
                           const ProgramSurroundings& around) {
  Variables variables = {
      {"DTRAIN_TRIAL", around.description.string()},
      {"DTRAIN_REPORT_FD", std::to_string(kReportFd)},
      {"DTRAIN_OPERATIONS_FD", std::to_string(kOperationsFd)},
      {"DTRAIN_SOCKET", around.socket},
      {"DTRAIN_DIRECTORY", around.scratch.string()},
      {"DTRAIN_SEED", std::to_string(spec.seed)},
      {"DTRAIN_UNIT", std::string(UnitName(until.unit))},
      {"DTRAIN_UNTIL",
       until.count > 0 ? std::to_string(until.count) : std::string()},
      {"DTRAIN_CHECKPOINT", around.checkpoint.string()},
      {"DTRAIN_DONE", around.checkpoint.empty()
                          ? std::string("0")
                          : FormatNumber(around.at.count)}};
  if (std::getenv("OMP_NUM_THREADS") == nullptr) {
    variables.emplace_back("OMP_NUM_THREADS", std::to_string(spec.threads));
  }
  AddHparams("DTRAIN_HPARAM", spec.hparams, variables);
  return variables;
}

}  // namespace dtrain
