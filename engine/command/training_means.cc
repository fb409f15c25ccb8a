#include "engine/command/training_means.h"

#include <algorithm>
#include <utility>

namespace dtrain {

bool ReportRate::Take(Duration now) {
  const std::chrono::duration<double> passed = now - at_;
  at_ = now;
  left_ = std::min(burst_, left_ + passed.count() * per_second_);
  if (left_ < 1) return false;
  left_ -= 1;
  return true;
}

void TrainingMeans::Add(const ProgramTraining& report) {
  point_ = report.point;
  for (const auto& [name, value] : report.metrics) {
    const auto [sum, is_new] = sums_.try_emplace(name);
    if (is_new) names_.push_back(name);
    sum->second.total += value;
    ++sum->second.count;
  }
}

ProgramTraining TrainingMeans::Take() {
  ProgramTraining report{.point = point_};
  for (const std::string& name : names_) {
    const Sum& sum = sums_.at(name);
    report.metrics.emplace_back(name,
                                sum.total / static_cast<double>(sum.count));
  }
  names_.clear();
  sums_.clear();
  return report;
}

}  // namespace dtrain
