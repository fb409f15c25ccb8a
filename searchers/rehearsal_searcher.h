#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "searchers/searcher.h"
#include "searchers/searcher_config.h"
#include "searchers/trial_roster.h"

namespace dtrain {

/// The name of this searcher. No configuration may ask for it.
inline constexpr std::string_view kRehearsal = "rehearsal";

/// What `create --test` runs on one slot: the first trial goes half of
/// `max_length`, has to make room for a second one, which goes as far, and is
/// restored for the other half. So everything happens once that happens to a
/// trial of a long search. If one fails, all is over.
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
  int done_ = 0;  // validations and ends, at most four
};

std::unique_ptr<Searcher> MakeRehearsalSearcher(
    const SearcherConfig& config, const nlohmann::json& hyperparameters,
    std::uint32_t seed);

}  // namespace dtrain
