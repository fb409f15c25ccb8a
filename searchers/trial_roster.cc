// All random numbers of a search come from one stream in the order of creation,
// which is what makes searches equal to Determined's. Points have a second
// stream.
//
// A trial has two moments: Defer counts it, which is when the search has
// decided on it, and Create draws it. The trials are drawn in the order in
// which they were deferred, so the samples do not depend on when slots become
// free, and deferred ones need no memory.

#include "searchers/trial_roster.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace dtrain {
namespace {

// Number of invalid trials that are always replaced.
constexpr std::int64_t kInvalidAllowed = 1000;
constexpr auto kNoLimit = std::numeric_limits<std::int64_t>::max();

}  // namespace

// Seeds are below 2^31, so the complement is not the seed of any experiment.
TrialRoster::TrialRoster(nlohmann::json space, const SearcherConfig& config,
                         std::uint32_t seed)
    : space_(std::move(space)),
      points_(config.points),
      constraints_(space_, config.constraints),
      rng_(seed),
      point_rng_(~seed),
      constant_(IsConstant(space_)),
      ahead_(config.rules < 2 ? kNoLimit : config.creates_ahead) {}

void TrialRoster::Defer(std::int64_t trials) {
  created_ += trials;
  deferred_ += trials;
}

void TrialRoster::CreateAhead(std::int64_t trials) {
  ahead_ = std::max(ahead_, trials);
}

std::int64_t TrialRoster::ahead() const {
  return deferred_ > 0 ? ahead_ : kNoLimit;
}

TrialIndex TrialRoster::Create(std::vector<Operation>& operations) {
  // All that a point does not name, its request id and its seed come from the
  // second stream: adding a point to a configuration must not change the
  // samples that follow.
  const bool point = HasPoint();
  Rng& rng = point ? point_rng_ : rng_;
  nlohmann::json hparams;
  std::int64_t draws = 0;
  do {
    hparams = point ? HparamsOfPoint(space_, points_[points_used_], rng)
                    : SampleHparams(space_, rng);
  } while (!constraints_.Hold(hparams) &&
           ++draws < HparamConstraints::kMaxDraws);
  if (point) ++points_used_;
  return Append(Identify(std::move(hparams), rng), operations);
}

TrialIndex TrialRoster::Create(nlohmann::json hparams,
                               std::vector<Operation>& operations) {
  return Append(Identify(std::move(hparams), rng_), operations);
}

TrialIndex TrialRoster::Append(Sample sample,
                               std::vector<Operation>& operations) {
  if (deferred_ == 0) Defer(1);
  const TrialIndex trial = next();
  --deferred_;
  operations.push_back(dtrain::Create{trial, std::move(sample.request_id),
                                      std::move(sample.hparams), sample.seed});
  return trial;
}

void TrialRoster::End(std::optional<ExitReason> exit) {
  ++ended_;
  if (exit == ExitReason::kErrored) ++errored_;
  if (exit == ExitReason::kInvalidHp) ++invalid_;
}

void TrialRoster::Reopen(TrialIndex trial, std::optional<ExitReason> exit,
                         std::vector<Operation>& operations) {
  --ended_;
  if (exit == ExitReason::kErrored) --errored_;
  operations.push_back(dtrain::Reopen{trial});
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
          {"deferred", deferred_},
          {"ahead", ahead_},
          {"ended", ended_},
          {"errored", errored_},
          {"invalid", invalid_}};
}

void TrialRoster::Load(const nlohmann::json& state) {
  rng_.Load(state.at("rng"));
  point_rng_.Load(state.at("point_rng"));
  points_used_ = state.at("points_used");
  created_ = state.at("created");
  // Added in 0.2.0.
  deferred_ = state.value("deferred", std::int64_t{0});
  ahead_ = state.value("ahead", ahead_);
  ended_ = state.at("ended");
  errored_ = state.at("errored");
  invalid_ = state.at("invalid");
}

}  // namespace dtrain
