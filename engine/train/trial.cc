#include "engine/train/trial.h"

#include "engine/base/error.h"

namespace dtrain {

torch::Tensor Trial::Predict(const Batch&) { return {}; }

torch::Tensor Trial::Features(const Batch&) { return {}; }

void Trial::Load(const std::map<std::string, torch::Tensor>& state) {
  if (state.empty()) return;
  throw Error(ErrorKind::kFailed,
              "the checkpoint has state of the trial's own, and the trial has "
              "no Load for it");
}

}  // namespace dtrain
