#include "models/prepared_sets.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "engine/data/data_directory.h"
#include "engine/os/files.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

// The file: the sizes of the sets, then the labels and then the images of both,
// the first set before the second.
struct Header {
  std::uint64_t first = 0;
  std::uint64_t second = 0;
};

class Layout {
 public:
  Layout(std::int64_t channels, std::int64_t side)
      : shape_{0, channels, side, side},
        values_(static_cast<std::size_t>(channels * side * side)) {}

  std::size_t Bytes(const Header& header) const {
    return sizeof(Header) + (header.first + header.second) * (1 + values_);
  }

  std::optional<Header> Read(std::span<const std::uint8_t> bytes) const {
    Header header;
    if (bytes.size() < sizeof(header)) return std::nullopt;
    std::memcpy(&header, bytes.data(), sizeof(header));
    const bool sane = header.first > 0 && header.first < bytes.size() &&
                      header.second < bytes.size();
    if (!sane || Bytes(header) != bytes.size()) return std::nullopt;
    return header;
  }

  std::vector<std::uint8_t> Join(const LabeledBytes& first,
                                 const LabeledBytes& second) const {
    const Header header = {.first = first.labels.size(),
                           .second = second.labels.size()};
    std::vector<std::uint8_t> bytes(Bytes(header));
    std::memcpy(bytes.data(), &header, sizeof(header));
    auto to = bytes.begin() + sizeof(Header);
    to = std::ranges::copy(first.labels, to).out;
    to = std::ranges::copy(second.labels, to).out;
    to = std::ranges::copy(first.images, to).out;
    std::ranges::copy(second.images, to);
    return bytes;
  }

  // `count` samples from sample `from` of both sets on.
  ImageSet Slice(const SharedBytes& shared, const Header& header,
                 std::size_t from, std::size_t count) const {
    // Torch has no tensors of constants; nobody writes to a set.
    auto* labels =
        const_cast<std::uint8_t*>(shared.bytes.data()) + sizeof(Header);
    std::uint8_t* images = labels + header.first + header.second;
    std::vector<std::int64_t> shape = shape_;
    shape[0] = static_cast<std::int64_t>(count);
    // The lambda keeps the bytes until the last tensor over them is gone.
    return {.images = torch::from_blob(
                images + from * values_, shape,
                [owner = shared.owner](void*) {}, torch::kUInt8),
            .labels = torch::from_blob(labels + from, {shape[0]}, torch::kUInt8)
                          .to(torch::kInt64)};
  }

 private:
  std::vector<std::int64_t> shape_;
  std::size_t values_;  // of an image
};

}  // namespace

SetPair OpenSetPair(const PreparedSets& sets, const ReadVariable& variable) {
  const Layout layout(sets.channels, sets.side);
  const fs::path cache = CacheDirectory(variable);
  const SharedBytes shared = OpenSet(
      {.file = cache.empty() ? fs::path() : cache / "sets" / sets.name,
       .build =
           [&] {
             const auto [first, second] = sets.read();
             return layout.Join(first, second);
           },
       .valid = [&](auto bytes) { return layout.Read(bytes).has_value(); }});
  const Header header = *layout.Read(shared.bytes);
  return {.first = layout.Slice(shared, header, 0, header.first),
          .second = layout.Slice(shared, header, header.first, header.second)};
}

std::string FilesKey(std::span<const std::filesystem::path> files) {
  FileSetKey key;
  for (const fs::path& file : files) key.Add(file);
  return std::to_string(key.value());
}

}  // namespace dtrain
