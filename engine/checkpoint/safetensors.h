#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain {

/// One tensor of a safetensors file: what the header says of it and its bytes,
/// row-major and little-endian, which are not owned.
struct TensorBytes {
  std::string name;
  std::string dtype;  // "F32", "I64", … as the format spells it
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

/// Bytes of one element of `dtype`, or nothing if the format has no such type.
std::optional<std::size_t> ElementSize(std::string_view dtype);

/// Bytes of a tensor of that type and shape; nothing if that is no number.
std::optional<std::size_t> TensorSize(std::string_view dtype,
                                      std::span<const std::int64_t> shape);

/// The length and the JSON header of a file of `tensors`; their bytes follow it
/// in the order given. REQUIRES: names differ, and every tensor has as many
/// bytes as its shape and type ask for.
std::string SafetensorsHeader(std::span<const TensorBytes> tensors);

/// The tensors of a whole file, in the order of their bytes; they refer to
/// `file`. Strict: throws Error(kFailed) that names `what` and the fault for
/// everything the format forbids (bounds, overlaps, holes, unknown types,
/// sizes that do not fit, a header above 100 MB).
std::vector<TensorBytes> ReadSafetensors(std::span<const std::byte> file,
                                         const std::string& what);

}  // namespace dtrain
