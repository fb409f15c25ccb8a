#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain {

/// One tensor of a safetensors file: its header entry and its bytes, row-major
/// and little-endian, which are not owned.
struct TensorBytes {
  std::string name;
  std::string dtype;  // "F32", "I64", … as in the format
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

/// Returns the bytes of one element of `dtype`; nothing if it is unknown.
std::optional<std::size_t> ElementSize(std::string_view dtype);

/// Returns the bytes of a tensor of that type and shape; nothing if the type is
/// unknown or the size does not fit into 64 bits.
std::optional<std::size_t> TensorSize(std::string_view dtype,
                                      std::span<const std::int64_t> shape);

/// Returns the length and the JSON header of a file of `tensors`, whose bytes
/// follow in the given order. REQUIRES: names differ, and the size of every
/// tensor matches its shape and type.
std::string SafetensorsHeader(std::span<const TensorBytes> tensors);

/// Returns the tensors of a complete file in the order of their bytes, which
/// refer to `file`. Strict: throws Error(kFailed) that names `what` and the
/// fault for everything that the format forbids (bounds, overlaps, holes,
/// unknown types, sizes that do not match) and for a header above 16 MB.
std::vector<TensorBytes> ReadSafetensors(std::span<const std::byte> file,
                                         const std::string& what);

}  // namespace dtrain
