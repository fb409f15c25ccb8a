#include "engine/run/best_trial.h"

#include <cmath>

namespace dtrain {

bool BestTrial::IsBetter(double value,
                         const std::optional<BestValidation>& than) const {
  if (!than) return true;
  return smaller_is_better_ ? value < than->value : value > than->value;
}

bool BestTrial::Offer(TrialRow& trial, double value, std::int64_t batches) {
  if (!std::isfinite(value)) return false;
  const BestValidation offered{.value = value, .batches = batches};
  if (IsBetter(value, trial.best)) trial.best = offered;
  const bool first_of_equals =
      best_ && value == best_->value && trial.id.number < trial_;
  if (!IsBetter(value, best_) && !first_of_equals) return false;
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

void BestTrial::NoteSaved(TrialId trial, std::int64_t batches,
                          const std::string& uuid) {
  if (best_ && trial.number == trial_ && batches == best_->batches) {
    best_->checkpoint = uuid;
  }
}

void BestTrial::NoteDeleted(const std::string& uuid) {
  if (best_ && best_->checkpoint == uuid) best_->checkpoint.clear();
}

}  // namespace dtrain
