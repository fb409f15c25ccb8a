#pragma once

#include <memory>
#include <vector>

#include <nlohmann/json.hpp>

#include "searchers/rng.h"
#include "searchers/searcher.h"
#include "searchers/searcher_config.h"

namespace dtrain {

/// One trial, trained to `max_length` and closed. A hyperparameter that is a
/// range is sampled once.
class SingleSearcher final : public Searcher {
 public:
  SingleSearcher(const SearcherConfig& config,
                 const nlohmann::json& hyperparameters, std::uint32_t seed);

  std::vector<Operation> Handle(const Event& event) override;
  double Progress() const override;
  nlohmann::json Save() const override;
  void Load(const nlohmann::json& state) override;

 private:
  std::int64_t max_length_;
  nlohmann::json space_;
  Rng rng_;
  bool done_ = false;   // trained to its length
  bool ended_ = false;  // no trial any more
};

/// Makes a SingleSearcher, for the registry.
std::unique_ptr<Searcher> MakeSingleSearcher(
    const SearcherConfig& config, const nlohmann::json& hyperparameters,
    std::uint32_t seed);

}  // namespace dtrain
