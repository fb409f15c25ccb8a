#include "engine/image/resample_taps.h"

#include <algorithm>
#include <cmath>

namespace dtrain {

// The order of the operations is Pillow's (precompute_coeffs and
// normalize_coeffs_8bpc of src/libImaging/Resample.c), for the sake of the
// bits.
ResampleTaps::ResampleTaps(std::int64_t source, std::int64_t result,
                           std::int64_t begin, std::int64_t count) {
  const double scale =
      static_cast<double>(source) / static_cast<double>(result);
  const double support = std::max(scale, 1.0);
  const double per_support = 1.0 / support;
  std::vector<double> raw;
  for (std::int64_t i = begin; i < begin + count; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const auto first = std::max<std::int64_t>(
        0, static_cast<std::int64_t>(center - support + 0.5));
    const auto end =
        std::min(source, static_cast<std::int64_t>(center + support + 0.5));
    raw.clear();
    for (std::int64_t j = first; j < end; ++j) {
      const double distance =
          (static_cast<double>(j) - center + 0.5) * per_support;
      raw.push_back(std::max(0.0, 1.0 - std::abs(distance)));
    }
    spans_.push_back({first, end - first, pairs_.size()});
    AddWeights(raw);
  }
}

void ResampleTaps::AddWeights(const std::vector<double>& raw) {
  double sum = 0;
  for (const double weight : raw) sum += weight;
  for (std::size_t i = 0; i < raw.size(); ++i) {
    const double share = sum != 0 ? raw[i] / sum : raw[i];
    const auto weight =
        static_cast<std::int32_t>(0.5 + share * (1 << WeightPair::kBits));
    if (i % 2 == 0) pairs_.emplace_back();
    pairs_.back().high[i % 2] =
        static_cast<std::int16_t>(weight >> WeightPair::kLowBits);
    pairs_.back().low[i % 2] =
        static_cast<std::int16_t>(weight & ((1 << WeightPair::kLowBits) - 1));
  }
}

}  // namespace dtrain
