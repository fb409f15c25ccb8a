#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

#include <nlohmann/json.hpp>

#include "searchers/registry.h"
#include "searchers/trial_roster.h"

namespace dtrain {
namespace {

constexpr TrialIndex kFirst = 0;
constexpr TrialIndex kSecond = 1;

// The search of `create --test`, on one slot: the first trial trains to half of
// `max_length` and is paused for a second one, which trains as far; then the
// first is restored and trains the other half. This covers everything that
// happens to a trial of a long search. If a trial fails, the search ends.
class RehearsalSearcher final : public Searcher {
 public:
  RehearsalSearcher(const SearcherConfig& config,
                    const nlohmann::json& hyperparameters, std::uint32_t seed);

  std::vector<Operation> Handle(const Event& event) override;
  double Progress() const override { return done_ / 4.0; }
  nlohmann::json Save() const override;
  void Load(const nlohmann::json& state) override;

 private:
  std::vector<Operation> OnValidation(const ValidationCompleted& event);

  std::int64_t max_length_;
  TrialRoster roster_;
  int done_ = 0;  // validations and ended trials, at most four
};

RehearsalSearcher::RehearsalSearcher(const SearcherConfig& config,
                                     const nlohmann::json& hyperparameters,
                                     std::uint32_t seed)
    : max_length_(config.max_length), roster_(hyperparameters, config, seed) {}

std::vector<Operation> RehearsalSearcher::Handle(const Event& event) {
  std::vector<Operation> operations;
  if (std::get_if<Started>(&event)) {
    (void)roster_.Create(operations);
    operations.push_back(ValidateAfter{kFirst, max_length_ / 2});
  } else if (const auto* validated = std::get_if<ValidationCompleted>(&event)) {
    return OnValidation(*validated);
  } else if (const auto* closed = std::get_if<Closed>(&event)) {
    ++done_;
    roster_.End(std::nullopt);
    // The first trial continues from its checkpoint now; had it ended early,
    // both would be over.
    if (closed->trial == kSecond && roster_.ended() == 1) {
      operations.push_back(ValidateAfter{kFirst, max_length_});
      operations.push_back(Close{kFirst});
    }
    (void)roster_.ShutDownIfOver(operations);
  } else if (const auto* early = std::get_if<ExitedEarly>(&event)) {
    roster_.End(early->reason);
    // The first trial waits for the second one, which has ended.
    if (early->trial == kSecond && roster_.ended() == 1) {
      operations.push_back(Close{kFirst});
    }
    (void)roster_.ShutDownIfOver(operations);
  }
  return operations;
}

std::vector<Operation> RehearsalSearcher::OnValidation(
    const ValidationCompleted& event) {
  done_ = std::min(done_ + 1, 4);
  std::vector<Operation> operations;
  if (event.trial == kFirst && event.length < max_length_) {
    (void)roster_.Create(operations);
    operations.push_back(ValidateAfter{kSecond, max_length_ / 2});
    operations.push_back(Close{kSecond});
  }
  return operations;
}

nlohmann::json RehearsalSearcher::Save() const {
  return {{"trials", roster_.Save()}, {"done", done_}};
}

void RehearsalSearcher::Load(const nlohmann::json& state) {
  try {
    roster_.Load(state.at("trials"));
    done_ = state.at("done");
  } catch (const nlohmann::json::exception& error) {
    throw std::invalid_argument(error.what());
  }
}

}  // namespace

std::unique_ptr<Searcher> MakeRehearsalSearcher(
    const SearcherConfig& config, const nlohmann::json& hyperparameters,
    std::uint32_t seed) {
  return std::make_unique<RehearsalSearcher>(config, hyperparameters, seed);
}

}  // namespace dtrain
