// Reports for continuous integration: files in the formats of CiFormats, and
// GitHub's annotations and step summaries.
//
// A report must be correct even if dtrain is killed. The file is therefore
// written at the start with an error that says so, and replaced by the result
// at the end. Annotations are workflow commands on stderr, which GitHub parses
// like stdout; stdout may be a JSON document.

#include "cli/ci_report.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string_view>

#include <fcntl.h>
#include <sys/stat.h>

#include "cli/output.h"
#include "engine/app/stores.h"
#include "engine/base/clock.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/os/process.h"
#include "engine/os/system_error.h"
#include "engine/os/unique_fd.h"
#include "engine/report/ci_formats.h"
#include "engine/report/format.h"

namespace dtrain {
namespace {

using Outcome = CiCase::Outcome;

Outcome ToOutcome(State state) {
  switch (state) {
    case State::kCompleted:
    case State::kStopped:
      return Outcome::kPassed;
    case State::kError:
      return Outcome::kFailed;
    case State::kPending:
    case State::kRunning:
    case State::kPaused:
    case State::kInterrupted:
    case State::kCanceled:
    case State::kInvalid:
      return Outcome::kSkipped;
  }
  return Outcome::kSkipped;
}

CiCase TrialCase(const TrialRow& trial, const ExperimentRow& experiment,
                 const Units& units) {
  CiCase test{.name = "trial " + ToString(trial.id),
              .class_name = experiment.name,
              .seconds = trial.seconds,
              .outcome = ToOutcome(trial.state)};
  test.message = std::string(StateName(trial.state)) +
                 (trial.reason.empty() ? "" : ": " + trial.reason);
  test.output = FormatHparams(trial.hparams) + "\n" + experiment.metric + " " +
                FormatBest(trial.best, units);
  return test;
}

CiCase CheckCase(const Check& check, const ExperimentRow& experiment) {
  return {.name = "requirement " + check.text,
          .class_name = experiment.name,
          .outcome = check.met ? Outcome::kPassed : Outcome::kFailed,
          .message = "actual: " + check.actual};
}

CiSuite MakeSuite(const Store& store, const ExperimentRow& experiment,
                  const std::vector<Check>& checks, const Units& units) {
  CiSuite suite{.name = experiment.name,
                .host = HostName(),
                .time = experiment.started.value_or(experiment.created),
                .seconds = experiment.seconds};
  for (const TrialRow& trial : ListTrials(store, experiment)) {
    suite.cases.push_back(TrialCase(trial, experiment, units));
  }
  const bool told = std::ranges::any_of(suite.cases, [](const CiCase& c) {
    return c.outcome == Outcome::kFailed;
  });
  const bool failed =
      experiment.state == State::kError || experiment.state == State::kCanceled;
  if (failed && !told) {
    suite.cases.push_back(
        {.name = "experiment " + std::to_string(experiment.id),
         .class_name = experiment.name,
         .outcome = Outcome::kFailed,
         .message = std::string(StateName(experiment.state)) +
                    (experiment.error.empty() ? "" : ": " + experiment.error)});
  }
  for (const Check& check : checks) {
    suite.cases.push_back(CheckCase(check, experiment));
  }
  return suite;
}

// Writes the files that `flags` name.
void WriteFiles(const CiFlags& flags, std::span<const CiSuite> suites,
                const std::string& remedy) {
  for (std::size_t i = 0; i < flags.files.size(); ++i) {
    if (flags.files[i].empty()) continue;
    const CiFormat& format = CiFormats()[i];
    WriteNamedFile(format.option, flags.files[i], format.render(suites),
                   remedy);
  }
}

// `text` with each of `special` as %XX, as workflow commands of GitHub have it:
// https://docs.github.com/actions/reference/workflow-commands-for-github-actions
std::string Escape(std::string_view text, std::string_view special) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string escaped;
  for (const char c : text) {
    if (special.find(c) == special.npos) {
      escaped += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    escaped += {'%', kHex[byte / 16], kHex[byte % 16]};
  }
  return escaped;
}

std::string EscapeData(std::string_view text) { return Escape(text, "%\r\n"); }
std::string EscapeProperty(std::string_view text) {
  return Escape(text, "%\r\n:,");
}

// Prints on stderr, which GitHub parses, too; stdout may be a JSON document.
void PrintAnnotation(std::string_view command, const std::string& properties,
                     const std::string& message) {
  std::cerr << "::" << command << (properties.empty() ? "" : " ") << properties
            << "::" << EscapeData(EscapeForTerminal(message)) << '\n';
}

std::string_view AnnotationLevel(Severity severity) {
  switch (severity) {
    case Severity::kError:
    case Severity::kNotYet:
      return "error";
    case Severity::kWarning:
      return "warning";
    case Severity::kNote:
      return "notice";
  }
  return "error";
}

void PrintAnnotation(const Diagnostic& diagnostic) {
  std::string properties = "file=" + EscapeProperty(diagnostic.file);
  // A diagnostic without a line concerns the whole file, or --set.
  if (diagnostic.line > 0) {
    properties += ",line=" + std::to_string(diagnostic.line) +
                  ",col=" + std::to_string(diagnostic.column);
  }
  const std::string key = diagnostic.key.empty() ? "" : diagnostic.key + ": ";
  PrintAnnotation(AnnotationLevel(diagnostic.severity), properties,
                  key + diagnostic.message);
}

// Adds Markdown to the summary of the step, where there is one.
void AppendStepSummary(const std::string& markdown) {
  const char* path = std::getenv("GITHUB_STEP_SUMMARY");
  if (path == nullptr || *path == '\0') return;
  std::ofstream file(path, std::ios::app);
  file << markdown << '\n';
  file.flush();
  if (file) return;
  std::cerr << "dtrain: warning: GITHUB_STEP_SUMMARY: cannot write to '"
            << EscapeForTerminal(path) << "'\n";
}

// `text` as one line of Markdown code; no character of it is markup.
std::string Code(const std::string& text) {
  std::string line = EscapeForTerminal(text);
  std::ranges::replace(line, '`', '\'');
  std::ranges::replace(line, '|', '/');
  return line.empty() ? "-" : "`" + line + "`";
}

// GitHub takes 1 MiB of a step; failures are annotated anyway.
constexpr std::size_t kMaxSummaryRows = 200;

std::string FormatSummary(const CiSuite& suite, const ExperimentRow& row,
                          const Units& units) {
  std::string text = "### dtrain: experiment " + std::to_string(row.id) + " " +
                     Code(row.name) + " is " +
                     std::string(StateName(row.state)) + "\n\n";
  if (!row.error.empty()) text += Code(row.error) + "\n\n";
  if (row.best) {
    text += "Best: trial " + ToString(TrialId{row.id, row.best_trial}) + ", " +
            Code(row.metric + " " + FormatBest(row.best, units)) + "\n\n";
  }
  text += "| | |\n|---|---|\n";
  for (std::size_t i = 0; i < suite.cases.size(); ++i) {
    if (i == kMaxSummaryRows) {
      text += "| and " + std::to_string(suite.cases.size() - i) + " more | |\n";
      break;
    }
    const CiCase& test = suite.cases[i];
    const bool failed = test.outcome == Outcome::kFailed;
    text += "| " + Code(test.name) + " | " + (failed ? "**failed** " : "") +
            Code(test.message) + " |\n";
  }
  return text;
}

void Annotate(const CiSuite& suite, const ExperimentRow& row,
              const Units& units) {
  for (const CiCase& test : suite.cases) {
    if (test.outcome != Outcome::kFailed) continue;
    PrintAnnotation(
        "error",
        "title=" + EscapeProperty("experiment " + std::to_string(row.id) +
                                  " '" + row.name + "'"),
        test.name + ": " + test.message);
  }
  AppendStepSummary(FormatSummary(suite, row, units));
}

std::string FindingList(const Diagnostics& diagnostics) {
  std::string list;
  for (const Diagnostic& diagnostic : diagnostics) {
    list += "- " + Code(diagnostic.ToString()) + "\n";
  }
  return list;
}

// `error` is the reason for a refusal, or empty.
CiSuite ConfigurationSuite(const std::string& name,
                           const Diagnostics& diagnostics,
                           const std::string& error) {
  CiCase test{.name = "configuration",
              .class_name = name,
              .outcome = error.empty() ? Outcome::kPassed : Outcome::kError,
              .message = error};
  for (const Diagnostic& diagnostic : diagnostics) {
    test.output += diagnostic.ToString() + "\n";
  }
  return {.name = name,
          .host = HostName(),
          .time = Clock::System().now(),
          .cases = {std::move(test)}};
}

}  // namespace

void AddCiFlags(CLI::App& app, CiFlags& flags,
                std::optional<CliOption> detach) {
  for (std::size_t i = 0; i < flags.files.size(); ++i) {
    const CiFormat& format = CiFormats()[i];
    const CliOption file =
        AddOption(app, format.option, flags.files[i], format.help);
    file.TypeName("FILE").IsPath();
    if (detach) file.Excludes(*detach);
  }
  const CliOption annotate =
      AddOption(app, "--annotate", flags.annotate,
                "Annotate findings and failures for a CI service, and write "
                "its step summary: github");
  annotate.TypeName("SERVICE").OneOf({"github"});
  if (detach) annotate.Excludes(*detach);
}

void CheckCiFlags(const CiFlags& flags) {
  CiFlags regular = flags;
  for (std::size_t i = 0; i < flags.files.size(); ++i) {
    const std::string& path = flags.files[i];
    if (path.empty()) continue;
    const UniqueFd file(
        open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
    if (!file) {
      throw Error(ErrorKind::kUsage,
                  std::string(CiFormats()[i].option) + ": cannot write '" +
                      path + "': " + ErrnoText() +
                      "; choose a file in a writable directory");
    }
    struct stat about {};
    const bool is_file =
        fstat(file.get(), &about) == 0 && S_ISREG(about.st_mode);
    if (!is_file) regular.files[i].clear();
  }
  if (!regular.has_file()) return;
  // A killed process must leave neither an empty report nor the one of an
  // earlier call.
  const CiSuite suite = ConfigurationSuite(
      "dtrain", {}, "no result: dtrain is still running or was killed");
  WriteFiles(regular, std::span(&suite, 1), "nothing was created");
}

void WriteCiReport(const CiFlags& flags, const Store& store,
                   std::span<const CheckedExperiment> experiments) {
  if (!flags.has_file() && flags.annotate.empty()) return;
  std::vector<CiSuite> suites;
  for (const CheckedExperiment& experiment : experiments) {
    const Units units = FindUnits(store, experiment.row.id);
    suites.push_back(
        MakeSuite(store, experiment.row, experiment.checks, units));
    if (!flags.annotate.empty()) {
      Annotate(suites.back(), experiment.row, units);
    }
  }
  WriteFiles(flags, suites, "the experiment itself is recorded");
}

void AnnotateFindings(const CiFlags& flags, const Diagnostics& diagnostics) {
  if (flags.annotate.empty()) return;
  for (const Diagnostic& diagnostic : diagnostics) PrintAnnotation(diagnostic);
}

void WriteCiRefusal(const CiFlags& flags, const std::string& name,
                    const Diagnostics& diagnostics, const Error& error) {
  const CiSuite suite = ConfigurationSuite(name, diagnostics, error.what());
  WriteFiles(flags, std::span(&suite, 1), "nothing was created");
  if (flags.annotate.empty()) return;
  const bool told = std::ranges::any_of(diagnostics, [](const Diagnostic& d) {
    return AnnotationLevel(d.severity) == "error";
  });
  if (!told) {
    std::error_code ignored;
    const bool is_file = std::filesystem::exists(name, ignored);
    PrintAnnotation("error", is_file ? "file=" + EscapeProperty(name) : "",
                    error.what());
  }
  AppendStepSummary("### dtrain: error: " + Code(name) + "\n\n" +
                    Code(error.what()) + "\n\n" + FindingList(diagnostics));
}

void WriteCiAcceptance(const CiFlags& flags, const std::string& name,
                       const Diagnostics& diagnostics) {
  const CiSuite suite = ConfigurationSuite(name, diagnostics, "");
  WriteFiles(flags, std::span(&suite, 1), "nothing was created");
  if (flags.annotate.empty()) return;
  AppendStepSummary("### dtrain: " + Code(name) + " is valid\n\n" +
                    FindingList(diagnostics));
}

}  // namespace dtrain
