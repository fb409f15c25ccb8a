// The values come from the document of the HTML page
// (engine/app/experiment_data.h), so that both reports agree. A cell is
// shortened before it is escaped, since an escape must not be cut in two. A
// report that would exceed the limit ends before an experiment, never within
// one.

#include "engine/page/markdown_report.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "engine/base/json.h"
#include "engine/base/text.h"
#include "engine/report/format.h"
#include "engine/store/rows.h"

namespace dtrain {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxBytes = 900'000;
constexpr std::size_t kMaxTrials = 20;
constexpr std::size_t kMaxHparams = 12;  // columns
constexpr std::size_t kMaxCell = 200;    // bytes

void AddRow(std::string& text, const std::vector<std::string>& cells) {
  text += '|';
  for (const std::string& cell : cells) {
    text += ' ' + MarkdownCell(Truncate(cell, kMaxCell)) + " |";
  }
  text += '\n';
}

void AddHead(std::string& text, const std::vector<std::string>& names) {
  AddRow(text, names);
  text += '|';
  for (std::size_t i = 0; i < names.size(); ++i) text += "---|";
  text += '\n';
}

std::string BestText(const json& best) {
  if (best.is_null()) return "none";
  std::string text = FormatMetric(NumberFromJson(best.at("value"))) +
                     " in trial " + best.at("trial").get<std::string>() +
                     " at " + best.at("at").get<std::string>();
  if (!best.at("checkpoint").is_string()) return text + ", without checkpoint";
  return text + ", checkpoint " + best.at("checkpoint").get<std::string>();
}

std::string StatesText(const std::vector<TrialRow>& trials) {
  std::map<std::string, std::size_t> states;
  for (const TrialRow& trial : trials) {
    ++states[std::string(StateName(trial.state))];
  }
  std::vector<std::string> texts;
  for (const auto& [name, count] : states) {
    texts.push_back(std::to_string(count) + " " + name);
  }
  return texts.empty() ? "none" : Join(texts, ", ");
}

void AddTrials(std::string& text, const std::vector<TrialRow>& ranked,
               const std::string& metric, const std::string& unit) {
  std::vector<std::string> varying = VaryingNames(ranked);
  const std::size_t all_names = varying.size();
  if (varying.size() > kMaxHparams) varying.resize(kMaxHparams);
  std::vector<std::string> head = {"trial", metric, unit, "state"};
  head.insert(head.end(), varying.begin(), varying.end());
  text += "\n";
  AddHead(text, head);
  const std::size_t shown = std::min(ranked.size(), kMaxTrials);
  for (std::size_t i = 0; i < shown; ++i) {
    const TrialRow& trial = ranked[i];
    std::string name = ToString(trial.id);
    if (trial.point > 0) name += " (point " + std::to_string(trial.point) + ")";
    std::vector<std::string> cells = {
        std::move(name), trial.best ? FormatMetric(trial.best->value) : "-",
        std::to_string(trial.batches), std::string(StateName(trial.state))};
    const auto values = FlattenNames(trial.hparams);
    for (const std::string& name : varying) {
      const auto found = values.find(name);
      cells.push_back(found == values.end() ? "-" : FormatValue(found->second));
    }
    AddRow(text, cells);
  }
  if (shown < ranked.size()) {
    text += "\n" + std::to_string(shown) + " of " +
            std::to_string(ranked.size()) + " trials.\n";
  }
  if (varying.size() < all_names) {
    text += "\n" + std::to_string(varying.size()) + " of " +
            std::to_string(all_names) + " hyperparameters.\n";
  }
}

void AddImportance(std::string& text, const json& importance) {
  if (!importance.contains("items")) return;
  text += "\nImportance for being among the best " +
          std::to_string(importance.at("best").get<std::size_t>()) + " of " +
          std::to_string(importance.at("trials").get<std::size_t>()) +
          " trials " + importance.at("place").get<std::string>() + ":\n\n";
  AddHead(text, {"hyperparameter", "importance", "rank correlation"});
  std::size_t left = kMaxTrials;
  for (const json& one : importance.at("items")) {
    if (left-- == 0) break;
    const json& correlation = one.at("correlation");
    AddRow(text,
           {one.at("name").get<std::string>(),
            FormatFixed(one.at("share").get<double>() * 100, 1) + " %",
            correlation.is_null() ? "-"
                                  : FormatFixed(correlation.get<double>(), 2)});
  }
}

void AddConfirmed(std::string& text, const json& confirmed) {
  if (confirmed.empty()) return;
  text += "\nThe best trials of another experiment, trained again:\n\n";
  AddHead(text, {"trial", "reported", "mean", "standard error", "n"});
  for (const json& row : confirmed) {
    const auto number = [&](const char* name) {
      return FormatMetric(NumberFromJson(row.at(name)));
    };
    AddRow(text,
           {row.at("trial").get<std::string>(), number("reported"),
            number("mean"), number("standard_error"), row.at("n").dump()});
  }
}

std::string OneReport(const MarkdownSubject& subject) {
  const json& data = subject.data;
  const auto text_of = [&](const char* field) {
    return data.at(field).get<std::string>();
  };
  std::string text = "## Experiment " +
                     std::to_string(data.at("id").get<std::int64_t>()) + ": " +
                     MarkdownCell(Truncate(text_of("name"), kMaxCell)) + "\n\n";
  const std::string direction =
      data.at("smaller_is_better").get<bool>() ? "smallest" : "largest";
  AddHead(text, {"", ""});
  const std::string error = text_of("error");
  AddRow(text,
         {"state", text_of("state") + (error.empty() ? "" : ": ") + error});
  AddRow(text, {"searcher", text_of("searcher")});
  AddRow(text, {"metric", text_of("metric") + " (" + direction + ")"});
  AddRow(text, {"best", BestText(data.at("best"))});
  AddRow(text, {"trials", StatesText(subject.ranked)});
  const json& filter = data.at("filter");
  if (!filter.is_null()) {
    AddRow(text, {"filter", filter.at("matching").dump() + " of " +
                                filter.at("trials").dump() + " trials match " +
                                filter.at("expression").get<std::string>() +
                                "; the others are left out"});
  }
  AddRow(text, {"time", FormatSeconds(data.at("seconds").get<double>())});
  if (!text_of("note").empty()) AddRow(text, {"note", text_of("note")});
  if (!subject.ranked.empty()) {
    AddTrials(text, subject.ranked, text_of("metric"), text_of("unit"));
  }
  AddConfirmed(text, data.at("confirmed"));
  AddImportance(text, data.at("importance"));
  return text;
}

}  // namespace

std::vector<std::string> VaryingNames(const std::vector<TrialRow>& trials) {
  std::map<std::string, json> first;
  std::vector<std::string> names;
  for (const TrialRow& trial : trials) {
    for (const auto& [name, value] : FlattenNames(trial.hparams)) {
      const auto [found, is_new] = first.emplace(name, value);
      if (is_new || found->second == value) continue;
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  }
  std::ranges::sort(names);
  return names;
}

std::string MarkdownCell(const std::string& text) {
  std::string escaped;
  for (const char c : EscapeForTerminal(text)) {
    if (std::string_view("|\\<`*_[]~").find(c) != std::string_view::npos) {
      escaped += '\\';
    }
    escaped += c;
  }
  return escaped;
}

std::string MarkdownReport(const std::vector<MarkdownSubject>& subjects) {
  std::string text;
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    const std::string one = OneReport(subjects[i]);
    if (text.size() + one.size() > kMaxBytes) {
      text += "\n" + std::to_string(i) + " of " +
              std::to_string(subjects.size()) + " experiments.\n";
      break;
    }
    text += (i == 0 ? "" : "\n") + one;
  }
  return text;
}

}  // namespace dtrain
