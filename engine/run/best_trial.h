#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "engine/store/rows.h"

namespace dtrain {

/// The best validation of an experiment by the searcher's metric, with its
/// trial and checkpoint. NaN and infinities are never best; of equals the
/// first trial's is, whichever was faster, so that runs of one seed agree.
class BestTrial {
 public:
  explicit BestTrial(bool smaller_is_better)
      : smaller_is_better_(smaller_is_better) {}

  /// A trial was validated: notes it as the trial's best and as the best of
  /// all if it is. Tells whether it is the best of all now.
  bool Offer(TrialRow& trial, double value, std::int64_t batches);
  /// Goes on from what is recorded; `trial` is the one that holds it.
  void Set(const BestValidation& best, const TrialRow& trial);
  /// There is none, as far as is known.
  void Clear();

  /// A checkpoint was saved, or deleted.
  void NoteSaved(TrialId trial, std::int64_t batches, const std::string& uuid);
  void NoteDeleted(const std::string& uuid);

  const std::optional<BestValidation>& validation() const { return best_; }
  std::int64_t trial() const { return trial_; }  // its number; 0: none
  const nlohmann::json& hparams() const { return hparams_; }

 private:
  bool IsBetter(double value, const std::optional<BestValidation>& than) const;

  bool smaller_is_better_;
  std::optional<BestValidation> best_;
  std::int64_t trial_ = 0;
  nlohmann::json hparams_;
};

}  // namespace dtrain
