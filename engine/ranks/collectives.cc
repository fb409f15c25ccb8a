// The operations that ranks use, in terms of two that an implementation
// provides: Exchange, which gives every rank the bytes of all ranks, and
// Reduce. A rank announces each operation as a CollectiveCall, and the
// implementations refuse it if the ranks' calls differ, since a mismatch would
// otherwise hang or mix up data. Texts need two exchanges, the sizes and then
// the bytes.

#include "engine/ranks/collectives.h"

#include <cassert>
#include <utility>

namespace dtrain {
namespace {

using Call = CollectiveCall;

std::span<std::byte> WritableBytes(std::string& text) {
  return std::as_writable_bytes(std::span(text));
}

template <typename T>
Call ReduceCall(Call::Type type, ReduceOp op, std::span<T> values) {
  return {.kind = Call::Kind::kAllReduce,
          .type = type,
          .op = op,
          .bytes = values.size_bytes()};
}

}  // namespace

Collectives::Collectives(int rank, int ranks) : rank_(rank), ranks_(ranks) {
  assert(rank >= 0 && rank < ranks);
}

void Collectives::Barrier() {
  const std::vector<std::span<std::byte>> nothing(
      static_cast<std::size_t>(ranks()));
  Exchange({.kind = Call::Kind::kBarrier}, {}, nothing);
}

void Collectives::AllReduce(std::span<float> values, ReduceOp op) {
  Reduce(ReduceCall(Call::Type::kFloat, op, values),
         std::as_writable_bytes(values));
}

void Collectives::AllReduce(std::span<double> values, ReduceOp op) {
  Reduce(ReduceCall(Call::Type::kDouble, op, values),
         std::as_writable_bytes(values));
}

void Collectives::AllReduce(std::span<std::int64_t> values, ReduceOp op) {
  Reduce(ReduceCall(Call::Type::kInt64, op, values),
         std::as_writable_bytes(values));
}

void Collectives::BroadcastAs(const CollectiveCall& call,
                              std::span<std::byte> bytes) {
  assert(call.root < ranks());
  std::vector<std::span<std::byte>> into(static_cast<std::size_t>(ranks()));
  into[call.root] = bytes;
  const bool gives = rank_ == call.root;
  Exchange(call, gives ? bytes : std::span<std::byte>(), into);
}

void Collectives::Broadcast(std::span<std::byte> bytes, int root) {
  BroadcastAs({.kind = Call::Kind::kBroadcast,
               .root = static_cast<std::uint8_t>(root),
               .bytes = bytes.size()},
              bytes);
}

std::string Collectives::BroadcastText(std::string text, int root) {
  Call call{.kind = Call::Kind::kBroadcastText,
            .root = static_cast<std::uint8_t>(root)};
  std::uint64_t size = text.size();
  BroadcastAs(call, std::as_writable_bytes(std::span(&size, 1)));
  text.resize(size);
  call.bytes = size;
  if (size > 0) BroadcastAs(call, WritableBytes(text));
  return text;
}

void Collectives::AllGather(std::span<const std::byte> mine,
                            std::span<std::byte> all) {
  const auto count = static_cast<std::size_t>(ranks());
  assert(all.size() == mine.size() * count);
  std::vector<std::span<std::byte>> into(count);
  for (std::size_t rank = 0; rank < count; ++rank) {
    into[rank] = all.subspan(rank * mine.size(), mine.size());
  }
  Exchange({.kind = Call::Kind::kAllGather, .bytes = mine.size()}, mine, into);
}

std::vector<std::string> Collectives::AllGatherText(std::string_view mine) {
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

}  // namespace dtrain
