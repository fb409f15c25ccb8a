#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace dtrain {

struct TrialRow;

/// Data of one experiment in the Markdown report: ExperimentData, and its
/// trials from the best to the worst (those without a value last).
struct MarkdownSubject {
  nlohmann::json data;
  std::vector<TrialRow> ranked;
};

/// Returns a summary in Markdown, for a CI job's page or a merge request: the
/// record of each experiment, its 20 best trials with the hyperparameters that
/// vary, and their importance. At most 900 kB: GitHub refuses a summary above 1
/// MiB. It says what it leaves out.
std::string MarkdownReport(const std::vector<MarkdownSubject>& subjects);

/// Returns the flattened names of the hyperparameters that have several values,
/// sorted.
std::vector<std::string> VaryingNames(const std::vector<TrialRow>& trials);

/// Escapes a text for a cell of a Markdown table.
std::string MarkdownCell(const std::string& text);

}  // namespace dtrain
