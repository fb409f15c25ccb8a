#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace dtrain {

/// The course of one training: its errors after each step, and its speed.
class LearningCurve {
 public:
  virtual ~LearningCurve() = default;

  virtual double seconds_per_step() const = 0;
  /// Returns the errors without noise after the steps first + 1 to last.
  /// REQUIRES: 0 ≤ first ≤ last ≤ steps of the task.
  virtual std::vector<double> Errors(int first, int last) const = 0;
};

/// A task that a search is simulated on: it maps hyperparameters to a learning
/// curve without training.
class SearchTask {
 public:
  virtual ~SearchTask() = default;

  /// Hyperparameters to search, as a flow map of YAML.
  virtual std::string_view hyperparameters() const = 0;
  /// Steps of a full training.
  virtual int steps() const = 0;
  /// Standard deviation of the noise of each reported error.
  virtual double noise() const { return 0; }
  /// Number of random trainings that the normalization is computed from; 0: the
  /// task has a table of all trainings.
  virtual int reference_trainings() const { return 0; }
  /// Returns the curves of a table, none for other tasks.
  virtual std::vector<std::unique_ptr<LearningCurve>> Table() const {
    return {};
  }
  /// Returns the curve of a trial. REQUIRES: `hparams` are a sample of
  /// hyperparameters().
  virtual std::unique_ptr<LearningCurve> Train(
      const nlohmann::json& hparams) const = 0;
};

/// Returns a task by its name. Throws Error(kUsage) if the name is unknown or
/// its file cannot be used.
///
/// - `mixed`: a closed form of 2 integers, 2 logarithms, 3 categoricals and 2
///   conditional numbers. Its curves cross, and it has little noise.
/// - `mixed_conditional`: the same, with conditions that leave the two out
/// where
///   they have no effect.
/// - `noisy`: Hartmann's function of 6 numbers with much noise and misleading
///   early results.
/// - `table:FILE`: a table of LCBench in CSV. A point has the curve of the
///   nearest row.
/// - `lcbench:FILE:TASK`: the surrogate network of LCBench (Pfisterer et al.,
///   "YAHPO Gym", 2022; Zimmer et al., "Auto-PyTorch Tabular", 2021) in
///   safetensors.
std::unique_ptr<SearchTask> OpenSearchTask(const std::string& name);

}  // namespace dtrain
