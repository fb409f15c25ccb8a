// Results of other programs, read from their files and recorded as an
// experiment that has ended.
//
// Everything is read and checked before the store is opened, and recorded in
// one transaction: a file with a fault, and a crash, leave no trace. Symbolic
// links within directories are not followed, and the number of files and bytes
// is limited.

#include "engine/app/import_results.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "engine/app/config_file.h"
#include "engine/app/stores.h"
#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/base/python_json.h"
#include "engine/base/rounding.h"
#include "engine/base/text.h"
#include "engine/base/tfevents.h"
#include "engine/config/hyperparameters.h"
#include "engine/config/node.h"
#include "engine/config/read_config.h"
#include "engine/config/schema.h"
#include "engine/config/yaml_reader.h"
#include "engine/os/files.h"
#include "engine/os/sha256.h"
#include "engine/os/system_error.h"
#include "engine/store/optuna_database.h"
#include "engine/store/store.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kMaxImportBytes = std::size_t{512} << 20;
constexpr std::size_t kMaxSmallBytes = std::size_t{16} << 20;
constexpr std::size_t kMaxImportFiles = 100'000;
constexpr std::string_view kOptunaPrefix = "optuna:";
constexpr std::string_view kSqliteAddress = "sqlite:///";
constexpr std::string_view kSqliteMagic("SQLite format 3\0", 16);

[[noreturn]] void RefuseImport(const fs::path& file, const std::string& what) {
  throw Error(ErrorKind::kUsage,
              file.string() + ": " + what + "; nothing was imported");
}

// Reads the results of a source.
class ImportReader {
 public:
  explicit ImportReader(const ResultImport& options) : options_(options) {}

  ImportedExperiment Read();

 private:
  std::string ReadText(const fs::path& file, std::size_t most);
  void ReadFileSource(const fs::path& file);
  void ReadDirectory(const fs::path& directory);
  void ReadTable(const fs::path& file, std::string text, bool json_lines);
  void ReadValues(const fs::path& file);
  void ReadOptuna(const fs::path& file);
  void ReadEvents(const fs::path& root, const std::vector<fs::path>& files);
  void ReadWandb(const fs::path& root, const std::vector<fs::path>& runs);
  void ReadWandbRun(const fs::path& run, const std::string& id);

  const ResultImport& options_;
  ImportedResults results_;
  std::string format_;
  std::string study_;                                        // of Optuna
  std::vector<std::pair<std::string, std::string>> hashes_;  // path, SHA-256
};

// Returns the contents of a regular file, and notes its hash.
std::string ImportReader::ReadText(const fs::path& file, std::size_t most) {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) {
    RefuseImport(file, "is not a regular file; give a file of results");
  }
  auto text = ReadFile(file, most + 1);
  if (!text) {
    RefuseImport(file,
                 "cannot be read: " + ErrnoText(errno) + "; make it readable");
  }
  if (text->size() > most) {
    RefuseImport(file, "is larger than " +
                           FormatBytes(static_cast<std::int64_t>(most)) +
                           "; import a part of it");
  }
  hashes_.emplace_back(file.string(),
                       ComputeSha256(std::as_bytes(std::span(*text))));
  return *std::move(text);
}

void ImportReader::ReadTable(const fs::path& file, std::string text,
                             bool json_lines) {
  format_ = json_lines ? "jsonl" : "csv";
  results_ = ReadTrialTable(
      {.file = file.string(), .text = text, .json_lines = json_lines},
      {.metric = options_.metric, .hparams = options_.hparams});
}

void ImportReader::ReadValues(const fs::path& file) {
  const std::string text = ReadText(file, kMaxImportBytes);
  ReadValueTable({.file = file.string(),
                  .text = text,
                  .json_lines = text.starts_with('{')},
                 results_);
}

// Returns the file of values that `dtrain export` writes beside the trials.
std::optional<fs::path> FindExportedValues(const fs::path& trials) {
  if (trials.stem() != "trials") return std::nullopt;
  const fs::path values =
      trials.parent_path() / ("metrics" + trials.extension().string());
  std::error_code error;
  if (!fs::exists(values, error)) return std::nullopt;
  return values;
}

void ImportReader::ReadFileSource(const fs::path& file) {
  const std::string extension = file.extension().string();
  if (extension == ".wandb") {
    RefuseImport(file,
                 "is W&B's own binary format, which dtrain does not read; "
                 "export a CSV from the table of runs, or give the directory "
                 "'wandb'");
  }
  if (file.filename().string().find(".tfevents.") != std::string::npos) {
    RefuseImport(file,
                 "is an event file of TensorBoard; give the directory that "
                 "has a run a subdirectory");
  }
  const auto start = ReadFile(file, kSqliteMagic.size());
  if (start && *start == kSqliteMagic) return ReadOptuna(file);
  std::string text = ReadText(file, kMaxImportBytes);
  const std::size_t first = text.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  const char sign = first == text.npos ? ' ' : text[first];
  if (sign == '[') {
    RefuseImport(file,
                 "is one JSON list; write one object a line (JSON lines)");
  }
  ReadTable(file, std::move(text), sign == '{');
  const bool has_values = std::ranges::any_of(
      results_.trials,
      [](const ImportedTrial& trial) { return !trial.values.empty(); });
  if (!options_.values.empty()) {
    ReadValues(options_.values);
  } else if (const auto values = FindExportedValues(file);
             values && !has_values) {
    ReadValues(*values);
    results_.notes.push_back("values are those of " + values->string());
  } else if (!has_values && file.stem() == "trials") {
    RefuseImport(file,
                 "has no values of metrics; give the file 'metrics' of the "
                 "export with --values");
  }
}

void ImportReader::ReadDirectory(const fs::path& directory) {
  for (const char* name : {"trials.csv", "trials.jsonl"}) {
    std::error_code error;
    if (fs::exists(directory / name, error)) {
      return ReadFileSource(directory / name);
    }
  }
  std::vector<fs::path> events, runs;
  std::error_code error;
  std::size_t entries = 0;
  const auto is_run = [](const fs::path& path) {
    std::error_code ignored;
    return fs::exists(path / "files" / "wandb-summary.json", ignored) ||
           fs::exists(path / "files" / "config.yaml", ignored);
  };
  const bool is_one_run = is_run(directory);
  if (is_one_run) runs.push_back(directory);
  bool has_binary = false;
  for (auto at = fs::recursive_directory_iterator(directory, error);
       !error && at != fs::recursive_directory_iterator();
       at.increment(error)) {
    if (++entries > kMaxImportFiles) {
      RefuseImport(directory,
                   "has more than 100,000 files; give one that "
                   "has only runs");
    }
    if (at.depth() >= 4) at.disable_recursion_pending();
    if (at->is_symlink(error)) continue;
    const fs::path& path = at->path();
    const std::string name = path.filename().string();
    has_binary = has_binary || path.extension() == ".wandb";
    if (name.find(".tfevents.") != std::string::npos) events.push_back(path);
    const bool is_another = !is_one_run && at->is_directory(error);
    if (is_another && is_run(path)) runs.push_back(path);
  }
  if (error) {
    RefuseImport(directory,
                 "cannot be read: " + error.message() + "; make it readable");
  }
  std::ranges::sort(events);
  std::ranges::sort(runs);
  if (!runs.empty()) return ReadWandb(directory, runs);
  if (!events.empty()) return ReadEvents(directory, events);
  RefuseImport(
      directory,
      has_binary
          ? "has only W&B's binary files (.wandb), which dtrain does not "
            "read; export a CSV from the table of runs"
          : "is a directory without results; give a CSV or JSON lines, or a "
            "directory of 'dtrain export', W&B or event files of TensorBoard");
}

// --- Optuna ---

// Returns a distribution of Optuna, a JSON text, as a range of dtrain; null for
// one that is unknown or no range of numbers that dtrain has.
json ConvertDistribution(const std::string& text) {
  const json distribution = json::parse(text, nullptr, false);
  if (!distribution.is_object() || NestsDeeperThan(distribution, 8)) {
    return nullptr;
  }
  const json name = distribution.value("name", json());
  if (!name.is_string()) return nullptr;
  const json attributes = distribution.value("attributes", json());
  if (!attributes.is_object()) return nullptr;
  if (name == "CategoricalDistribution") {
    const json choices = attributes.value("choices", json::array());
    if (!choices.is_array() || choices.empty()) return nullptr;
    if (choices.size() == 1) return {{"type", "const"}, {"val", choices[0]}};
    return {{"type", "categorical"}, {"vals", choices}};
  }
  const json low = attributes.value("low", json());
  const json high = attributes.value("high", json());
  if (!low.is_number() || !high.is_number()) return nullptr;
  const bool is_int = name.get_ref<const std::string&>().starts_with("Int");
  if (low == high) return {{"type", "const"}, {"val", low}};
  json range = {
      {"type", is_int ? "int" : "double"}, {"minval", low}, {"maxval", high}};
  const bool is_log = attributes.contains("log")
                          ? attributes["log"] == true
                          : name == "LogUniformDistribution" ||
                                name == "IntLogUniformDistribution";
  if (is_log) range["log"] = true;
  const json step = attributes.contains("q") ? attributes["q"]
                                             : attributes.value("step", json());
  if (!is_log && step.is_number() && step > 0 && !(is_int && step == 1)) {
    range["step"] = step;
  }
  return range;
}

// Returns the first fault of a range, or "".
std::string FindFault(const json& range) {
  Findings findings("", {});
  ReadHyperparameters(NodeFromJson({{"x", range}}), findings);
  for (const Diagnostic& finding : findings.Release()) {
    if (finding.severity == Severity::kError) return finding.message;
  }
  return "";
}

// Widens a range to another one of the same hyperparameter. False if they are
// of different kinds.
bool WidenRange(const json& more, json& range) {
  if (more == range) return true;
  const bool are_ranges =
      range.contains("minval") && more.contains("minval") &&
      range["type"] == more["type"] &&
      range.value("log", false) == more.value("log", false) &&
      range.value("step", json()) == more.value("step", json());
  if (!are_ranges) return false;
  range["minval"] = std::min(range["minval"], more["minval"]);
  range["maxval"] = std::max(range["maxval"], more["maxval"]);
  return true;
}

void ImportReader::ReadOptuna(const fs::path& file) {
  format_ = "optuna";
  const OptunaStudy study = ReadOptunaStudy(file, options_.study);
  hashes_.emplace_back(file.string(), Sha256OfFile(file));
  results_.file = file.string();
  study_ = study.name;
  std::vector<std::string> metrics = study.metric_names;
  const std::size_t objectives = study.directions.size();
  for (std::size_t i = 0; metrics.size() < objectives; ++i) {
    metrics.push_back(objectives == 1 ? "value"
                                      : "values_" + std::to_string(i));
  }
  std::size_t objective = 0;
  if (objectives == 1 && !options_.metric.empty()) {
    metrics[0] = options_.metric;  // the study has no name for it
  } else if (objectives > 1) {
    const auto found = std::ranges::find(metrics, options_.metric);
    if (found == metrics.end()) {
      RefuseImport(file, options_.metric.empty()
                             ? "study '" + study.name + "' has " +
                                   std::to_string(objectives) +
                                   " objectives; choose the one that decides "
                                   "with --metric: " +
                                   Join(metrics, ", ")
                             : "--metric: study '" + study.name +
                                   "' has no objective '" + options_.metric +
                                   "'; it has " + Join(metrics, ", "));
    }
    objective = static_cast<std::size_t>(found - metrics.begin());
  }
  results_.metric = metrics[objective];
  if (study.directions[objective] != "NOT_SET") {
    results_.smaller_is_better = study.directions[objective] == "MINIMIZE";
  }
  std::map<std::string, json> distributions;  // as ranges, by their text
  std::set<std::string> inferred;
  for (const OptunaTrial& from : study.trials) {
    const std::string where = "trial " + std::to_string(from.number);
    ImportedTrial trial{.id = std::to_string(from.number)};
    const auto state = ParseTrialState(from.state);
    if (!state) {
      RefuseImport(
          file, where + ": unknown state '" + from.state + "'; export a CSV");
    }
    trial.state = *state;
    // Times of Optuna have no zone; they are taken as they are written.
    if (!from.started.empty()) trial.started = ParseTimestamp(from.started);
    if (!from.ended.empty()) trial.ended = ParseTimestamp(from.ended);
    for (const OptunaTrial::Parameter& parameter : from.parameters) {
      const std::string name = parameter.name;
      const auto refuse = [&](const std::string& what) {
        RefuseImport(file, where + ": parameter '" + name + "' " + what);
      };
      const auto [known, is_new] =
          distributions.try_emplace(parameter.distribution);
      if (is_new) known->second = ConvertDistribution(parameter.distribution);
      const json& range = known->second;
      if (range.is_null() || !std::isfinite(parameter.value)) {
        refuse("has an unknown distribution or value; export a CSV");
      }
      if (const std::string fault = is_new ? FindFault(range) : "";
          !fault.empty()) {
        refuse("has a distribution that is not supported: " + fault +
               "; export a CSV");
      }
      json value = parameter.value;
      if (range["type"] == "const") {
        value = range["val"];
      } else if (range["type"] == "categorical") {
        const double index = parameter.value;
        const bool is_choice =
            index >= 0 && index < static_cast<double>(range["vals"].size());
        if (!is_choice) {
          refuse("has no choice " + FormatNumber(index) +
                 "; the database is damaged");
        }
        value = range["vals"][static_cast<std::size_t>(index)];
      } else if (range["type"] == "int") {
        if (std::abs(parameter.value) > static_cast<double>(kMaxCount)) {
          refuse("is out of the range of integers; export a CSV");
        }
        value = static_cast<std::int64_t>(parameter.value);
      }
      trial.hparams[name] = std::move(value);
      const auto [own, first] = results_.ranges.try_emplace(name, range);
      if (!first && !WidenRange(range, own->second)) inferred.insert(name);
    }
    std::int64_t last = 0;
    for (const OptunaTrial::Value& value : from.intermediate) {
      if (value.place < 0 || value.place > kMaxCount) {
        RefuseImport(file, where + ": step " + std::to_string(value.place) +
                               " is not from 0 to 10^15; export a CSV");
      }
      // Only what the objective returns is a result: what it reports in between
      // may be another quantity.
      trial.values.push_back({.step = value.place,
                              .name = results_.metric,
                              .value = value.value,
                              .training = true});
      last = std::max(last, value.place);
    }
    for (const OptunaTrial::Value& value : from.values) {
      const auto place = static_cast<std::size_t>(value.place);
      if (place >= metrics.size() || trial.state == "STOPPED") continue;
      trial.values.push_back({.step = std::max<std::int64_t>(last, 1),
                              .name = metrics[place],
                              .value = value.value});
    }
    results_.trials.push_back(std::move(trial));
  }
  for (const std::string& name : inferred) results_.ranges.erase(name);
}

// --- TensorBoard ---

// Returns the values of the event files of a run, by tag.
void ImportReader::ReadEvents(const fs::path& root,
                              const std::vector<fs::path>& files) {
  format_ = "tensorboard";
  results_.file = root.string();
  struct Run {
    // By directory below the run, tag and step; the last value counts.
    std::map<std::string, std::map<std::string, std::map<std::int64_t, double>>>
        values;
    std::map<std::string, json> hparams;
    bool has_failed = false;
  };
  std::map<std::string, Run> runs;
  std::size_t bytes = 0;
  for (const fs::path& file : files) {
    const fs::path below = file.parent_path().lexically_relative(root);
    const fs::path first = *below.begin();
    Run& run = runs[first == "." ? root.filename().string() : first.string()];
    const std::string inside = below.lexically_relative(first).generic_string();
    const std::string text = ReadText(file, kMaxImportBytes);
    bytes += text.size();
    if (bytes > 4 * kMaxImportBytes) {
      RefuseImport(root, "has more than 2 GiB of event files; import a part");
    }
    EventRecords records;
    records.Append(text);
    try {
      while (const auto record = records.Next()) {
        EventScalars event = ParseEvent(*record);
        run.hparams.merge(event.hparams);
        run.has_failed = run.has_failed || event.is_failure;
        for (const auto& [tag, value] : event.values) {
          if (event.step < 0 || event.step > kMaxCount) {
            RefuseImport(file, "step " + std::to_string(event.step) +
                                   " is not from 0 to 10^15");
          }
          run.values[inside][tag][event.step] = value;
        }
      }
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kUsage) throw;
      RefuseImport(
          file, std::string(error.what()) + "; remove the file, or restore it");
    }
  }
  // `dtrain tensorboard` writes the table HPARAMS beside the runs.
  std::erase_if(runs, [](const auto& one) {
    return one.second.values.empty() && one.second.hparams.empty();
  });
  std::set<std::string> fractions;
  for (auto& [name, run] : runs) {
    ImportedTrial trial{.id = name, .hparams = std::move(run.hparams)};
    if (run.has_failed) trial.state = "ERROR";
    for (const auto& [inside, tags] : run.values) {
      for (const auto& [tag, steps] : tags) {
        // Keras writes one tag below train/ and validation/.
        const auto has_tag = [&](const auto& one) {
          return one.second.contains(tag);
        };
        const bool is_only = std::ranges::count_if(run.values, has_tag) == 1;
        const std::string metric =
            is_only || inside == "." ? tag : inside + "/" + tag;
        for (const auto& [step, value] : steps) {
          trial.values.push_back(
              {.step = step, .name = metric, .value = value});
        }
      }
    }
    for (const auto& [hparam, value] : trial.hparams) {
      const bool is_whole =
          !value.is_number() || (value == std::floor(value.get<double>()) &&
                                 std::abs(value.get<double>()) < 0x1p53);
      if (!is_whole) fractions.insert(hparam);
    }
    results_.trials.push_back(std::move(trial));
  }
  // All numbers of the table HPARAMS are written as fractions.
  bool has_hparams = false;
  for (ImportedTrial& trial : results_.trials) {
    has_hparams = has_hparams || !trial.hparams.empty();
    for (auto& [hparam, value] : trial.hparams) {
      if (value.is_number() && !fractions.contains(hparam)) {
        value = static_cast<std::int64_t>(value.get<double>());
      }
    }
  }
  if (has_hparams) return;
  for (ImportedTrial& trial : results_.trials) trial.hparams["run"] = trial.id;
  results_.notes.push_back(
      "the event files name no hyperparameters; the hyperparameter 'run' is "
      "the name of the subdirectory");
}

// --- W&B ---

// Adds the numbers of a summary or of a step as values.
void AddWandbValues(const json& object, std::int64_t step,
                    ImportedTrial& trial) {
  for (const auto& [name, value] : FlattenNames(object)) {
    const bool is_text = value.is_string();
    const bool is_special = is_text && (value == "NaN" || value == "Infinity" ||
                                        value == "-Infinity");
    if (name.starts_with('_') || (!value.is_number() && !is_special)) continue;
    trial.values.push_back(
        {.step = step, .name = name, .value = NumberFromJson(value)});
  }
}

void ImportReader::ReadWandbRun(const fs::path& run, const std::string& id) {
  ImportedTrial trial{.id = id};
  const fs::path files = run / "files";
  std::error_code error;
  const fs::path config = files / "config.yaml";
  if (fs::exists(config, error)) {
    const std::string text = ReadText(config, kMaxSmallBytes);
    Findings findings(config.string(), {});
    const auto root = ReadYaml(text, {}, findings);
    for (const Diagnostic& finding : findings.Release()) {
      if (finding.severity == Severity::kError) {
        throw Error(ErrorKind::kUsage,
                    finding.ToString() + "; nothing was imported");
      }
    }
    const json all = root ? ToJson(*root) : json();
    for (const auto& [name, entry] : all.items()) {
      // W&B's own keys are _wandb and wandb_version.
      const bool is_value = entry.is_object() && entry.contains("value") &&
                            !name.starts_with("_");
      if (!is_value) continue;
      const json& value = entry["value"];
      if (!value.is_object()) trial.hparams[name] = value;
      for (const auto& [part, one] : FlattenNames(value)) {
        trial.hparams[name + "." + part] = one;
      }
    }
  }
  const auto parse = [](const fs::path& file, std::string_view text,
                        std::int64_t line) {
    json object = json::parse(QuoteNonFinite(text), nullptr, false);
    if (!object.is_object() || NestsDeeperThan(object)) {
      RefuseImport(file.string() + (line > 0 ? ":" + std::to_string(line) : ""),
                   "is not an object of JSON; export a CSV from W&B");
    }
    return object;
  };
  const fs::path history = files / "wandb-history.jsonl";
  std::int64_t last = 0;
  if (fs::exists(history, error)) {
    std::int64_t line = 0;
    for (const std::string& one :
         Split(ReadText(history, kMaxImportBytes), '\n')) {
      ++line;
      if (Trim(one).empty()) continue;
      const json object = parse(history, one, line);
      const json at = object.value("_step", json(line));
      if (!at.is_number() || at < 0 || at > kMaxCount) {
        RefuseImport(history.string() + ":" + std::to_string(line),
                     "_step is not from 0 to 10^15; correct it");
      }
      const auto step = static_cast<std::int64_t>(at.get<double>());
      AddWandbValues(object, step, trial);
      last = std::max(last, step);
    }
  }
  const fs::path summary = files / "wandb-summary.json";
  if (fs::exists(summary, error)) {
    const json object =
        parse(summary, ReadText(summary, kMaxSmallBytes), /*line=*/0);
    if (trial.values.empty()) {
      const json at = object.value("_step", json(1));
      const bool is_step = at.is_number() && at >= 0 && at <= kMaxCount;
      AddWandbValues(object,
                     is_step ? static_cast<std::int64_t>(at.get<double>()) : 1,
                     trial);
    }
    const json seconds = object.value("_runtime", json());
    if (seconds.is_number() && seconds >= 0) trial.seconds = seconds;
  }
  results_.trials.push_back(std::move(trial));
}

void ImportReader::ReadWandb(const fs::path& root,
                             const std::vector<fs::path>& runs) {
  format_ = "wandb";
  results_.file = root.string();
  bool has_history = false;
  for (const fs::path& run : runs) {
    std::error_code error;
    has_history =
        has_history || fs::exists(run / "files" / "wandb-history.jsonl", error);
    ReadWandbRun(run, run.filename().string());
  }
  if (!has_history) {
    results_.notes.push_back(
        "only the last value of each metric: the curves are in W&B's binary "
        "files (.wandb), which dtrain does not read; a CSV exported from W&B "
        "has them");
  }
}

ImportedExperiment ImportReader::Read() {
  std::string path = options_.source;
  const bool is_database =
      path.starts_with(kOptunaPrefix) || path.find("://") != std::string::npos;
  if (path.starts_with(kOptunaPrefix)) path.erase(0, kOptunaPrefix.size());
  if (is_database) {
    if (!path.starts_with(kSqliteAddress)) {
      RefuseImport(options_.source,
                   "only databases of SQLite can be read, as "
                   "optuna:sqlite:///study.db; write a CSV in Python: "
                   "study.trials_dataframe().to_csv('trials.csv')");
    }
    path.erase(0, kSqliteAddress.size());
  }
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    RefuseImport(
        path, error && error != std::errc::no_such_file_or_directory
                  ? "cannot be read: " + error.message() + "; make it readable"
                  : "does not exist; check the path");
  }
  const auto refuse_option = [&](bool is_given, const char* option,
                                 const char* use) {
    if (is_given) RefuseImport(path, std::string(option) + " is for " + use);
  };
  if (fs::is_directory(status)) {
    if (is_database) RefuseImport(path, "is a directory, not a database");
    fs::path directory = fs::path(path).lexically_normal();
    if (!directory.has_filename()) directory = directory.parent_path();
    ReadDirectory(directory);
  } else if (!fs::is_regular_file(status)) {
    RefuseImport(path,
                 "is neither a file nor a directory; give a file of "
                 "results");
  } else if (is_database) {
    ReadOptuna(path);
  } else {
    ReadFileSource(path);
  }
  const bool is_table = format_ == "csv" || format_ == "jsonl";
  refuse_option(!options_.study.empty() && format_ != "optuna", "--study",
                "a database of Optuna; leave it out");
  refuse_option(!options_.hparams.empty() && !is_table, "--hp",
                "columns of CSV and JSON lines; leave it out");
  refuse_option(!options_.values.empty() && !is_table, "--values",
                "CSV and JSON lines; leave it out");
  // A study with one objective has no name for it.
  FinishResults(format_ == "optuna" ? results_.metric : options_.metric,
                results_);
  const fs::path named = fs::absolute(path, error).lexically_normal();
  const fs::path last =
      named.has_filename() ? named.filename() : named.parent_path().filename();
  const std::string stem =
      fs::is_directory(status) ? last.string() : last.stem().string();
  std::string name = options_.name.empty() ? ToValidUtf8(stem) : options_.name;
  if (name.empty()) name = "imported";
  ImportedExperiment imported;
  imported.config = MakeImportedConfig(
      name, options_.maximize ? std::optional(true) : std::nullopt, results_);
  std::string hash;
  if (hashes_.size() == 1) {
    hash = hashes_[0].second;
  } else {
    // Of the lines that sha256sum prints beside the source, or in it.
    const fs::path base = fs::is_directory(status)
                              ? fs::path(path)
                              : fs::path(path).parent_path();
    std::string lines;
    for (const auto& [file, one] : hashes_) {
      lines +=
          one + "  " +
          fs::path(file).lexically_relative(base.lexically_normal()).string() +
          "\n";
    }
    hash = ComputeSha256(std::as_bytes(std::span(lines)));
  }
  imported.origin = {{"name", ToValidUtf8(last.string())},
                     {"source", ToValidUtf8(named.string())},
                     {"format", format_},
                     {"files", hashes_.size()},
                     {"sha256", hash}};
  if (!study_.empty()) imported.origin["study"] = study_;
  imported.results = std::move(results_);
  return imported;
}

}  // namespace

ImportedExperiment ReadImport(const ResultImport& options) {
  return ImportReader(options).Read();
}

ExperimentConfig CheckImportedConfig(const ImportedExperiment& imported,
                                     Diagnostics& findings) {
  const std::string& file = imported.results.file;
  ConfigResult result = ReadConfig(
      imported.config.dump(-1, ' ', false, json::error_handler_t::replace),
      {.file_name = file, .is_generated = true});
  for (Diagnostic& finding : result.diagnostics) {
    if (finding.severity == Severity::kError) {
      throw Error(ErrorKind::kUsage,
                  finding.ToString() + "; nothing was imported");
    }
    if (finding.key == "searcher.smaller_is_better") {
      finding.key = "--maximize";
      finding.message = "'" + imported.results.metric +
                        "' is taken as better the smaller it is; give "
                        "--maximize if a larger value is better";
    }
    findings.push_back(std::move(finding));
  }
  return *std::move(result.config);
}

std::optional<std::int64_t> FindSameImport(const Store& store,
                                           const json& origin) {
  const auto find = [](const json& object, const char* name) {
    const json* const member = FindMember(object, name);
    return member == nullptr ? json() : *member;
  };
  const auto origins = store.Origins();
  for (const auto& [id, text] : origins) {
    if (!text.starts_with("imported ")) continue;
    const auto experiment = store.Experiment(id);
    if (!experiment) continue;
    const json own = find(experiment->provenance, kImported);
    const bool is_same = find(own, "sha256") == origin["sha256"] &&
                         find(own, "study") == find(origin, "study");
    if (is_same) return id;
  }
  return std::nullopt;
}

std::int64_t RecordImport(Store& store, const ImportedExperiment& imported,
                          const ExperimentConfig& config, json provenance,
                          Timestamp now) {
  const ImportedResults& results = imported.results;
  provenance[kImported] = imported.origin;
  NewExperiment experiment{
      .name = config.name,
      .searcher = "imported",
      .metric = config.searcher.metric,
      .smaller_is_better = config.searcher.smaller_is_better,
      .yaml = ToYaml(config.effective),
      .config = config.effective,
      .provenance = std::move(provenance),
      .created = now,
  };
  experiment.config["reproducibility"]["experiment_seed"] = 0;
  std::optional<Timestamp> started, ended;
  double seconds = 0;
  for (const ImportedTrial& trial : results.trials) {
    if (trial.started && (!started || *trial.started < *started)) {
      started = trial.started;
    }
    if (trial.ended && (!ended || *trial.ended > *ended)) ended = trial.ended;
    seconds += trial.seconds;
  }
  std::int64_t id = 0;
  store.Write([&](StoreWriter& writer) {
    id = writer.AddExperiment(experiment);
    if (started) writer.SetExperimentState(id, State::kRunning, *started);
    for (const ImportedTrial& trial : results.trials) {
      const TrialId own{id, trial.number};
      const State state = StateFromName(trial.state);
      std::int64_t last = trial.batches;
      for (const ImportedValue& value : trial.values) {
        last = std::max(last, value.step);
      }
      const bool is_whole = state == State::kCompleted;
      TrialRow row{.id = own,
                   .request_id = trial.id,
                   .state = state,
                   .reason = trial.reason,
                   .hparams = trial.nested,
                   .seed = trial.seed,
                   .batches = last,
                   .rung = trial.rung.value_or(is_whole ? 1 : 0),
                   .created = trial.started.value_or(now)};
      if (state == State::kInvalid && !row.reason.starts_with(kInvalidReason)) {
        row.reason = std::string(kInvalidReason) + row.reason;
      }
      writer.AddTrial(row);
      if (trial.started) {
        writer.SetTrialState(own, State::kRunning, *trial.started);
      }
      if (trial.started || trial.ended) {
        writer.SetTrialState(own, state, trial.ended.value_or(*trial.started),
                             row.reason);
      }
      const bool has_times = trial.seconds == 0 && trial.started && trial.ended;
      const double spent =
          has_times
              ? std::chrono::duration<double>(*trial.ended - *trial.started)
                    .count()
              : trial.seconds;
      if (spent > 0) writer.AddTrialSeconds(own, spent);
      for (const ImportedValue& value : trial.values) {
        writer.AddMetrics(
            own,
            value.training ? MetricKind::kTraining : MetricKind::kValidation,
            value.step, value.epoch, {{value.name, value.value}},
            value.time.value_or(trial.ended.value_or(now)));
        const bool counts = !value.training && !trial.HasFailed() &&
                            value.name == config.searcher.metric;
        if (counts) {
          writer.AddValidation(own, value.value, value.step,
                               config.searcher.smaller_is_better);
        }
      }
    }
    if (seconds > 0) writer.AddExperimentSeconds(id, seconds);
    writer.SetExperimentProgress(id, 1);
    writer.SetExperimentState(id, State::kCompleted, ended.value_or(now));
  });
  store.MaybeCheckpointWal();
  return id;
}

}  // namespace dtrain
