// All random numbers of a search come from one stream in the order of creation,
// which is what makes searches equal to Determined's. Points have a second
// stream.

#include "searchers/trial_roster.h"

#include <utility>

#include "searchers/hparam_space.h"

namespace dtrain {
namespace {

// Number of invalid trials that are always replaced.
constexpr std::int64_t kInvalidAllowed = 1000;

}  // namespace

// Seeds are below 2^31, so the complement is not the seed of any experiment.
TrialRoster::TrialRoster(nlohmann::json space,
                         std::vector<nlohmann::json> points, std::uint32_t seed)
    : space_(std::move(space)),
      points_(std::move(points)),
      rng_(seed),
      point_rng_(~seed),
      constant_(IsConstant(space_)) {}

TrialIndex TrialRoster::Create(std::vector<Operation>& operations) {
  const bool point = HasPoint();
  Rng& rng = point ? point_rng_ : rng_;
  Sample sample =
      point ? Identify(HparamsOfPoint(space_, points_[points_used_++]), rng)
            : SampleTrial(space_, rng);
  operations.push_back(dtrain::Create{created_, std::move(sample.request_id),
                                      std::move(sample.hparams), sample.seed});
  return created_++;
}

TrialIndex TrialRoster::Create(nlohmann::json hparams,
                               std::vector<Operation>& operations) {
  Sample sample = Identify(std::move(hparams), rng_);
  operations.push_back(dtrain::Create{created_, std::move(sample.request_id),
                                      std::move(sample.hparams), sample.seed});
  return created_++;
}

void TrialRoster::End(std::optional<ExitReason> exit) {
  ++ended_;
  if (exit == ExitReason::kErrored) ++errored_;
  if (exit == ExitReason::kInvalidHp) ++invalid_;
}

bool TrialRoster::MayReplace() const {
  if (constant_) return false;
  return invalid_ < kInvalidAllowed || invalid_ * 10 < created_ * 9;
}

bool TrialRoster::ShutDownIfOver(std::vector<Operation>& operations) const {
  if (ended_ < created_) return false;
  operations.push_back(Shutdown{.failed = errored_ + invalid_ == created_});
  return true;
}

nlohmann::json TrialRoster::Save() const {
  return {{"rng", rng_.Save()},
          {"point_rng", point_rng_.Save()},
          {"points_used", points_used_},
          {"created", created_},
          {"ended", ended_},
          {"errored", errored_},
          {"invalid", invalid_}};
}

void TrialRoster::Load(const nlohmann::json& state) {
  rng_.Load(state.at("rng"));
  point_rng_.Load(state.at("point_rng"));
  points_used_ = state.at("points_used");
  created_ = state.at("created");
  ended_ = state.at("ended");
  errored_ = state.at("errored");
  invalid_ = state.at("invalid");
}

}  // namespace dtrain
