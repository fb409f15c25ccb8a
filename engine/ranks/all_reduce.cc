#include "engine/ranks/all_reduce.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "engine/ranks/reduce.h"

namespace dtrain {
namespace {

// An empty span may have no address, which memcpy must not be given.
template <typename T>
void Copy(std::span<const T> from, T* to) {
  if (!from.empty()) std::memcpy(to, from.data(), from.size_bytes());
}

}  // namespace

template <typename T>
AllReduction<T>::AllReduction(const RankMapping& mapping, int lane, int rank,
                              std::size_t first_use, std::span<T> values)
    : mapping_(mapping),
      lane_(lane),
      rank_(static_cast<std::size_t>(rank)),
      ranks_(static_cast<std::size_t>(mapping.ranks())),
      first_use_(first_use),
      values_(values) {
  if (values.empty()) return;
  // Whole cache lines for each share.
  const std::size_t grain = kCacheLine / sizeof(T) * ranks_;
  const std::size_t most = kSegmentBytes / sizeof(T) / grain * grain;
  segments_ = (values.size() + most - 1) / most;
  const std::size_t even = (values.size() + segments_ - 1) / segments_;
  segment_ = (even + grain - 1) / grain * grain;
  share_ = segment_ / ranks_;
}

template <typename T>
std::span<T> AllReduction<T>::Slice(std::size_t start, std::size_t size) const {
  const std::size_t from = std::min(start, values_.size());
  return values_.subspan(from, std::min(size, values_.size() - from));
}

template <typename T>
std::span<T> AllReduction<T>::Share(std::size_t segment,
                                    std::size_t rank) const {
  return Slice(segment * segment_ + rank * share_, share_);
}

// Where `rank` stages the segment.
template <typename T>
T* AllReduction<T>::Staged(std::size_t segment, std::size_t rank) const {
  const auto buffer = static_cast<int>((first_use_ + segment) % 2);
  return reinterpret_cast<T*>(
      mapping_.Staging(lane_, static_cast<int>(rank), buffer));
}

template <typename T>
void AllReduction<T>::Stage(std::size_t segment) const {
  T* const staged = Staged(segment, rank_);
  const std::size_t start = segment * segment_;
  const std::size_t before = rank_ * share_;
  const std::size_t after = before + share_;
  Copy<T>(Slice(start, before), staged);
  Copy<T>(Slice(start + after, segment_ - after), staged + after);
}

template <typename T>
void AllReduction<T>::ReduceShare(std::size_t segment, ReduceOp op) const {
  const std::span<T> mine = Share(segment, rank_);
  std::array<const T*, kMaxRanks> sources;
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    sources[rank] =
        rank == rank_ ? mine.data() : Staged(segment, rank) + rank_ * share_;
  }
  const std::span<T> result(Staged(segment, rank_) + rank_ * share_,
                            mine.size());
  Reduce<T>(std::span(sources).first(ranks_), op, result);
  Copy<T>(result, mine.data());
}

template <typename T>
void AllReduction<T>::Fetch(std::size_t segment) const {
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    if (rank == rank_) continue;
    const std::span<T> share = Share(segment, rank);
    Copy<T>({Staged(segment, rank) + rank * share_, share.size()},
            share.data());
  }
}

template class AllReduction<float>;
template class AllReduction<double>;
template class AllReduction<std::int64_t>;

}  // namespace dtrain
