// Values that an Experiment computes from its trials, without I/O: the display
// of rungs, the progress, the best trial, the metrics that validations must
// have, and the unread hyperparameters.
//
// Progress is the length trained by the length planned. It never falls below
// the recorded one: when the plan grows, because more trials are promoted than
// planned or one is replaced, the record is kept. A rehearsal, a budget of
// seconds, and a search without max_length have no planned length; there the
// searcher's own share is used.

#include "engine/run/search_results.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "engine/base/metric_order.h"
#include "engine/base/text.h"
#include "engine/run/reported_units.h"
#include "searchers/hparam_space.h"
#include "searchers/registry.h"

namespace dtrain {

Rungs::Rungs(const SearcherConfig& config, Unit unit)
    : brackets_(PlanBrackets(config)),
      unit_(unit),
      stop_once_(config.stop_once) {
  for (const Bracket& bracket : brackets_) {
    for (const std::int64_t length : bracket.rungs) done_[length] = 0;
  }
}

void Rungs::Count(std::int64_t length) { ++done_[length]; }

std::vector<RungStatus> Rungs::Status(
    const std::map<std::int64_t, std::int64_t>& running) const {
  std::vector<RungStatus> rungs;
  if (done_.size() < 2) return rungs;
  for (const auto& [length, done] : done_) {
    const auto found = running.find(length);
    rungs.push_back({.length = {length, unit_},
                     .done = done,
                     .running = found == running.end() ? 0 : found->second});
  }
  return rungs;
}

std::string Rungs::StopReason(std::int64_t rung, std::int64_t trained) const {
  const auto index = static_cast<std::size_t>(rung - 1);
  for (const Bracket& bracket : brackets_) {
    if (rung < 1 || index >= bracket.rungs.size()) continue;
    if (bracket.rungs[index] != trained) continue;
    return (stop_once_ ? "stopped at rung " : "not promoted from rung ") +
           std::to_string(rung) + " of " +
           std::to_string(bracket.rungs.size()) + " (" +
           LengthText(trained, unit_) + ")";
  }
  return "stopped by the searcher";
}

namespace {

// Progress of a search that is not over is below 1.
constexpr double kMaxUnfinished = 0.999;

}  // namespace

SearchProgress::SearchProgress(const SearcherConfig& config,
                               const nlohmann::json& space)
    : plan_(PlanSearch(config, space)),
      length_(config.name == kRehearsal || config.budget_seconds > 0
                  ? 0
                  : static_cast<double>(config.max_length)) {}

double SearchProgress::Estimate(const TrialTable& trials,
                                double searched) const {
  double share = searched;
  if (length_ > 0) {
    const double planned = Planned(trials, searched);
    if (planned > 0) share = trials.trained_length() / planned;
  }
  return std::max(recorded_, std::min(share, kMaxUnfinished));
}

// A search by halving is planned as if every result came at once.
double SearchProgress::Planned(const TrialTable& trials,
                               double searched) const {
  if (plan_.brackets.empty()) {
    const auto count = static_cast<double>(plan_.rows.front().trials);
    return trials.ended_length() + count * (1 - searched) * length_;
  }
  double total = trials.trained_length();
  for (const auto& [number, trial] : trials.live()) {
    if (!trial->has_work()) continue;
    total += static_cast<double>(trial->operations.front()) - trial->reached;
  }
  return std::max(static_cast<double>(plan_.total_length), total);
}

bool BestTrial::Offer(TrialRow& trial, double value, const ReportedAt& at) {
  if (!std::isfinite(value)) return false;
  const BestValidation offered{
      .value = value, .batches = at.batches, .epoch = at.epoch};
  if (!trial.best || IsBetter(value, trial.best->value, smaller_is_better_)) {
    trial.best = offered;
  }
  if (is_set_) return false;
  const auto rank = [this](double metric, std::int64_t number) {
    return std::pair(RankKey(metric, smaller_is_better_), number);
  };
  if (best_ && !(rank(value, trial.id.number) < rank(best_->value, trial_))) {
    return false;
  }
  Set(offered, trial);
  return true;
}

void BestTrial::Set(const BestValidation& best, const TrialRow& trial) {
  best_ = best;
  trial_ = trial.id.number;
  hparams_ = trial.hparams;
}

void BestTrial::Clear() {
  best_.reset();
  trial_ = 0;
  hparams_ = nullptr;
}

void BestTrial::SetCheckpoint(TrialId trial, std::int64_t batches,
                              const std::string& uuid) {
  if (best_ && trial.number == trial_ && batches == best_->batches) {
    best_->checkpoint = uuid;
  }
}

void BestTrial::ClearCheckpoint(const std::string& uuid) {
  if (best_ && best_->checkpoint == uuid) best_->checkpoint.clear();
}

namespace {

std::vector<std::string> ListNames(const MetricValues& metrics) {
  std::vector<std::string> names;
  for (const auto& [name, value] : metrics) names.push_back(name);
  return names;
}

// Returns "X 'loss' was not reported; reported: acc; set X to one of these".
std::string NotReported(const std::string& key, const std::string& metric_name,
                        const MetricValues& metrics) {
  return key + " '" + metric_name + "' was not reported; reported: " +
         (metrics.empty() ? "none" : Join(ListNames(metrics), ", ")) +
         "; set " + key + " to one of these";
}

// Returns "; did you mean 'acc'?" for "val_acc", or an empty string.
std::string SimilarMetric(const std::string& metric_name,
                          const MetricValues& metrics) {
  const auto names = ListNames(metrics);
  const std::string similar = DidYouMean(metric_name, names);
  if (!similar.empty()) return similar;
  const auto part = std::ranges::find_if(names, [&](const std::string& name) {
    return name.find(metric_name) != name.npos ||
           metric_name.find(name) != metric_name.npos;
  });
  return part == names.end() ? "" : "; did you mean '" + *part + "'?";
}

}  // namespace

std::optional<double> RequiredMetrics::Find(const MetricValues& metrics) const {
  for (const auto& [name, value] : metrics) {
    if (name == config_.searcher.metric) return value;
  }
  return std::nullopt;
}

std::string RequiredMetrics::Warn(const MetricValues& metrics) {
  if (std::exchange(warned_, true)) return "";
  const std::string& name = config_.searcher.metric;
  return "no best: " +
         (metrics.empty()
              ? "searcher.metric '" + name + "' was not reported; no metric was"
              : NotReported("searcher.metric", name, metrics));
}

std::string RequiredMetrics::MissingText(const MetricValues& metrics) const {
  const std::string& name = config_.searcher.metric;
  return NotReported("searcher.metric", name, metrics) +
         SimilarMetric(name, metrics);
}

std::string RequiredMetrics::CheckStopping(const MetricValues& metrics) const {
  const auto& rule = config_.training.early_stopping;
  if (!rule) return "";
  for (const auto& [name, value] : metrics) {
    if (name == rule->metric) return "";
  }
  return NotReported("early_stopping.metric", rule->metric, metrics);
}

namespace {

// The paths of all values in `value`, which is at `path`.
void AppendLeaves(const nlohmann::json& value, const std::string& path,
                  std::vector<std::string>& leaves) {
  if (!value.is_object()) return leaves.push_back(path);
  for (const auto& [name, inner] : value.items()) {
    AppendLeaves(inner, path + '.' + name, leaves);
  }
}

bool IsUnread(const nlohmann::json& value, const std::string& path,
              const std::vector<std::string>& unread) {
  std::vector<std::string> leaves;
  AppendLeaves(value, path, leaves);
  return !leaves.empty() &&
         std::ranges::all_of(leaves, [&](const std::string& leaf) {
           return std::ranges::find(unread, leaf) != unread.end();
         });
}

void AppendSearched(const nlohmann::json& space, const nlohmann::json& hparams,
                    const std::string& prefix,
                    const std::vector<std::string>& unread,
                    std::vector<std::string>& found) {
  for (const auto& [name, range] : space.items()) {
    const auto value = hparams.find(name);
    if (!range.is_object() || value == hparams.end()) continue;
    const std::string path = prefix + name;
    if (!HasType(range)) {
      if (value->is_object()) {
        AppendSearched(range, *value, path + '.', unread, found);
      }
    } else if (range.at("type") != "const" && IsUnread(*value, path, unread)) {
      found.push_back(path);
    }
  }
}

}  // namespace

std::vector<std::string> UnreadHparams::WithoutDeciding(
    std::vector<std::string> names) const {
  std::erase_if(
      names, [&](const std::string& name) { return deciding_.contains(name); });
  return names;
}

void UnreadHparams::Record(const TrialRow& trial,
                           const std::vector<std::string>& unread) {
  if (IsCommand(config_)) return;
  Intersect(
      WithoutDeciding(is_custom_ ? unread : Searched(trial.hparams, unread)));
}

// A program that names nothing has read all, or cannot say. Then no
// hyperparameter counts as unread by all trials.
void UnreadHparams::RecordAtEnd(const TrialRow& trial,
                                const std::vector<std::string>& all) {
  if (!IsCommand(config_)) return Record(trial, all);
  const std::vector<std::string> unread = WithoutDeciding(all);
  if (unread.empty() && !names_) may_have_read_all_ = true;
  if (!may_have_read_all_) Intersect(unread);
}

void UnreadHparams::Intersect(const std::vector<std::string>& unread) {
  const std::set<std::string> now(unread.begin(), unread.end());
  if (!names_) {
    names_ = now;
    return;
  }
  std::erase_if(*names_,
                [&](const std::string& name) { return !now.contains(name); });
}

std::optional<std::vector<std::string>> UnreadHparams::names() const {
  if (!names_) return std::nullopt;
  return std::vector<std::string>(names_->begin(), names_->end());
}

std::string UnreadHparams::Warn(const std::vector<std::string>& all) {
  const std::vector<std::string> unread = WithoutDeciding(all);
  const bool is_command = IsCommand(config_);
  if (!(is_custom_ || is_command) || unread.empty()) return "";
  const std::string names = Join(unread, ", ");
  if (std::exchange(warned_of_, names) == names) return "";
  const bool one = unread.size() == 1;
  return std::string("has not read the hyperparameter") + (one ? " " : "s ") +
         names + "; correct " + (one ? "its name" : "their names") +
         " in the configuration, or read " + (one ? "it" : "them") +
         (is_command ? " in the script" : " in the model");
}

std::string UnreadHparams::CheckFirst(
    const TrialRow& trial, const std::vector<std::string>& unread,
    const std::function<bool(const std::string&)>& may_read) {
  if (std::exchange(validated_, true)) return "";
  const bool is_command = IsCommand(config_) && config_.rules > 1;
  const bool applies =
      (is_custom_ || is_command) && config_.searcher.name != "single";
  if (!applies) return "";
  std::vector<std::string> searched =
      WithoutDeciding(Searched(trial.hparams, unread));
  if (may_read) std::erase_if(searched, may_read);
  if (searched.empty()) return "";
  const bool one = searched.size() == 1;
  return "trial " + ToString(trial.id) + " was validated and has not read " +
         Join(searched, ", ") + ", which " + (one ? "is" : "are") +
         " searched: all trials would be the same; correct " +
         (one ? "its name" : "their names") + " in the configuration, read " +
         (one ? "it" : "them") +
         (is_command ? " in the script" : " in the model") +
         ", or create it with --allow-unread";
}

std::vector<std::string> UnreadHparams::Searched(
    const nlohmann::json& hparams,
    const std::vector<std::string>& unread) const {
  const nlohmann::json& space = config_.hyperparameters;
  std::vector<std::string> found;
  if (space.is_object() && hparams.is_object()) {
    AppendSearched(space, hparams, "", unread, found);
  }
  return found;
}

}  // namespace dtrain
