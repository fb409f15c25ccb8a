// `dtrain report`: experiments as one HTML file, or as Markdown.
//
// The page has all data and scripts in itself and makes no request
// (engine/page). Metric rows are thinned to a limit of the whole page, of which
// experiments with few rows keep all of theirs and the others share the rest
// (RowsPerExperiment). Below <noscript> stand the best trials and two SVG
// figures, drawn here, for readers without JavaScript.
//
// With --redact every text goes through Redact, also those that are used
// outside of the data: names, metrics and hyperparameters in titles and
// figures. Whoever adds a text here must redact it.

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/selection.h"
#include "engine/app/build_info.h"
#include "engine/app/experiment_data.h"
#include "engine/app/plot_data.h"
#include "engine/app/stores.h"
#include "engine/app/trial_fields.h"
#include "engine/app/trial_values.h"
#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/base/text.h"
#include "engine/page/bundle.h"
#include "engine/page/markdown_report.h"
#include "engine/page/redaction.h"
#include "engine/page/report_page.h"
#include "engine/report/format.h"

namespace dtrain {
namespace {

constexpr std::size_t kMaxExperiments = 50;
constexpr std::size_t kNoscriptTrials = 20;
constexpr std::size_t kNoscriptHparams = 12;
constexpr std::size_t kNoscriptText = 60;          // columns of a name or value
constexpr std::size_t kNoscriptSvgBytes = 60'000;  // of each figure

struct ReportOptions {
  std::vector<std::string> experiments;
  std::string html;
  std::string filter;
  bool markdown = false;
  bool redact = false;
  bool force = false;
};

struct Subject {
  ExperimentDetail detail;
  std::vector<TrialRow> ranked;  // the best first, those without a value last
  std::string metric;            // its name as shown
};

// Redacts the name and the hyperparameters, which stand outside the data, too.
void RedactTexts(Subject& subject) {
  nlohmann::json texts = {{"provenance", subject.detail.provenance},
                          {"name", subject.detail.row.name},
                          {"metric", subject.metric},
                          {"hparams", nlohmann::json::array()}};
  for (const TrialRow& trial : subject.ranked) {
    texts["hparams"].push_back(trial.hparams);
  }
  Redact(texts);
  subject.detail.row.name = texts["name"].get<std::string>();
  subject.metric = texts["metric"].get<std::string>();
  for (std::size_t i = 0; i < subject.ranked.size(); ++i) {
    subject.ranked[i].hparams = std::move(texts["hparams"][i]);
  }
}

std::vector<Subject> ReadSubjects(const Store& store,
                                  const std::vector<std::int64_t>& ids,
                                  const TrialSelection& selection,
                                  bool redact) {
  std::vector<Subject> subjects;
  for (const std::int64_t id : ids) {
    Subject subject{.detail = FindExperimentDetail(store, id)};
    subject.ranked = ListTrials(store, subject.detail.row);
    selection.Keep(subject.ranked);
    selection.SetBest(subject.ranked, subject.detail);
    std::map<std::int64_t, double> bests;
    for (const TrialRow& trial : subject.ranked) {
      if (trial.best) bests[trial.id.number] = trial.best->value;
    }
    SortByPoint(subject.detail, bests, subject.ranked);
    subject.metric = subject.detail.row.metric;
    if (redact) RedactTexts(subject);
    subjects.push_back(std::move(subject));
  }
  return subjects;
}

// Gives the experiments the names that the report shows.
void NameSubjects(const std::vector<Subject>& subjects, PlotData& data) {
  data.metrics.front().name = subjects.front().metric;
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    data.searches[i].name = subjects[i].detail.row.name;
  }
}

Figure MakeHistoryFigure(const Store& store,
                         const std::vector<Subject>& subjects,
                         const std::vector<std::int64_t>& ids,
                         const TrialSelection& selection) {
  const ValuePlace best{.kind = ValuePlace::Kind::kBest};
  std::vector<std::string> notes;
  PlotData data = ReadPlotData(store,
                               {.experiments = ids,
                                .place = best,
                                .validations = true,
                                .selection = selection},
                               notes);
  NameSubjects(subjects, data);
  LengthAxis axis = ChooseLengthAxis(store, ids, /*convert=*/true);
  Figure figure =
      HistoryFigure(data, axis.in_epochs ? Effort::kEpochs : Effort::kBatches,
                    axis.label + " of all trials together", {});
  if (!axis.note.empty()) figure.notes.push_back(std::move(axis.note));
  return figure;
}

Figure MakeCurvesFigure(const Store& store,
                        const std::vector<Subject>& subjects,
                        const std::vector<std::int64_t>& ids,
                        const TrialSelection& selection) {
  PlotData data = ReadRanks(store, ids, "", selection);
  NameSubjects(subjects, data);
  LengthAxis axis = ChooseLengthAxis(store, ids, /*convert=*/true);
  std::vector<TrialCurve> curves;
  for (const Subject& subject : subjects) {
    const ExperimentRow& row = subject.detail.row;
    auto own = ReadCurves(
        store, row.id, std::nullopt, {row.metric},
        axis.in_epochs ? CurveAxis::kEpochs : CurveAxis::kBatches, selection);
    for (TrialCurve& curve : own) curve.metric = subject.metric;
    std::ranges::move(own, std::back_inserter(curves));
  }
  Figure figure = CurvesFigure(
      data, std::move(curves),
      {.metrics = {subjects.front().metric}, .x_label = std::move(axis.label)},
      {});
  if (!axis.note.empty()) figure.notes.push_back(std::move(axis.note));
  return figure;
}

// Returns the history and the curves as SVG, or a sentence if no trial has a
// finite value.
std::string NoscriptFigures(const Store& store,
                            const std::vector<Subject>& subjects,
                            const TrialSelection& selection) {
  std::vector<std::int64_t> ids;
  for (const Subject& subject : subjects) ids.push_back(subject.detail.row.id);
  try {
    return DrawSvg(MakeHistoryFigure(store, subjects, ids, selection), {},
                   kNoscriptSvgBytes)
               .text +
           DrawSvg(MakeCurvesFigure(store, subjects, ids, selection), {},
                   kNoscriptSvgBytes)
               .text;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNotFound) throw;
    return "<p>There is no plot: no trial has a finite value of " +
           EscapeHtml(subjects.front().metric) + ".</p>\n";
  }
}

// "lr=0.01, optimizer=adam", cut where there is too much.
std::string HparamsText(const nlohmann::json& hparams,
                        const std::vector<std::string>& names) {
  const auto values = FlattenNames(hparams);
  std::vector<std::string> texts;
  for (const std::string& name : names) {
    const auto found = values.find(name);
    if (found == values.end()) continue;
    if (texts.size() == kNoscriptHparams) {
      texts.push_back("…");
      break;
    }
    texts.push_back(Truncate(ToValidUtf8(name), kNoscriptText) + "=" +
                    Truncate(FormatValue(found->second), kNoscriptText));
  }
  return Join(texts, ", ");
}

// The best trials and two plots, for browsers without JavaScript.
std::string NoscriptHtml(const Store& store,
                         const std::vector<Subject>& subjects,
                         const TrialSelection& selection) {
  std::string html =
      "<p>Without JavaScript this page shows the best trials and two plots. "
      "With it, it shows everything, and still makes no request.</p>\n" +
      NoscriptFigures(store, subjects, selection);
  for (const Subject& subject : subjects) {
    const ExperimentRow& row = subject.detail.row;
    html += "<h2>" + std::to_string(row.id) + " " + EscapeHtml(row.name) +
            "</h2>\n<table><tr><th>trial</th><th>" +
            EscapeHtml(subject.metric) + "</th><th>" +
            std::string(UnitName(CountedUnit(store, row.id))) +
            "</th><th>state</th><th>hyperparameters</th></tr>\n";
    const auto varying = VaryingNames(subject.ranked);
    const std::size_t shown = std::min(subject.ranked.size(), kNoscriptTrials);
    for (std::size_t i = 0; i < shown; ++i) {
      const TrialRow& trial = subject.ranked[i];
      html += "<tr><td>" + ToString(trial.id) + "</td><td>" +
              (trial.best ? FormatMetric(trial.best->value) : "-") +
              "</td><td>" + std::to_string(trial.batches) + "</td><td>" +
              std::string(StateName(trial.state)) + "</td><td>" +
              EscapeHtml(HparamsText(trial.hparams, varying)) + "</td></tr>\n";
    }
    html += "</table>\n<p>" + std::to_string(shown) + " of " +
            std::to_string(subject.ranked.size()) + " trials.</p>\n";
  }
  return html;
}

std::string MakeTitle(const std::vector<Subject>& subjects) {
  if (subjects.size() == 1) {
    const ExperimentRow& row = subjects[0].detail.row;
    return "dtrain: experiment " + std::to_string(row.id) + ", " + row.name;
  }
  std::vector<std::string> ids;
  for (const Subject& subject : subjects) {
    ids.push_back(std::to_string(subject.detail.row.id));
  }
  return "dtrain: experiments " + Join(ids, ", ");
}

// Returns how many rows of each experiment a page may have that has `total` at
// most: those of small ones whole, so that no curve is thinned without need.
std::size_t RowsPerExperiment(const Store& store,
                              const std::vector<Subject>& subjects,
                              std::size_t total) {
  if (subjects.size() == 1) return total;
  std::vector<std::size_t> counts;
  for (const Subject& subject : subjects) {
    counts.push_back(0);
    store.ForEachMetric({.experiment = subject.detail.row.id},
                        [&](const MetricRow&) { ++counts.back(); });
  }
  std::ranges::sort(counts);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const std::size_t share = total / (counts.size() - i);
    if (counts[i] > share) return share;
    total -= counts[i];
  }
  return counts.back();
}

// The rows that an experiment's data has, and those that were recorded.
struct RowCounts {
  std::size_t kept = 0;
  std::size_t recorded = 0;

  std::string Text() const {
    if (kept == recorded) return std::to_string(kept) + " metric values";
    return std::to_string(recorded) + " metric values thinned to " +
           std::to_string(kept);
  }
};

std::string MakePage(const Store& store, const std::vector<Subject>& subjects,
                     const TrialSelection& selection,
                     const ReportOptions& options, RowCounts& rows) {
  Bundle bundle;
  nlohmann::json experiments = nlohmann::json::array();
  const std::size_t max_rows =
      RowsPerExperiment(store, subjects, PageOptions{}.max_rows);
  for (const Subject& subject : subjects) {
    experiments.push_back(ExperimentData(store, subject.detail,
                                         {.redact = options.redact,
                                          .max_rows = max_rows,
                                          .selection = selection},
                                         bundle));
    const nlohmann::json& metrics = experiments.back().at("metrics");
    rows.kept += metrics.at("kept").get<std::size_t>();
    rows.recorded += metrics.at("rows").get<std::size_t>();
  }
  const std::string now = FormatTime(std::chrono::duration_cast<Timestamp>(
      std::chrono::system_clock::now().time_since_epoch()));
  return ReportHtml(
      {.title = MakeTitle(subjects),
       .noscript = NoscriptHtml(store, subjects, selection),
       .footer = "Written by dtrain " + std::string(kVersion) + ", " + now +
                 (options.redact ? ", redacted" : "")},
      bundle.Finish({{"version", 1},
                     {"dtrain", kVersion},
                     {"redacted", options.redact},
                     {"fields", TrialColumnsJson()},
                     {"experiments", std::move(experiments)}}));
}

void RequirePage() {
  if (HasPage()) return;
  throw Error(ErrorKind::kResources,
              "this dtrain was built without the page; install node-d3 and "
              "build again, or use --md");
}

void WriteHtml(const Store& store, const std::vector<Subject>& subjects,
               const TrialSelection& selection, const ReportOptions& options,
               const GlobalOptions& globals) {
  RowCounts rows;
  if (options.html == "-") {
    std::cout << MakePage(store, subjects, selection, options, rows);
    return;
  }
  NewFile file(options.html, options.force, "--html");  // refuses at once
  const std::string html = MakePage(store, subjects, selection, options, rows);
  file.Write(std::as_bytes(std::span(html)));
  file.Keep();
  PrintNotice(globals, "wrote " + options.html + ": " +
                           FormatBytes(static_cast<std::int64_t>(html.size())) +
                           ", " + rows.Text() + "; open it in a browser");
}

void WriteMarkdown(const Store& store, std::vector<Subject> subjects,
                   const TrialSelection& selection,
                   const ReportOptions& options) {
  std::vector<MarkdownSubject> all;
  for (Subject& subject : subjects) {
    all.push_back({.data = ExperimentSummary(
                       store, subject.detail,
                       {.redact = options.redact, .selection = selection}),
                   .ranked = std::move(subject.ranked)});
  }
  std::cout << MarkdownReport(all);
}

// Throws if stdout cannot take the page.
void CheckStdout(const ReportOptions& options) {
  if (options.html != "-") return;
  if (options.markdown) {
    throw Error(ErrorKind::kUsage,
                "--html - and --md both write to stdout; give --html a file");
  }
  if (StdoutIsTerminal()) {
    throw Error(ErrorKind::kUsage,
                "--html -: stdout is a terminal; redirect it, or name a file");
  }
}

int Report(const ReportOptions& options, const GlobalOptions& globals) {
  if (options.html.empty() && !options.markdown) {
    throw Error(ErrorKind::kUsage,
                "expected --html FILE for a page, or --md for Markdown");
  }
  if (!options.html.empty()) RequirePage();
  CheckStdout(options);
  const Store store = OpenStore(globals);
  const auto ids = ResolveExperiments(store, options.experiments);
  if (ids.size() > kMaxExperiments) {
    throw Error(ErrorKind::kUsage,
                "at most " + std::to_string(kMaxExperiments) +
                    " experiments fit into one report, got " +
                    std::to_string(ids.size()));
  }
  std::vector<Target> targets;
  for (const std::int64_t id : ids) targets.push_back({.experiment = id});
  const TrialSelection selection(store, targets, options.filter,
                                 Clock::System().now());
  PrintNotes(selection, globals);
  std::vector<Subject> subjects =
      ReadSubjects(store, ids, selection, options.redact);
  if (!options.html.empty()) {
    WriteHtml(store, subjects, selection, options, globals);
  }
  if (options.markdown) {
    WriteMarkdown(store, std::move(subjects), selection, options);
  }
  return kExitDone;
}

}  // namespace

CommandRun SetUpReport(CLI::App& app) {
  auto options = std::make_shared<ReportOptions>();
  AddOption(app, "EXP", options->experiments, "Experiments").Required();
  AddOption(app, "--html", options->html,
            "Write a page with all metrics and plots, one file without "
            "requests (-: stdout)")
      .TypeName("FILE")
      .IsPath();
  AddFlag(app, "--md", options->markdown,
          "Print a summary in Markdown, for a CI job: the record, the 20 best "
          "trials, importance");
  AddTrialFilter(app, options->filter);
  AddFlag(
      app, "--redact", options->redact,
      "Leave out host, user, paths, environment variables, logs and command "
      "lines");
  AddFlag(app, "--force", options->force, "Replace an existing file");
  SetHelp(app,
          {.exits = ReaderExits(),
           .examples = {
               {"Write a page of two experiments, to send to others",
                "dtrain report 3 4 --html report.html"},
               {"Add a summary to a CI job's page", "dtrain report 3 --md"}}});
  return RunWith(Report, options);
}

}  // namespace dtrain
