#include "engine/app/trial_files.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <string_view>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/metric_order.h"
#include "engine/base/rounding.h"
#include "engine/base/text.h"
#include "engine/config/read_config.h"
#include "engine/os/files.h"

namespace dtrain {

std::filesystem::path FindTrialDirectory(const Store& store, TrialId trial) {
  const std::filesystem::path tree = store.layout().WorkingTree(trial);
  try {
    return WorkingDirectory(store.layout().Context(trial.experiment), tree);
  } catch (const Error&) {
    return tree;
  }
}

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

std::string FilesLaterThanBest(const TrialRow& trial, const Units& units) {
  if (!trial.best || trial.best->batches >= trial.batches) return "";
  return "; the trial went on to " + PositionText(trial.at(), units);
}

bool IsOutputName(std::string name) {
  static constexpr std::array<std::string_view, 32> kNames = {
      "artifacts", "build",    "checkpoint",  "checkpoints", "ckpt",
      "ckpts",     "dist",     "exp",         "experiments", "lightning_logs",
      "log",       "logs",     "mlruns",      "model",       "models",
      "out",       "output",   "outputs",     "plots",       "results",
      "run",       "runs",     "save",        "saved",       "saved_models",
      "tb_logs",   "temp",     "tensorboard", "tmp",         "wandb",
      "weights",   "work_dirs"};
  std::ranges::transform(name, name.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  return std::ranges::find(kNames, name) != kNames.end();
}

namespace {

bool BeginAlike(const std::filesystem::path& a,
                const std::filesystem::path& b) {
  constexpr std::size_t kCompared = 16'000'000;
  const auto text = ReadFile(a, kCompared);
  return text && text == ReadFile(b, kCompared);
}

}  // namespace

std::optional<RepeatedFiles> FindRepeatedFiles(const Store& store,
                                               std::int64_t experiment) {
  constexpr std::size_t kMaxTrials = 32;
  constexpr std::int64_t kLarge = 1'000'000;
  using FilePlaces = std::vector<std::filesystem::path>;
  std::map<std::pair<std::string, std::int64_t>, FilePlaces> places;
  auto trials = store.Trials(experiment, {.hparams = false});
  if (trials.size() > kMaxTrials) trials.resize(kMaxTrials);
  for (const TrialRow& trial : trials) {
    const auto files = ListTrialFiles(store, trial.id);
    if (files.empty()) continue;
    const auto directory = FindTrialDirectory(store, trial.id);
    for (const WrittenFile& file : files) {
      const auto slash = file.path.find('/');
      if (file.bytes < kLarge || slash == std::string::npos ||
          IsOutputName(file.path.substr(0, slash))) {
        continue;
      }
      places[{file.path, file.bytes}].push_back(directory / file.path);
    }
  }
  std::map<std::string, RepeatedFiles> repeated;
  for (const auto& [file, copies] : places) {
    const auto& [path, bytes] = file;
    if (copies.size() < 2 || !BeginAlike(copies[0], copies[1])) continue;
    const std::string directory = path.substr(0, path.find('/'));
    RepeatedFiles& found = repeated[directory];
    found.directory = directory;
    found.trials = std::max(found.trials, std::ssize(copies));
    found.bytes += bytes;
  }
  const auto largest = std::ranges::max_element(
      repeated, {}, [](const auto& one) { return one.second.bytes; });
  if (largest == repeated.end()) return std::nullopt;
  return largest->second;
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
