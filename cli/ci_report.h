#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "engine/config/findings.h"
#include "engine/query/field.h"
#include "engine/report/ci_formats.h"
#include "engine/store/rows.h"

namespace dtrain {

class Error;
class Store;

// Reports for continuous integration: JUnit files, GitHub's annotations and
// step summaries.

/// `--annotate github`, and the options of CiFormats.
struct CiFlags {
  std::vector<std::string> files =
      std::vector<std::string>(CiFormats().size());  // one per format, or empty
  std::string annotate;

  bool has_file() const {
    return std::ranges::any_of(files, [](const auto& f) { return !f.empty(); });
  }
};

/// An experiment and the results of its --require expressions.
struct CheckedExperiment {
  ExperimentRow row;
  std::vector<Check> checks;
};

/// Adds the options of `flags`. They exclude `detach`: a command that returns
/// at once has no result to report.
void AddCiFlags(CLI::App& app, CiFlags& flags,
                std::optional<CliOption> detach = std::nullopt);
/// Writes reports of an error, which stand until there is a result. Throws
/// Error(kUsage) if one cannot be written.
void CheckCiFlags(const CiFlags& flags);

/// Writes what `flags` ask for of experiments that were run: a JUnit suite
/// each, with a test case a trial, one a requirement, and one for the
/// experiment itself where it failed without a failed trial; an annotation of
/// each failure. Throws Error(kFailed) if the file cannot be written.
void WriteCiReport(const CiFlags& flags, const Store& store,
                   std::span<const CheckedExperiment> experiments);

/// Annotates the findings about a configuration, if `flags` say so.
void AnnotateFindings(const CiFlags& flags, const Diagnostics& diagnostics);

/// Reports `error`, which left no result to report: a JUnit suite with one
/// error, and an annotation unless the findings about `name` say it already.
void WriteCiRefusal(const CiFlags& flags, const std::string& name,
                    const Diagnostics& diagnostics, const Error& error);

/// Reports that the configuration `name` is valid: a JUnit suite with one
/// passed case.
void WriteCiAcceptance(const CiFlags& flags, const std::string& name,
                       const Diagnostics& diagnostics);

}  // namespace dtrain
