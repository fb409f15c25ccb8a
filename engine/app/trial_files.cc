#include "engine/app/trial_files.h"

#include <algorithm>

#include "engine/base/metric_order.h"
#include "engine/base/rounding.h"
#include "engine/base/text.h"
#include "engine/config/read_config.h"

namespace dtrain {

std::vector<WrittenFile> ListTrialFiles(const Store& store, TrialId trial) {
  return ListWrittenFiles(store.layout().Context(trial.experiment),
                          store.layout().WorkingTree(trial));
}

std::string TrialFilesText(const std::vector<WrittenFile>& files) {
  if (files.empty()) return "";
  std::int64_t bytes = 0;
  for (const WrittenFile& file : files) bytes += file.bytes;
  const auto largest = std::ranges::max_element(files, {}, &WrittenFile::bytes);
  return largest->path +
         (files.size() == 1
              ? ""
              : " and " + CountText(files.size() - 1, "more file")) +
         ", " + FormatBytes(bytes);
}

std::string TrialFilesCommand(const std::vector<WrittenFile>& files,
                              TrialId trial, const std::string& program) {
  const std::string text = TrialFilesText(files);
  return text.empty() ? ""
                      : text + ": " + program + " files " + ToString(trial);
}

std::string TrialFilesRemark(const Store& store, TrialId trial,
                             const std::string& program) {
  const std::string text =
      TrialFilesCommand(ListTrialFiles(store, trial), trial, program);
  return text.empty() ? "" : "; its program wrote " + text;
}

std::set<std::int64_t> TrialsThatKeepFiles(const Store& store,
                                           const ExperimentRow& experiment) {
  std::int64_t save_experiment_best = 0;
  if (experiment.state == State::kCompleted) {
    const auto detail = store.Experiment(experiment.id);
    if (detail) {
      save_experiment_best =
          ConfigFromJson(detail->config).checkpoints.save_experiment_best;
    }
  }
  return TrialsThatKeepFiles(store.Trials(experiment.id, {.hparams = false}),
                             experiment, save_experiment_best);
}

std::set<std::int64_t> TrialsThatKeepFiles(const std::vector<TrialRow>& trials,
                                           const ExperimentRow& experiment,
                                           std::int64_t save_experiment_best) {
  std::vector<const TrialRow*> rows;
  for (const TrialRow& trial : trials) rows.push_back(&trial);
  if (IsFinal(experiment.state)) {
    if (experiment.state != State::kCompleted) return {};
    std::erase_if(rows, [](const TrialRow* trial) { return !trial->best; });
    std::ranges::stable_sort(rows, [&](const TrialRow* a, const TrialRow* b) {
      return IsBetter(a->best->value, b->best->value,
                      experiment.smaller_is_better);
    });
    const auto most = static_cast<std::size_t>(
        std::max<std::int64_t>(save_experiment_best, 1));
    if (rows.size() > most) rows.resize(most);
  }
  std::set<std::int64_t> numbers;
  for (const TrialRow* trial : rows) numbers.insert(trial->id.number);
  return numbers;
}

}  // namespace dtrain
