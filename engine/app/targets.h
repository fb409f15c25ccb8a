#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dtrain {

class Store;

/// An experiment or one of its trials.
struct Target {
  std::int64_t experiment = 0;
  std::optional<std::int64_t> trial;

  bool operator==(const Target&) const = default;
};

/// "3" or "3.7".
std::string ToString(const Target& target);

/// Parses "3" or "3.7". Throws Error(kUsage) for anything else.
Target ParseTarget(const std::string& text);

// The functions below are the one place where the arguments EXP and EXP.T of
// all commands get their meaning. In this order, an argument is
//   3, 3.7     numbers, whether there is such an experiment or not,
//   last       the newest experiment, archived or not,
//   3-7        those of these experiments that exist, at least one,
//   NAME       the only experiment of this name,
//   last.2, NAME.2  a trial of such an experiment.
// Where a number has the form of a name, the number is meant; `last` and ranges
// are refused if another experiment has them as its name. They throw
// Error(kNotFound) for a name or range without an experiment, and Error(kUsage)
// for a name of several experiments, or of another form than is expected.

/// Returns the experiment or trial that an argument names.
Target ResolveTarget(const Store& store, const std::string& text);
/// Returns the experiment that an argument names.
std::int64_t ResolveExperiment(const Store& store, const std::string& text);
/// Returns the experiments and trials that arguments name, those of ranges in
/// increasing order. One may come twice.
std::vector<Target> ResolveTargets(const Store& store,
                                   const std::vector<std::string>& words);
/// Returns the experiments that arguments name, each once.
std::vector<std::int64_t> ResolveExperiments(
    const Store& store, const std::vector<std::string>& words);
/// Returns the experiment or trial that an argument names where a checkpoint
/// may stand, too; nothing if the text is, or can only be, the start of a
/// UUID. Numbers of at least 4 digits and names are experiments only if no
/// checkpoint starts with them; a number of an existing experiment is always
/// one.
std::optional<Target> ResolveSource(const Store& store,
                                    const std::string& text);

}  // namespace dtrain
