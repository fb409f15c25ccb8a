#include "engine/ranks/shared_group.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "engine/ranks/all_reduce.h"

namespace dtrain {
namespace {

using Call = CollectiveCall;

std::span<std::byte> WritableBytes(std::string& text) {
  return std::as_writable_bytes(std::span(text));
}

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
                         SharedGroupOptions options)
    : own_mapping_(std::in_place, memory_fd, ranks),
      mapping_(*own_mapping_),
      rank_(rank),
      lane_(options.lane),
      meeting_(mapping_, lane_, rank, std::move(options.give_up)) {
  assert(rank >= 0 && rank < ranks);
}

SharedGroup::SharedGroup(const RankMapping& mapping, int rank,
                         SharedGroupOptions options)
    : mapping_(mapping),
      rank_(rank),
      lane_(options.lane),
      meeting_(mapping_, lane_, rank, std::move(options.give_up)) {
  assert(rank >= 0 && rank < mapping.ranks());
}

void SharedGroup::Barrier() { meeting_.Begin({.kind = Call::Kind::kBarrier}); }

void SharedGroup::AllReduce(std::span<float> values, ReduceOp op) {
  AllReduceOf(values, {.type = Call::Type::kFloat, .op = op});
}

void SharedGroup::AllReduce(std::span<double> values, ReduceOp op) {
  AllReduceOf(values, {.type = Call::Type::kDouble, .op = op});
}

void SharedGroup::AllReduce(std::span<std::int64_t> values, ReduceOp op) {
  AllReduceOf(values, {.type = Call::Type::kInt64, .op = op});
}

// In a step a rank stages one segment, reduces the one before and fetches the
// one before that, so one meeting a segment is enough. Two buffers are, too: a
// segment's is staged again two steps on, after all have reduced it; the result
// in it is written over three steps on, after all have fetched it.
template <typename T>
void SharedGroup::AllReduceOf(std::span<T> values, CollectiveCall call) {
  call.kind = Call::Kind::kAllReduce;
  call.bytes = values.size_bytes();
  if (ranks() == 1) return meeting_.Begin(call);
  const AllReduction<T> reduction(mapping_, lane_, rank_, uses_, values);
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

// Every rank has `into` for what each rank gives, of the same sizes.
void SharedGroup::Exchange(const CollectiveCall& call,
                           std::span<const std::byte> mine,
                           std::span<const std::span<std::byte>> into) {
  const auto rank_number = static_cast<std::size_t>(rank_);
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
    Move(SegmentOf(mine, segment), Staging(rank_, use));
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

void SharedGroup::BroadcastAs(const CollectiveCall& call,
                              std::span<std::byte> bytes) {
  assert(call.root < ranks());
  std::vector<std::span<std::byte>> into(static_cast<std::size_t>(ranks()));
  into[call.root] = bytes;
  const bool gives = rank_ == call.root;
  Exchange(call, gives ? bytes : std::span<std::byte>(), into);
}

void SharedGroup::Broadcast(std::span<std::byte> bytes, int root) {
  BroadcastAs({.kind = Call::Kind::kBroadcast,
               .root = static_cast<std::uint8_t>(root),
               .bytes = bytes.size()},
              bytes);
}

std::string SharedGroup::BroadcastText(std::string text, int root) {
  Call call{.kind = Call::Kind::kBroadcastText,
            .root = static_cast<std::uint8_t>(root)};
  std::uint64_t size = text.size();
  BroadcastAs(call, std::as_writable_bytes(std::span(&size, 1)));
  text.resize(size);
  call.bytes = size;
  if (size > 0) BroadcastAs(call, WritableBytes(text));
  return text;
}

void SharedGroup::AllGather(std::span<const std::byte> mine,
                            std::span<std::byte> all) {
  const auto count = static_cast<std::size_t>(ranks());
  assert(all.size() == mine.size() * count);
  std::vector<std::span<std::byte>> into(count);
  for (std::size_t rank = 0; rank < count; ++rank) {
    into[rank] = all.subspan(rank * mine.size(), mine.size());
  }
  Exchange({.kind = Call::Kind::kAllGather, .bytes = mine.size()}, mine, into);
}

std::vector<std::string> SharedGroup::AllGatherText(std::string_view mine) {
  const auto count = static_cast<std::size_t>(ranks());
  const Call call{.kind = Call::Kind::kAllGatherText};
  const std::uint64_t size = mine.size();
  std::vector<std::uint64_t> sizes(count);
  std::vector<std::span<std::byte>> into(count);
  for (std::size_t rank = 0; rank < count; ++rank) {
    into[rank] = std::as_writable_bytes(std::span(&sizes[rank], 1));
  }
  Exchange(call, std::as_bytes(std::span(&size, 1)), into);
  std::vector<std::string> texts(count);
  for (std::size_t rank = 0; rank < count; ++rank) {
    texts[rank].resize(sizes[rank]);
    into[rank] = WritableBytes(texts[rank]);
  }
  Exchange(call, std::as_bytes(std::span(mine)), into);
  return texts;
}

std::byte* SharedGroup::Staging(int rank, std::size_t use) const {
  return mapping_.Staging(lane_, rank, static_cast<int>(use % 2));
}

}  // namespace dtrain
