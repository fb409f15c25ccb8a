#include "searchers/single_searcher.h"

#include <stdexcept>

#include "searchers/hparam_space.h"

namespace dtrain {

SingleSearcher::SingleSearcher(const SearcherConfig& config,
                               const nlohmann::json& hyperparameters,
                               std::uint32_t seed)
    : max_length_(config.max_length), space_(hyperparameters), rng_(seed) {}

std::vector<Operation> SingleSearcher::Handle(const Event& event) {
  if (std::get_if<Started>(&event)) {
    const Sample sample = SampleTrial(space_, rng_);
    return {Create{0, sample.request_id, sample.hparams, sample.seed},
            ValidateAfter{0, max_length_}, Close{0}};
  }
  if (std::get_if<ValidationCompleted>(&event)) {
    done_ = true;
    return {};
  }
  if (std::get_if<Closed>(&event)) {
    ended_ = true;
    return {Shutdown{}};
  }
  if (const auto* early = std::get_if<ExitedEarly>(&event)) {
    ended_ = true;
    return {Shutdown{.failed = early->reason != ExitReason::kUserStop}};
  }
  return {};
}

double SingleSearcher::Progress() const { return done_ || ended_ ? 1 : 0; }

nlohmann::json SingleSearcher::Save() const {
  return {{"rng", rng_.Save()}, {"done", done_}, {"ended", ended_}};
}

void SingleSearcher::Load(const nlohmann::json& state) {
  try {
    rng_.Load(state.at("rng"));
    done_ = state.at("done");
    ended_ = state.at("ended");
  } catch (const nlohmann::json::exception& error) {
    throw std::invalid_argument(error.what());
  }
}

std::unique_ptr<Searcher> MakeSingleSearcher(
    const SearcherConfig& config, const nlohmann::json& hyperparameters,
    std::uint32_t seed) {
  return std::make_unique<SingleSearcher>(config, hyperparameters, seed);
}

}  // namespace dtrain
