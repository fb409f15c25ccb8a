#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/cli_runner.h"

namespace dtrain {

/// Keys with dots ("searcher.max_length") and their values in YAML's flow
/// style, in the order of the file. A later one replaces an earlier one; an
/// empty value removes the key.
using Settings = std::vector<std::pair<std::string, std::string>>;

inline Settings operator+(Settings left, const Settings& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

/// A YAML file, in block style as people write it.
class PageYaml {
 public:
  explicit PageYaml(const Settings& settings);

  const std::string& text() const { return text_; }
  /// "LINE:COLUMN" of the key's value, both from 1, or `offset` columns after
  /// it.
  std::string FindPosition(const std::string& key, int columns = 0) const;

 private:
  struct Key {
    std::string name;
    std::string value;  // empty: `keys` are its value
    std::vector<Key> keys;
  };

  struct Place {
    std::string key;
    int line;
    int column;
  };

  static void Set(std::vector<Key>& keys, const std::string& path,
                  const std::string& value);
  void Write(const std::vector<Key>& keys, const std::string& path, int indent);

  std::string text_;
  std::vector<Place> places_;
};

/// One experiment through the binary, in a directory and a store of its own,
/// and what can be seen of it. Its YAML is page/page.yaml, its program, where
/// it has one, page/program.sh; page/kept is an empty directory.
class PageRun {
 public:
  /// Trials of `model_def:` come from this file.
  void WriteModel(const std::string& source) const;
  /// Creates an experiment and runs it to its end.
  CliResult Create(const Settings& settings, const std::string& program = "",
                   const CliCall& call = {});
  CliResult Run(const std::vector<std::string>& arguments) const {
    return dtrain_.Run(arguments);
  }
  bool HasStore() const;
  /// The experiment that is looked at, from 1; `Create` looks at its own.
  int experiment() const { return experiment_; }
  void LookAt(int experiment) { experiment_ = experiment; }

  const CliResult& result() const { return result_; }
  /// The events of `create --jsonl` of one kind, oldest first.
  std::vector<nlohmann::json> Events(const std::string& kind) const;
  /// Maximum number of trials with a process at one time.
  int TrialsAtOnce() const;
  /// JSON output of a command: `describe EXP`, `trials EXP`, …
  nlohmann::json Says(const std::string& command) const;
  /// One field of each trial, by its number.
  nlohmann::json OfTrials(const std::string& field) const;
  /// [batches, value] of each report of the metric in trial 1.
  nlohmann::json Reports(const std::string& kind,
                         const std::string& metric) const;
  std::string Log() const;
  /// A file that the program left in its home; "" if there is none.
  std::string Left(const std::string& name) const;
  const std::filesystem::path& directory() const { return dtrain_.directory(); }

 private:
  std::string id() const { return std::to_string(experiment_); }

  CliRunner dtrain_;
  CliResult result_;
  int experiments_ = 0;
  int experiment_ = 0;
};

/// Observation of an experiment.
using Look = std::function<nlohmann::json(const PageRun&)>;

/// Field of each trial, as `dtrain trials` prints it.
Look OfTrials(const std::string& field);
/// Field of the file that DTRAIN_TRIAL names, by a JSON pointer.
Look Told(const std::string& field);
/// A file that the program left in its home.
Look Left(const std::string& name);
/// Maximum number of trials with a process at one time.
nlohmann::json TrialsAtOnce(const PageRun& run);

/// A program that validates at its length, and one that takes its time.
inline constexpr char kPlain[] = "validate $until 1\n";
inline constexpr char kSlow[] = "sleep 0.3; validate $until 1\n";

/// A value that `create` refuses at its place: exit code 2, and nothing is
/// created.
struct Refusal {
  std::string key;      // as on the page; "" in a Proof: its key
  Settings set;         // its last one is the value that is refused
  std::string message;  // what follows the place; @: the run's directory
  int column = 0;       // columns after the beginning of the value
};

/// The proof that a key of docs/yaml.md has its effect: two experiments that
/// differ only in `set`, and an observation of each.
struct Proof {
  std::string key;      // as the page has it
  std::string variant;  // where the key has several proofs
  Settings base;        // of both, after those that all experiments have
  Settings set;         // of the second
  std::string program;  // of the shell, after those functions that all have
  Look look;
  // Observations without and with `set`; none: only that both differ.
  std::optional<nlohmann::json> without;
  std::optional<nlohmann::json> with;
  bool same = false;          // the page says that nothing differs
  bool continues = false;     // @CHECKPOINT is one of an experiment before it
  bool on_fake_gpus = false;  // a driver says that there are two GPUs
  bool on_fake_slurm =
      false;  // a Slurm whose jobs run at once, on this machine
  bool on_fast_floats = false;  // /proc/cpuinfo says: CPUs have bf16 and fp16
  // Values of the key that are refused. Those of older keys are in Refusals().
  std::vector<Refusal> refusals = {};
};

/// Proofs with programs; these need no LibTorch.
std::vector<Proof> ExperimentProofs();
std::vector<Proof> HyperparameterProofs();
std::vector<Proof> EarlyStoppingProofs();
std::vector<Proof> NotifyProofs();
std::vector<Proof> SearcherProofs();
std::vector<Proof> ResourcesProofs();
std::vector<Proof> SlurmProofs();
std::vector<Proof> CheckpointProofs();
/// Proofs with built-in models, which need LibTorch.
std::vector<Proof> TrainerProofs();
/// Proofs with a model that reports what it receives: `model_def:PageTrial`.
std::vector<Proof> OwnModelProofs();
std::string OwnModelSource();

std::vector<Refusal> Refusals();

/// Settings common to all experiments of programs.
Settings ProgramSettings();

}  // namespace dtrain
