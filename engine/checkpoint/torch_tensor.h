#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/checkpoint/pickle.h"

namespace dtrain {

/// A stretch of memory that tensors share, as a pickle refers to it.
struct StorageReference {
  std::string_view dtype;   // as safetensors spells it
  std::string_view key;     // under which the file has the bytes
  std::int64_t offset = 0;  // of the view, in elements
  std::int64_t numel = 0;   // elements of the view
};

/// A tensor as its pickle describes it: a view of a storage.
struct StridedTensor {
  StorageReference storage;
  std::int64_t offset = 0;  // in elements, behind the storage's own
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
};

/// PyTorch's name for storages of `dtype`, as safetensors spells it:
/// "FloatStorage" for "F32"; nothing if dtrain knows none.
std::optional<std::string_view> StorageName(std::string_view dtype);

/// The storage that the persistent id at `index` stands for; nothing if it
/// stands for none whose elements dtrain has a type for.
std::optional<StorageReference> StorageOf(const Pickle& pickle,
                                          PickleIndex index);

/// Whether the value at `index` is a tensor or a parameter, of any type.
bool IsTensor(const Pickle& pickle, PickleIndex index);

/// The tensor at `index`; nothing if its description makes no sense or its
/// elements are of a type that dtrain has not. REQUIRES: IsTensor.
std::optional<StridedTensor> TensorOf(const Pickle& pickle, PickleIndex index);

/// Where the elements of `tensor` lie one after the other in `storage`, or
/// nothing if they do not. REQUIRES: SizeInside gives a size.
std::optional<std::span<const std::byte>> ContiguousBytes(
    const StridedTensor& tensor, std::span<const std::byte> storage);

/// How many bytes its elements take together; nothing if an element lies
/// outside of its storage's view or of `storage`, the bytes under the key.
std::optional<std::size_t> SizeInside(const StridedTensor& tensor,
                                      std::span<const std::byte> storage);

/// Its elements one after the other, row by row. REQUIRES: SizeInside is
/// `size`.
std::vector<std::byte> GatherBytes(const StridedTensor& tensor,
                                   std::span<const std::byte> storage,
                                   std::size_t size);

}  // namespace dtrain
