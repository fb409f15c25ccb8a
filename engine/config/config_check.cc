// Rules between keys, and defaults that depend on other keys. Rules about one
// key alone are in the schema. Checks that compute something from the searcher
// (CheckRungs and those after it) run only if there is no error so far.
//
// CheckConfig changes `effective` while it checks (the functions named
// Settle…), and a later check reads what an earlier one has settled: slots
// before the rules about slots, early stopping before the metrics that it
// names. What cannot run is an error; what runs, but probably not as it was
// meant, such as a direction that contradicts the metric's name, is a warning.

#include "engine/config/config_check.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/rounding.h"
#include "engine/base/text.h"
#include "engine/base/web_address.h"
#include "engine/config/entrypoint.h"
#include "engine/config/experiment_config.h"
#include "engine/config/hyperparameters.h"
#include "engine/config/metric_source.h"
#include "engine/config/schema.h"
#include "engine/config/slurm_config.h"
#include "searchers/registry.h"
#include "searchers/search_plan.h"
#include "searchers/simulation.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// --- Slurm ---

// A command takes its slots on one node. A model may take them on the nodes of
// several jobs, or on those of an allocation, which the YAML does not tell. A
// recorded experiment may be resumed in another place than the one that it was
// created in.
void CheckSlurmSlots(const Node& root, const ReadOptions& options,
                     const Json& effective, Findings& findings) {
  const Json& resources = effective.at("resources");
  const Json& slurm = effective.at("slurm");
  const Json& per_trial = resources.at("slots_per_trial");
  if (!per_trial.is_number_integer()) return;
  const Json& choice = resources.at("slots");
  const bool on_gpus = !slurm.at("gpus_per_node").is_null() && choice == "auto";
  if (choice != "auto" && choice != "none" && choice != "cpu") return;
  const std::string key = on_gpus ? "gpus_per_node" : "cpus_per_task";
  if (slurm.at(key).is_null()) return;
  const auto slots = slurm.at(key).get<std::int64_t>();
  const auto nodes = slurm.at("nodes").get<std::int64_t>();
  const auto jobs = slurm.at("max_jobs").get<std::int64_t>();
  const bool one_node = IsCommandEntrypoint(effective.at("entrypoint"));
  if (!one_node && (options.in_allocation || options.stored)) return;
  if (slots * (one_node ? 1 : nodes * jobs) >= per_trial) return;
  const std::string all = "slurm." + key;
  findings.Error(
      FindMark(root, all), all,
      one_node
          ? "is less than slots_per_trial (" + per_trial.dump() +
                "), so no trial could run; raise it"
          : "gives all jobs together " + std::to_string(slots * nodes * jobs) +
                " slots (max_jobs × nodes × " + key + " = " +
                std::to_string(jobs) + " × " + std::to_string(nodes) + " × " +
                std::to_string(slots) + "), fewer than slots_per_trial (" +
                per_trial.dump() +
                "), so no trial could run; raise one of them");
}

void CheckSlurmArguments(const Node& root, const Json& slurm,
                         Findings& findings) {
  const Json& words = slurm.at("sbatch_args");
  const Node* section = root.Find("slurm");
  const Node* list = section ? section->Find("sbatch_args") : nullptr;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto word = words[i].get<std::string>();
    const std::string_view option = ReservedOption(word);
    const std::string key = "slurm.sbatch_args[" + std::to_string(i) + "]";
    const Mark mark = list != nullptr && i < list->items.size()
                          ? list->items[i].mark
                          : Mark{};
    if (!option.empty()) {
      findings.Error(mark, key,
                     "dtrain sets " + std::string(option) +
                         " itself; remove it, and use the keys of slurm");
    } else if (word[0] != '-') {
      findings.Error(mark, key,
                     "'" + word +
                         "' is not an option; write an option and its value "
                         "as one string, --option=value");
    }
  }
}

// Checks the rules between the keys of `slurm` and those of `resources`.
void CheckSlurm(const Node& root, const ReadOptions& options,
                const Json& effective, Findings& findings) {
  const Json& slurm = effective.at("slurm");
  if (slurm.is_null()) return;
  CheckSlurmSlots(root, options, effective, findings);
  const auto time = ParseSlurmTime(slurm.at("time").get<std::string>());
  const std::chrono::duration<double> grace(slurm.at("grace").get<double>());
  const std::string key = "slurm.grace";
  if (grace < std::chrono::seconds(1)) {
    findings.Error(FindMark(root, key), key, "use at least 1s");
  } else if (grace >= *time) {
    findings.Error(FindMark(root, key), key,
                   "is not shorter than slurm.time (" + FormatSlurmTime(*time) +
                       "), so no trial could run; lower it");
  }
  CheckSlurmArguments(root, slurm, findings);
  if (slurm.at("min_jobs") > slurm.at("max_jobs")) {
    findings.Error(FindMark(root, "slurm.min_jobs"), "slurm.min_jobs",
                   "is more than max_jobs (" + slurm.at("max_jobs").dump() +
                       "); lower it");
  }
  if (effective.at("resources").at("executor") == "slurm") return;
  // An unknown executor has an error of its own.
  const Node* section = root.Find("resources");
  const Node* executor = section ? section->Find("executor") : nullptr;
  if (executor != nullptr && executor->text != "local") return;
  findings.Warning(FindMark(root, "slurm"), "slurm",
                   "has no effect, because trials run on this machine; set "
                   "resources.executor: slurm");
}

// --- Slots, metrics and searchers ---

// Returns the maximum number of GPUs that `slots` requests, if it has one.
std::optional<std::int64_t> GpusAskedFor(const Json& slots) {
  if (slots.is_array()) return static_cast<std::int64_t>(slots.size());
  const std::string text = slots.is_string() ? slots.get<std::string>() : "";
  if (text == "most_free") return 1;
  if (!text.starts_with("gpu:")) return std::nullopt;
  return std::stoll(text.substr(4));
}

void CheckWorkers(const Node& root, const Json& resources, Findings& findings) {
  const bool listens = !resources.at("listen").is_null();
  const bool all = resources.at("slots_per_trial") == "all";
  if (listens ? !all : resources.at("local").get<bool>()) return;
  // An invalid address has an error of its own.
  const Node* section = root.Find("resources");
  const Node* listen = section ? section->Find("listen") : nullptr;
  if (!listens && listen != nullptr && !listen->is_null()) return;
  const std::string key =
      listens ? "resources.slots_per_trial" : "resources.local";
  findings.Error(
      FindMark(root, key), key,
      listens ? "all differs between machines; set a number, or remove listen"
              : "false leaves no machine to run trials; set resources.listen");
}

void CheckResources(const Node& root, Json& effective, Findings& findings) {
  Json& resources = effective["resources"];
  // `slots_per_trial: 0`, Determined's way to request no GPU, is one CPU slot.
  if (resources.at("slots_per_trial") == 0) {
    const std::string key = "resources.slots";
    if (GpusAskedFor(resources.at("slots"))) {
      findings.Error(
          FindMark(root, key), key,
          "names GPUs, but with slots_per_trial: 0 a trial has none; "
          "remove it, or set slots_per_trial to 1");
    }
    resources["slots_per_trial"] = 1;
    if (resources.at("slots") == "auto") resources["slots"] = "none";
  }
  CheckWorkers(root, resources, findings);
  const Json& per_trial = resources.at("slots_per_trial");
  const Json& slots = resources.at("slots");
  const bool on_cpus =
      slots.is_string() &&
      (slots == "none" || slots.get<std::string>().starts_with("cpu"));
  if (per_trial.is_number_float() && on_cpus) {
    const std::string key = "resources.slots_per_trial";
    findings.Warning(FindMark(root, key), key,
                     "a CPU slot cannot be shared, so each trial takes a whole "
                     "one; use 1, or GPUs");
  }
  if (!per_trial.is_number_integer()) return;
  const Json& most = resources.at("max_slots");
  if (!most.is_null() && most < per_trial) {
    findings.Error(FindMark(root, "resources.max_slots"), "resources.max_slots",
                   "is less than slots_per_trial (" + per_trial.dump() +
                       "), so no trial could run; raise it");
  }
  // A trial of a model may have slots on several workers.
  const bool one_machine = resources.at("listen").is_null() ||
                           IsCommandEntrypoint(effective.at("entrypoint"));
  const auto gpus = GpusAskedFor(slots);
  if (one_machine && gpus && *gpus < per_trial.get<std::int64_t>()) {
    findings.Error(FindMark(root, "resources.slots"), "resources.slots",
                   "are fewer than slots_per_trial (" + per_trial.dump() +
                       "), so no trial could run; name more");
  }
}

void CheckOptimizations(const Node& root, const Json& optimizations,
                        Findings& findings) {
  const std::string section = "optimizations";
  const Json& clip = optimizations.at("clip_gradients");
  const bool fp16 = optimizations.at("mixed_precision") == "fp16";
  const bool norm = IsGiven(root, "optimizations.clip_gradients.norm");
  const bool value = IsGiven(root, "optimizations.clip_gradients.value");
  if (!clip.is_null() && norm == value) {
    findings.Error(FindMark(root, "optimizations.clip_gradients"),
                   "optimizations.clip_gradients",
                   "expected exactly one of norm and value");
  }
  if (!optimizations.at("loss_scale").is_null() && !fp16) {
    findings.Error(FindMark(root, "optimizations.loss_scale"),
                   "optimizations.loss_scale",
                   "only applies to mixed_precision: fp16; remove it");
  }
  if (optimizations.at("sink_size") != 0 &&
      optimizations.at("dataset_sink_mode") == false) {
    findings.Warning(FindMark(root, "optimizations.sink_size"),
                     "optimizations.sink_size",
                     "has no effect, since dataset_sink_mode is false; remove "
                     "one of them");
  }
  if (optimizations.at("update_in_backward") == true &&
      (!clip.is_null() || fp16 ||
       optimizations.at("aggregation_frequency") != 1)) {
    findings.Error(
        FindMark(root, "optimizations.update_in_backward"),
        "optimizations.update_in_backward",
        "never holds all gradients at once, so it cannot be combined "
        "with clip_gradients, aggregation_frequency or fp16; turn "
        "one off");
  }
}

// Warns if the batch size is not a multiple of the ranks: each rank takes an
// equal part, and the rest is dropped.
void CheckBatchOfRanks(const Node& root, const Json& effective,
                       Findings& findings) {
  const Json& per_trial = effective.at("resources").at("slots_per_trial");
  const Json& hparams = effective.at("hyperparameters");
  if (IsCommandEntrypoint(effective.at("entrypoint")) || !hparams.is_object()) {
    return;
  }
  if (!per_trial.is_number_integer() || per_trial <= 1) return;
  Json sizes = hparams.value("global_batch_size", Json());
  if (sizes.is_object()) {
    sizes = sizes.contains("val") ? sizes["val"] : sizes.value("vals", Json());
  }
  if (!sizes.is_array()) sizes = Json::array({sizes});
  const auto ranks = per_trial.get<std::int64_t>();
  const std::string key = "hyperparameters.global_batch_size";
  for (const Json& size : sizes) {
    if (!size.is_number_integer()) continue;
    const auto samples = size.get<std::int64_t>();
    if (samples < ranks || samples % ranks == 0) continue;
    findings.Warning(
        FindMark(root, key), key,
        std::to_string(samples) + " is not a multiple of " + per_trial.dump() +
            " ranks (resources.slots_per_trial): each rank takes " +
            std::to_string(samples / ranks) + ", so a batch has " +
            std::to_string(samples / ranks * ranks) + " samples");
  }
}

void CheckHyperparameters(const Node& root, const Json& searcher,
                          Findings& findings) {
  const Node* node = root.Find("hyperparameters");
  if (node == nullptr || !searcher.at("name").is_string()) return;
  Findings discarded = Findings::Discarding();
  ReadHyperparameters(*node, discarded);
  if (discarded.errors() > 0) return;
  CheckSearched(*node, searcher.at("name").get<std::string>(),
                searcher.value("constraints", std::vector<std::string>()),
                findings);
}

// Returns the fault of an address for messages, or "".
std::string FindUrlFault(const std::string& url) {
  const auto address = ParseWebAddress(url);
  if (!address || (address->scheme != "http" && address->scheme != "https")) {
    return "is not an address; write https://HOST/PATH";
  }
  if (!url.ends_with(kHiddenPath)) return "";
  return "is what dtrain shows of an address; write the whole address";
}

void CheckNotify(const Node& root, const ReadOptions& options, Json& notify,
                 Findings& findings) {
  if (notify.is_null()) return;
  const auto refuse = [&](const std::string& key, const std::string& what) {
    findings.Error(FindMark(root, "notify" + key), "notify" + key, what);
  };
  if (notify.at("on").empty()) {
    refuse(".on", "is empty; name an event, such as completed, or remove it");
  }
  const Json& url = notify.at("url");
  const bool has_env = !notify.at("url_env").is_null();
  if (notify.at("command").is_null() && url.is_null() && !has_env) {
    refuse("", "has no target; set command, url or url_env");
  }
  if (!notify.at("command").is_null() && notify.at("command").empty()) {
    refuse(".command", "is empty; write a program and its arguments");
  }
  if (!url.is_null() && has_env) {
    refuse(".url_env", "cannot be combined with url; remove one of them");
  }
  if (url.is_null() || options.stored) return;
  if (const std::string fault = FindUrlFault(url.get<std::string>());
      !fault.empty()) {
    refuse(".url", fault);
  }
}

// Warns about keys that have no effect on a program.
void CheckCommandKeys(const Node& root, const Json& effective,
                      Findings& findings) {
  const std::string profiling = "profiling.enabled";
  if (effective.at("profiling").at("enabled") == true) {
    findings.Warning(FindMark(root, profiling), profiling,
                     "has no effect on a program, which trains by itself; "
                     "remove it");
  }
  for (const auto& [name, value] : effective.at("optimizations").items()) {
    const std::string path = JoinPath("optimizations", name);
    const KeySpec* key = FindKey(path);
    if (key == nullptr || value == key->Default()) continue;
    findings.Warning(FindMark(root, path), path,
                     "has no effect on a program, which trains by itself; "
                     "pass it as a hyperparameter");
  }
}

std::string LowerCase(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return text;
}

// Returns the words of a metric's name in small letters, each also without the
// digits at its end and what usually precedes a name: val, acc and acc1 of
// `val_acc1`, acc of `valAcc`, map of `mAP`.
std::vector<std::string> SplitMetricName(const std::string& name) {
  constexpr std::string_view kDigits = "0123456789";
  constexpr std::array<std::string_view, 6> kBefore = {
      "val", "valid", "test", "train", "eval", "mean"};
  std::vector<std::string> words = {""};
  const std::string lower = LowerCase(name);
  for (const char c : lower) {
    const bool is_part =
        (c >= 'a' && c <= 'z') || kDigits.find(c) != std::string_view::npos;
    if (is_part) {
      words.back() += c;
    } else {
      words.emplace_back();
    }
  }
  const std::vector<std::string> whole = words;
  for (const std::string& word : whole) {
    words.push_back(word.substr(0, word.find_last_not_of(kDigits) + 1));
    for (const std::string_view before : kBefore) {
      if (word.starts_with(before)) words.push_back(word.substr(before.size()));
    }
  }
  return words;
}

// Returns the first of `parts` that the metric's name contains, else the first
// of `words` that is a word of it, or "".
std::string_view WordIn(const std::string& name,
                        std::span<const std::string_view> parts,
                        std::span<const std::string_view> words) {
  const std::string lower = LowerCase(name);
  for (const std::string_view part : parts) {
    if (lower.find(part) != lower.npos) return part;
  }
  const std::vector<std::string> all = SplitMetricName(name);
  for (const std::string_view word : words) {
    if (std::ranges::find(all, word) != all.end()) return word;
  }
  return {};
}

// Warns about a direction that contradicts the name of the metric.
void CheckDirection(const Node& root, const Json& searcher,
                    Findings& findings) {
  static constexpr std::array<std::string_view, 3> kCosts = {"loss", "error",
                                                             "perplexity"};
  static constexpr std::array<std::string_view, 14> kCostWords = {
      "rmse", "mse", "mae", "mape", "nll", "wer",     "cer",
      "fid",  "ppl", "bpc", "err",  "bpb", "logloss", "rmsle"};
  static constexpr std::array<std::string_view, 3> kGains = {"accuracy", "auc",
                                                             "f1"};
  static constexpr std::array<std::string_view, 22> kGainWords = {
      "acc",   "top",       "map",    "bleu", "iou",   "miou",
      "r2",    "score",     "reward", "dice", "auroc", "auprc",
      "rouge", "precision", "recall", "psnr", "ssim",  "ndcg",
      "mrr",   "mcc",       "kappa",  "hits"};
  // `neg_mean_squared_error`: the larger, the better.
  static constexpr std::array<std::string_view, 3> kNegated = {
      "neg", "negative", "minus"};
  if (!searcher.at("metric").is_string()) return;
  const auto name = searcher.at("metric").get<std::string>();
  if (!WordIn(name, {}, kNegated).empty()) return;
  const bool smaller = searcher.at("smaller_is_better").get<bool>();
  const bool is_cost = !WordIn(name, kCosts, kCostWords).empty();
  const std::string key = "searcher.smaller_is_better";
  // A word that may mean much, such as score, is no doubt about a direction
  // that is written down.
  const bool is_gain =
      !WordIn(name, kGains, {}).empty() ||
      (!IsGiven(root, key) && !WordIn(name, {}, kGainWords).empty());
  if (!smaller && is_cost) {
    findings.Warning(FindMark(root, key), key,
                     "smaller_is_better is false, but '" + name +
                         "' is usually minimized; set it to true");
  } else if (smaller && !is_cost && is_gain) {
    findings.Warning(FindMark(root, key), key,
                     "smaller_is_better is true, but '" + name +
                         "' is usually maximized; set it to false");
  }
}

// Returns why a length is required; "" if a program may decide it.
std::string LengthRequirement(const Json& effective) {
  const Json& method = effective.at("searcher").at("name");
  if (!IsCommandEntrypoint(effective.at("entrypoint"))) {
    return "required but missing; add it, such as {epochs: 10}";
  }
  const SearcherEntry* entry =
      method.is_string() ? FindSearcher(method.get<std::string>()) : nullptr;
  if (entry == nullptr || entry->brackets == nullptr) return "";
  return "required but missing: " + method.get<std::string>() +
         " compares trials at lengths; add it, such as {epochs: 10}";
}

// Checks max_time and time_metric.
void CheckTime(const Node& root, const Json& effective, Findings& findings) {
  const Json& searcher = effective.at("searcher");
  const Json& metric = searcher.at("time_metric");
  const bool is_unit =
      metric == "batches" || metric == "records" || metric == "epochs";
  const std::string key = "searcher.time_metric";
  if (!is_unit && effective.at("entrypoint").is_string()) {
    findings.Error(FindMark(root, key), key,
                   "expected batches, records or epochs, got " +
                       EscapeForTerminal(metric.dump()) +
                       "; only a program counts by a metric of its own");
  }
  const SearcherEntry* entry =
      searcher.at("name").is_string()
          ? FindSearcher(searcher.at("name").get<std::string>())
          : nullptr;
  const bool halves = entry != nullptr && entry->brackets != nullptr;
  if (!halves || !searcher.contains("stop_once") ||
      searcher.at("stop_once") != false ||
      IsGiven(root, "searcher.stop_once")) {
    return;
  }
  findings.AddNote(
      FindMark(root, "searcher.max_time"), "searcher.max_time",
      "Determined 0.38, which has this key, stops trials that fall "
      "behind; dtrain pauses them and may resume them later, unless "
      "it says stop_once: true");
}

void CheckLength(const Node& root, const Json& effective, Findings& findings) {
  const bool length = IsGiven(root, "searcher.max_length");
  const bool time = IsGiven(root, "searcher.max_time");
  const bool time_metric = IsGiven(root, "searcher.time_metric");
  if (length && time) {
    findings.Error(FindMark(root, "searcher.max_time"), "searcher.max_time",
                   "replaces max_length; remove one of them");
  }
  const std::string why_needed = LengthRequirement(effective);
  if (!length && !time && !why_needed.empty()) {
    findings.Error(FindMark(root, "searcher"), "searcher.max_length",
                   why_needed);
  }
  if (time && !time_metric) {
    findings.Error(FindMark(root, "searcher"), "searcher.time_metric",
                   "required but missing: it is the unit of max_time; add it");
  }
  if (time_metric && !time) {
    const std::string key = "searcher.time_metric";
    findings.Error(FindMark(root, key), key,
                   length ? "only applies to max_time; remove it"
                          : "is the unit of max_time, which is missing; add "
                            "max_time");
  }
  if (time && time_metric) CheckTime(root, effective, findings);
}

SearcherConfig ParseSearcher(const Json& searcher) {
  return BuildConfig({{"searcher", searcher}}).searcher;
}

// Warns if rungs are merged because their lengths, which are integers, are
// equal. REQUIRES: the searcher has no errors.
void CheckRungs(const Node& root, const Json& searcher, Findings& findings) {
  const SearcherConfig config = ParseSearcher(searcher);
  std::string key = "searcher.num_rungs";
  std::int64_t config_rungs = config.num_rungs;
  if (!config.bracket_rungs.empty()) {
    key = "searcher.bracket_rungs";
    config_rungs = *std::ranges::max_element(config.bracket_rungs);
  }
  const std::vector<Bracket> brackets = PlanBrackets(config);
  if (brackets.empty() || config_rungs == 0) return;
  const auto longest = std::ranges::max_element(
      brackets, {},
      [](const Bracket& bracket) { return bracket.rungs.size(); });
  const auto rungs = static_cast<std::int64_t>(longest->rungs.size());
  if (rungs >= config_rungs) return;
  findings.Warning(
      FindMark(root, key), key,
      "asks for " + std::to_string(config_rungs) + " rungs, but a length of " +
          std::to_string(config.max_length) + " has room for " +
          std::to_string(rungs) + ": rungs of equal length are merged");
}

// Warns if possibly no trial trains to max_length: with promotion, a rung with
// few trials may promote none. REQUIRES: the searcher has no errors.
void CheckReach(const Node& root, const Json& searcher, Findings& findings) {
  const SearcherConfig config = ParseSearcher(searcher);
  if (config.stop_once || IsModelBased(config)) return;
  const std::vector<Bracket> brackets = PlanBrackets(config);
  std::int64_t enough = 0;
  for (const Bracket& bracket : brackets) {
    const std::int64_t needed = TrialsForTop(bracket, config.divisor);
    if (bracket.max_trials >= needed) return;
    enough = std::max(enough, needed);
  }
  if (brackets.empty()) return;
  // Simulations answer whether a trial reaches the top, because with promotion
  // that depends on the order of the results.
  const auto expected = ExpectSearch(config, Json::object());
  if (!expected) return;
  const ExpectedRange reached = expected->trials.at(config.max_length);
  if (reached.min > 0) return;
  const std::string key = "searcher.max_trials";
  findings.Warning(
      FindMark(root, key), key,
      std::string(reached.max == 0 ? "no trial is expected to train"
                                   : "possibly no trial trains") +
          " to max_length: " +
          CountText(config.max_trials, "trial is too few for ",
                    "trials are few for ") +
          std::to_string(brackets.front().rungs.size()) + " rungs; " +
          (brackets.size() == 1
               ? "use at least " + std::to_string(enough) + ", "
               : std::string("use more trials, ")) +
          "fewer rungs, or stop_once: true");
}

// REQUIRES: the searcher has no errors.
void CheckStops(const Node& root, const Json& searcher, Findings& findings) {
  const SearcherConfig config = ParseSearcher(searcher);
  if (config.stops.empty()) return;
  if (config.max_length == 0) {
    findings.Error(FindMark(root, "searcher.stops"), "searcher.stops",
                   "are lengths before max_length, which is missing; add that");
    return;
  }
  std::vector<std::int64_t> lengths = config.stops;
  lengths.push_back(config.max_length);
  const auto wrong =
      std::ranges::adjacent_find(lengths, std::ranges::greater_equal());
  if (wrong == lengths.end()) return;
  const std::string key = "searcher.stops";
  findings.Error(FindMark(root, key), key,
                 "expected ascending lengths below max_length, got " +
                     std::to_string(*wrong) + " before " +
                     std::to_string(*std::next(wrong)) + "; sort them");
}

// REQUIRES: the searcher has no errors.
void CheckBudget(const Node& root, const Json& searcher, Findings& findings) {
  const Json budget = searcher.value("budget", Json());
  if (budget.is_null() || budget.contains("seconds")) return;
  const std::string key = "searcher.budget";
  const std::string unit = budget.begin().key();
  const ExperimentConfig config = BuildConfig({{"searcher", searcher}});
  const std::string unit_name(UnitName(config.length_unit));
  const std::int64_t length = config.searcher.budget;
  if (unit != unit_name) {
    findings.Error(FindMark(root, key), key,
                   "is in " + unit + ", but max_length is in " + unit_name +
                       "; write {" + unit_name +
                       ": N}, or a duration such as 8h");
  } else if (length < config.searcher.max_length) {
    findings.Error(FindMark(root, key), key,
                   "is " + std::to_string(length) +
                       ", less than max_length: no trial could train to the "
                       "end; use at least " +
                       std::to_string(config.searcher.max_length));
  }
}

// REQUIRES: the searcher has no errors.
void CheckRepeats(const Node& root, const Json& searcher, Findings& findings) {
  const SearcherConfig config = ParseSearcher(searcher);
  if (IsModelBased(config) && config.repeats > 1 && config.num_rungs != 1) {
    const std::string key = "searcher.repeats";
    findings.Error(FindMark(root, key), key,
                   "rungs would compare points before all their repeats have "
                   "ended; add num_rungs: 1, or remove repeats");
  }
  const std::string key = "searcher.repeat_metric";
  // An effective configuration has the default.
  if (config.repeats == 1 && config.repeat_metric != "mean") {
    findings.Warning(FindMark(root, key), key,
                     "has no effect without searcher.repeats; add that, or "
                     "remove it");
  }
}

// A model-based search runs as many trials as the slots hold, not the default
// of the schema.
void SettleConcurrency(const Node& root, Json& searcher) {
  if (!searcher.contains("budget")) return;
  if (!IsGiven(root, "searcher.max_concurrent_trials")) {
    searcher["max_concurrent_trials"] = 0;
  }
}

void CheckSearcher(const Node& root, const Json& effective,
                   Findings& findings) {
  const Json& searcher = effective.at("searcher");
  CheckDirection(root, searcher, findings);
  CheckLength(root, effective, findings);
  if (!searcher.at("source_trial_id").is_null() &&
      !searcher.at("source_checkpoint_uuid").is_null()) {
    const std::string key = "searcher.source_checkpoint_uuid";
    findings.Error(
        FindMark(root, key), key,
        "cannot be combined with source_trial_id; remove one of them");
  }
  if (searcher.contains("points") && searcher.at("max_trials").is_number() &&
      searcher.at("max_trials").get<std::size_t>() <
          searcher.at("points").size()) {
    findings.Error(FindMark(root, "searcher.points"), "searcher.points",
                   "has more points than max_trials; remove some");
  }
  if (findings.errors() == 0) CheckBudget(root, searcher, findings);
  if (findings.errors() == 0) CheckStops(root, searcher, findings);
  if (findings.errors() == 0) CheckRepeats(root, searcher, findings);
  if (findings.errors() == 0) CheckRungs(root, searcher, findings);
  if (findings.errors() == 0) CheckReach(root, searcher, findings);
}

// --- The directory of checkpoints ---

constexpr char kStorage[] = "checkpoint_storage";
// Name of storage_path in earlier versions of Determined. Given alone, it is
// the whole path.
constexpr char kOldPath[] = "checkpoint_path";

// True for a deprecated name that means nothing beside the others, as in
// Determined.
bool IsIgnored(const Node& root, std::string_view name) {
  const auto has = [&](const char* other) {
    return IsGiven(root, JoinPath(kStorage, other));
  };
  return has("host_path") && (name == "container_path" ||
                              (name == kOldPath && has("storage_path")));
}

void AddIgnoredNote(const Node& root, std::string_view name,
                    Findings& findings) {
  const std::string key = JoinPath(kStorage, name);
  findings.AddNote(FindMark(root, key), key,
                   "is ignored beside host_path, as by Determined");
}

// Returns which of Determined's names for the directory are given.
std::vector<std::string> ConfiguredPaths(const Node& root) {
  std::vector<std::string> names;
  for (const auto* name : {"path", "host_path", "container_path"}) {
    if (IsGiven(root, JoinPath(kStorage, name)) && !IsIgnored(root, name)) {
      names.emplace_back(name);
    }
  }
  if (names.empty() && IsGiven(root, JoinPath(kStorage, kOldPath))) {
    names.emplace_back(kOldPath);
  }
  return names;
}

// Returns `path` relative to `directory`, normalised, without a slash at the
// end.
fs::path AbsoluteIn(const std::string& directory, const std::string& path) {
  const fs::path normal = (fs::path(directory) / path).lexically_normal();
  return normal.has_filename() || normal == normal.root_path()
             ? normal
             : normal.parent_path();
}

// Determined has had five names for the directory of checkpoints, two of which
// mean a directory below another. Reduces them to one absolute path and removes
// the others from `storage`, the effective section, so that a stored experiment
// means the same from every working directory. Reports names that contradict
// each other, and those that are ignored.
void SettleStoragePath(const Node& root, const ReadOptions& options,
                       Json& storage, Findings& findings) {
  const std::vector<std::string> names = ConfiguredPaths(root);
  std::vector<std::string> inner;  // given names of a directory below it
  for (const auto* name : {"storage_path", kOldPath}) {
    const bool is_inner =
        (names.empty() || names[0] != name) && !IsIgnored(root, name);
    if (is_inner && IsGiven(root, JoinPath(kStorage, name))) {
      inner.emplace_back(name);
    }
  }
  for (const std::vector<std::string>& equal : {names, inner}) {
    if (equal.size() < 2) continue;
    const std::string key = JoinPath(kStorage, equal[1]);
    findings.Error(FindMark(root, key), key,
                   "means the same as " + equal[0] + "; remove one of them");
  }
  for (const auto* name : {"container_path", kOldPath}) {
    const std::string key = JoinPath(kStorage, name);
    if (IsGiven(root, key) && IsIgnored(root, name)) {
      AddIgnoredNote(root, name, findings);
    }
  }
  Json path = names.empty() ? Json() : storage[names[0]];
  if (path.is_string()) {
    path = AbsoluteIn(options.directory, path.get<std::string>()).string();
  }
  if (!inner.empty() && storage[inner[0]].is_string()) {
    const std::string key = JoinPath(kStorage, inner[0]);
    const auto text = storage[inner[0]].get<std::string>();
    if (names.empty()) {
      findings.Error(
          FindMark(root, key), key,
          "is relative to host_path, which is missing; use path instead");
    } else if (path.is_string()) {
      const auto base = path.get<std::string>();
      const fs::path whole = AbsoluteIn(base, text);
      const fs::path below = whole.lexically_relative(base);
      const bool is_outside = below.empty() || *below.begin() == "..";
      if (is_outside && inner[0] == kOldPath && names[0] == "host_path") {
        AddIgnoredNote(root, kOldPath, findings);
        path = base;
      } else if (is_outside) {
        findings.Error(FindMark(root, key), key,
                       "is outside " + names[0] + ", " + base +
                           "; name a directory below it");
      } else {
        path = whole.string();
      }
    }
  }
  for (const auto* name :
       {"type", "host_path", "container_path", "storage_path", kOldPath}) {
    storage.erase(name);
  }
  storage["path"] = path;
}

}  // namespace

void FindWarmStartPlaces(const Node& root, const ReadOptions& options,
                         std::vector<WarmStartSource>& sources) {
  const std::string key = "searcher.warm_start";
  for (std::size_t i = 0; i < sources.size(); ++i) {
    Findings where(options.file_name, options.overrides, !options.is_generated);
    where.Error(root.Find("searcher")->Find("warm_start")->items[i].mark,
                key + '[' + std::to_string(i) + ']', "");
    sources[i].where = where.Release().front();
  }
}

void CheckConfig(const Node& root, const ReadOptions& options,
                 nlohmann::json& effective, Findings& findings) {
  CheckEntrypoint(effective.at("entrypoint"), FindMark(root, "entrypoint"),
                  options, findings);
  SettlePlaceholders(root, options, effective, findings);
  SettleConcurrency(root, effective["searcher"]);
  const Json& searcher = effective.at("searcher");
  if (IsGiven(root, "searcher")) CheckSearcher(root, effective, findings);
  // A stored configuration was checked, and to count a grid or the points that
  // meet constraints takes time.
  if (!options.stored) CheckHyperparameters(root, searcher, findings);
  if (!options.stored && findings.errors() == 0) {
    CheckConstraints(root, effective.at("hyperparameters"),
                     ParseSearcher(searcher), findings);
  }
  // In a search, all trials would have the same seed.
  const std::string seed = "reproducibility.trial_seed";
  if (IsGiven(root, seed) && searcher.at("name") != "single") {
    findings.Error(FindMark(root, seed), seed,
                   "only applies to the searcher single; use experiment_seed");
  }
  SettleStoragePath(root, options, effective["checkpoint_storage"], findings);
  // With `executor: slurm`, workers are accepted, and no trial runs on this
  // machine.
  Json& resources = effective["resources"];
  if (resources.at("executor") == "slurm") {
    if (!IsGiven(root, "resources.local")) resources["local"] = false;
    if (!IsGiven(root, "resources.listen")) resources["listen"] = 0;
  }
  CheckResources(root, effective, findings);
  const Node* section = root.Find("resources");
  const Node* slurm = section ? section->Find("slurm") : nullptr;
  // Determined writes an empty one.
  const bool is_empty = slurm == nullptr || slurm->is_null() ||
                        (slurm->is_map() && slurm->entries.empty());
  if (!options.stored && !is_empty) {
    findings.Error(slurm->mark, "resources.slurm",
                   "is not read here; move the section to the top level of the "
                   "file");
  }
  CheckSlurm(root, options, effective, findings);
  CheckOptimizations(root, effective.at("optimizations"), findings);
  // update_in_backward frees gradients before several ranks exchange them.
  const Json& per_trial = resources.at("slots_per_trial");
  if (effective.at("optimizations").at("update_in_backward") == true &&
      per_trial.is_number_integer() && per_trial > 1) {
    const std::string key = "optimizations.update_in_backward";
    findings.Error(FindMark(root, key), key,
                   "frees gradients before the " + per_trial.dump() +
                       " ranks (resources.slots_per_trial) can exchange them; "
                       "turn it off, or use one slot");
  }
  CheckBatchOfRanks(root, effective, findings);
  if (IsCommandEntrypoint(effective.at("entrypoint"))) {
    CheckCommandKeys(root, effective, findings);
  }
  // The defaults of early stopping: the searcher's metric and direction.
  if (Json& stopping = effective["early_stopping"]; !stopping.is_null()) {
    Json& metric = stopping["metric"];
    if (metric.is_null()) metric = searcher.at("metric");
    Json& smaller = stopping["smaller_is_better"];
    const bool same = metric == searcher.at("metric");
    if (smaller.is_null()) {
      smaller = same ? searcher.at("smaller_is_better") : Json(true);
    }
  }
  CheckNotify(root, options, effective["notify"], findings);
  CheckMetricSource(root, effective, findings);
}

void FindStorage(const Node& root, const ReadOptions& options,
                 CheckpointConfig& checkpoints) {
  const std::vector<std::string> names = ConfiguredPaths(root);
  if (names.empty()) return;
  const std::string key = JoinPath(kStorage, names[0]);
  const Node* section = root.Find(kStorage);
  checkpoints.base =
      AbsoluteIn(options.directory, section->Find(names[0])->text).string();
  Findings where(options.file_name, options.overrides, !options.is_generated);
  where.Error(FindMark(root, key), key, "");
  checkpoints.where = where.Release().front();
}

}  // namespace dtrain
