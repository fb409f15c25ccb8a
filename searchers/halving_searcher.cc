#include "searchers/halving_searcher.h"

#include <algorithm>
#include <stdexcept>

#include "searchers/search_plan.h"

namespace dtrain {

HalvingSearcher::HalvingSearcher(const SearcherConfig& config,
                                 const nlohmann::json& hyperparameters,
                                 std::uint32_t seed)
    : smaller_is_better_(config.smaller_is_better),
      roster_(hyperparameters, config.points, seed) {
  const auto method = config.stop_once ? AshaBracket::Method::kStopping
                                       : AshaBracket::Method::kPromotion;
  for (const Bracket& bracket : PlanBrackets(config)) {
    brackets_.emplace_back(bracket, config.divisor, method);
  }
}

std::vector<Operation> HalvingSearcher::Handle(const Event& event) {
  std::vector<Operation> operations;
  Dispatch(event, operations);
  const bool ends = std::get_if<Closed>(&event) != nullptr ||
                    std::get_if<ExitedEarly>(&event) != nullptr;
  NoteProgress(ends && roster_.ShutDownIfOver(operations));
  return operations;
}

void HalvingSearcher::Dispatch(const Event& event,
                               std::vector<Operation>& operations) {
  if (std::get_if<Started>(&event)) {
    for (std::size_t i = 0; i < brackets_.size(); ++i) {
      brackets_[i].Start(roster_, operations);
      NoteCreated(i);
    }
  } else if (const auto* done = std::get_if<ValidationCompleted>(&event)) {
    BracketOf(done->trial)
        .Complete(done->trial,
                  smaller_is_better_ ? done->metric : -done->metric, roster_,
                  operations);
    NoteCreated(bracket_of_[static_cast<std::size_t>(done->trial)]);
  } else if (const auto* closed = std::get_if<Closed>(&event)) {
    roster_.End(std::nullopt);
    BracketOf(closed->trial).End(closed->trial);
  } else if (const auto* early = std::get_if<ExitedEarly>(&event)) {
    roster_.End(early->reason);
    BracketOf(early->trial)
        .Exit(early->trial, early->reason, roster_, operations);
    NoteCreated(bracket_of_[static_cast<std::size_t>(early->trial)]);
  }
}

AshaBracket& HalvingSearcher::BracketOf(TrialIndex trial) {
  return brackets_[bracket_of_.at(static_cast<std::size_t>(trial))];
}

// The trials created since belong to this bracket.
void HalvingSearcher::NoteCreated(std::size_t bracket) {
  bracket_of_.resize(static_cast<std::size_t>(roster_.created()),
                     static_cast<std::uint32_t>(bracket));
}

void HalvingSearcher::NoteProgress(bool over) {
  double sum = 0;
  for (const AshaBracket& bracket : brackets_) sum += bracket.Progress();
  const double mean = sum / static_cast<double>(brackets_.size());
  progress_ = over ? 1 : std::max(progress_, std::min(mean, 1.0));
}

nlohmann::json HalvingSearcher::Save() const {
  nlohmann::json brackets = nlohmann::json::array();
  for (const AshaBracket& bracket : brackets_) {
    brackets.push_back(bracket.Save());
  }
  return {{"trials", roster_.Save()},
          {"brackets", std::move(brackets)},
          {"bracket_of", bracket_of_},
          {"progress", progress_}};
}

void HalvingSearcher::Load(const nlohmann::json& state) {
  try {
    roster_.Load(state.at("trials"));
    for (std::size_t i = 0; i < brackets_.size(); ++i) {
      brackets_[i].Load(state.at("brackets").at(i));
    }
    bracket_of_ = state.at("bracket_of").get<std::vector<std::uint32_t>>();
    progress_ = state.at("progress");
  } catch (const nlohmann::json::exception& error) {
    throw std::invalid_argument(error.what());
  }
}

std::unique_ptr<Searcher> MakeHalvingSearcher(
    const SearcherConfig& config, const nlohmann::json& hyperparameters,
    std::uint32_t seed) {
  return std::make_unique<HalvingSearcher>(config, hyperparameters, seed);
}

}  // namespace dtrain
