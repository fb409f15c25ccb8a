#include "engine/ranks/shared_group.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "engine/ranks/all_reduce.h"

namespace dtrain {
namespace {

// The part of `bytes` that is in a segment; empty beyond their end.
template <typename Byte>
std::span<Byte> SegmentOf(std::span<Byte> bytes, std::size_t segment) {
  const std::size_t start = std::min(segment * kSegmentBytes, bytes.size());
  return bytes.subspan(start, std::min(kSegmentBytes, bytes.size() - start));
}

void Move(std::span<const std::byte> from, std::byte* to) {
  if (!from.empty() && from.data() != to) {
    std::memmove(to, from.data(), from.size());
  }
}

}  // namespace

SharedGroup::SharedGroup(int memory_fd, int rank, int ranks,
                         GroupOptions options)
    : Collectives(rank, ranks),
      own_mapping_(std::in_place, memory_fd, ranks),
      mapping_(*own_mapping_),
      lane_(options.lane),
      meeting_(mapping_, lane_, rank, std::move(options.give_up)) {}

SharedGroup::SharedGroup(const RankMapping& mapping, int rank,
                         GroupOptions options)
    : Collectives(rank, mapping.ranks()),
      mapping_(mapping),
      lane_(options.lane),
      meeting_(mapping_, lane_, rank, std::move(options.give_up)) {}

void SharedGroup::Reduce(const CollectiveCall& call,
                         std::span<std::byte> values) {
  switch (call.type) {
    case CollectiveCall::Type::kFloat:
      return ReduceAs<float>(call, values);
    case CollectiveCall::Type::kDouble:
      return ReduceAs<double>(call, values);
    case CollectiveCall::Type::kInt64:
      return ReduceAs<std::int64_t>(call, values);
    case CollectiveCall::Type::kBytes:
      break;
  }
}

// In a step a rank stages one segment, reduces the one before and fetches the
// one before that, so one meeting a segment is enough. Two buffers are, too: a
// segment's is staged again two steps on, after all have reduced it; the result
// in it is written over three steps on, after all have fetched it.
template <typename T>
void SharedGroup::ReduceAs(const CollectiveCall& call,
                           std::span<std::byte> bytes) {
  if (ranks() == 1) return meeting_.Begin(call);
  const std::span<T> values(reinterpret_cast<T*>(bytes.data()),
                            bytes.size() / sizeof(T));
  const AllReduction<T> reduction(mapping_, lane_, rank(), uses_, values);
  const std::size_t segments = reduction.segments();
  uses_ += segments;
  for (std::size_t step = 0; step <= segments + 1; ++step) {
    if (step < segments) reduction.Stage(step);
    if (step >= 1 && step <= segments) {
      reduction.ReduceShare(step - 1, call.op);
    }
    if (step >= 2) reduction.Fetch(step - 2);
    if (step == 0) {
      meeting_.Begin(call);
    } else if (step <= segments) {
      meeting_.Meet();
    }
  }
}

void SharedGroup::Exchange(const CollectiveCall& call,
                           std::span<const std::byte> mine,
                           std::span<const std::span<std::byte>> into) {
  const auto rank_number = static_cast<std::size_t>(rank());
  std::size_t longest = 0;
  for (const auto& place : into) longest = std::max(longest, place.size());
  // One at least: it is where all learn of what the others call.
  const std::size_t segments =
      std::max<std::size_t>((longest + kSegmentBytes - 1) / kSegmentBytes, 1);
  if (ranks() == 1) {
    meeting_.Begin(call);
    return Move(mine, into[0].data());
  }
  for (std::size_t segment = 0; segment < segments; ++segment) {
    const std::size_t use = uses_++;
    Move(SegmentOf(mine, segment), Staging(rank(), use));
    if (segment == 0) {
      meeting_.Begin(call);
    } else {
      meeting_.Meet();
    }
    for (std::size_t rank = 0; rank < into.size(); ++rank) {
      if (rank == rank_number) continue;
      const std::span<std::byte> place = SegmentOf(into[rank], segment);
      Move({Staging(static_cast<int>(rank), use), place.size()}, place.data());
    }
  }
  Move(mine, into[rank_number].data());
}

std::byte* SharedGroup::Staging(int rank, std::size_t use) const {
  return mapping_.Staging(lane_, rank, static_cast<int>(use % 2));
}

}  // namespace dtrain
