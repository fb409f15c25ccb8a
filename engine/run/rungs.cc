#include "engine/run/rungs.h"

namespace dtrain {
namespace {

std::string_view OneOf(Unit unit) {
  switch (unit) {
    case Unit::kBatches:
      return "batch";
    case Unit::kRecords:
      return "record";
    case Unit::kEpochs:
      return "epoch";
  }
  return "";
}

// "1 epoch", "100 batches".
std::string LengthText(std::int64_t count, Unit unit) {
  return std::to_string(count) + " " +
         std::string(count == 1 ? OneOf(unit) : UnitName(unit));
}

}  // namespace

std::string PositionText(std::int64_t count, Unit unit) {
  return std::string(OneOf(unit)) + " " + std::to_string(count);
}

Rungs::Rungs(const SearcherConfig& config, Unit unit)
    : brackets_(PlanBrackets(config)),
      unit_(unit),
      stop_once_(config.stop_once) {
  for (const Bracket& bracket : brackets_) {
    for (const std::int64_t length : bracket.rungs) done_[length] = 0;
  }
}

void Rungs::Count(std::int64_t length) { ++done_[length]; }

std::vector<RungStatus> Rungs::Status(const TrialTable::Live& live) const {
  std::vector<RungStatus> rungs;
  if (done_.size() < 2) return rungs;
  std::map<std::int64_t, std::int64_t> running;
  for (const auto& [number, trial] : live) {
    if (trial->process->running && trial->has_work()) {
      ++running[trial->operations.front()];
    }
  }
  for (const auto& [length, done] : done_) {
    rungs.push_back(
        {.length = {length, unit_}, .done = done, .running = running[length]});
  }
  return rungs;
}

std::string Rungs::WhyStopped(std::int64_t rung, std::int64_t trained) const {
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

}  // namespace dtrain
