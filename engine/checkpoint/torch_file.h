#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/checkpoint/pickle.h"

namespace dtrain {

/// Reference of a pickle to a storage, memory that tensors may share.
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

/// Returns PyTorch's name for storages of `dtype`, as safetensors spells it:
/// "FloatStorage" for "F32"; nothing if dtrain knows none.
std::optional<std::string_view> StorageName(std::string_view dtype);

/// Returns the storage that the persistent id at `index` refers to; nothing if
/// there is none, or dtrain has no type for its elements.
std::optional<StorageReference> ReadStorageReference(const Pickle& pickle,
                                                     PickleIndex index);

/// True if the value at `index` is a tensor or a parameter, of any type.
bool IsTensor(const Pickle& pickle, PickleIndex index);

/// Returns the tensor at `index`; nothing if its description is invalid, or
/// dtrain has no type for its elements. REQUIRES: IsTensor.
std::optional<StridedTensor> ReadTensor(const Pickle& pickle,
                                        PickleIndex index);

/// Returns the elements of `tensor` if they are contiguous in `storage`, else
/// nothing. REQUIRES: SizeInside gives a size.
std::optional<std::span<const std::byte>> ContiguousBytes(
    const StridedTensor& tensor, std::span<const std::byte> storage);

/// Returns the bytes of all elements together; nothing if an element is outside
/// of its storage's view or of `storage`, the bytes under the key.
std::optional<std::size_t> SizeInside(const StridedTensor& tensor,
                                      std::span<const std::byte> storage);

/// Copies the elements in row-major order. REQUIRES: SizeInside is
/// `size`.
std::vector<std::byte> GatherBytes(const StridedTensor& tensor,
                                   std::span<const std::byte> storage,
                                   std::size_t size);

/// A file that torch.save wrote, as a pickle and the storages that it refers
/// to: a ZIP archive (torch/serialization.py since PyTorch 1.6), or five
/// pickles one after the other with the storages behind them (before).
class TorchFile {
 public:
  /// True if `file` begins like one.
  static bool Is(std::span<const std::byte> file);

  /// REQUIRES: `file` outlives this. Throws Error(kFailed) that names `what`
  /// and the fault.
  TorchFile(std::span<const std::byte> file, const std::string& what);

  const Pickle& pickle() const { return *pickle_; }
  /// Returns the bytes of the storage under `key`; nothing if there are none.
  std::optional<std::span<const std::byte>> Storage(std::string_view key) const;

 private:
  void ReadZip(std::span<const std::byte> file, const std::string& what);
  void ReadLegacy(std::span<const std::byte> file, const std::string& what);

  std::optional<Pickle> pickle_;
  std::map<std::string_view, std::span<const std::byte>> storages_;
};

}  // namespace dtrain
