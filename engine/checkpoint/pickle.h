#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace dtrain {

/// Index of a value among the values of its pickle.
using PickleIndex = std::uint32_t;

struct PickleNone {};
/// The name of a class or function.
struct PickleGlobal {
  std::string_view module;
  std::string_view name;

  std::string FullName() const;
};
struct PickleText {
  std::string_view text;
};
/// A byte string.
struct PickleBytes {
  std::string_view bytes;
};
/// An integer of more than 64 bits: two's complement, lowest byte first.
struct PickleLong {
  std::string_view bytes;
};
/// A list, a tuple or a set.
struct PickleList {
  std::vector<PickleIndex> items;
};
/// A dict or an OrderedDict, in its order. Keys may recur; the last one counts.
struct PickleDict {
  std::vector<std::pair<PickleIndex, PickleIndex>> items;
};
/// A reference that only the program that wrote the pickle can resolve.
struct PicklePersistentId {
  PickleIndex id = 0;
};
/// The result that Python would get by calling `function`, a global.
struct PickleCall {
  PickleIndex function = 0;
  PickleIndex arguments = 0;
};

using PickleValue =
    std::variant<PickleNone, bool, std::int64_t, double, PickleText,
                 PickleBytes, PickleLong, PickleList, PickleDict, PickleGlobal,
                 PicklePersistentId, PickleCall>;

/// A Python pickle of protocol 2 to 5 (described by PEP 3154 and CPython's
/// pickletools) as plain data. Executes nothing. Accepts the functions of a
/// state dict and of a training loop's checkpoint, and objects of any class:
/// one that has items is a list or a dict of them, any other is a PickleCall
/// without its state. Refuses other functions, and classes of modules that
/// start programs or load code, by name.
///
/// Values refer to each other by index, so shared values stay shared and cycles
/// are harmless; code that follows indices must bound its depth. The reader
/// does not recurse; its memory is a small multiple of the bytes read.
class Pickle {
 public:
  /// Reads the pickle at the start of `bytes`. REQUIRES: `bytes` outlives
  /// this. Throws Error(kFailed) that names `what` and the fault.
  Pickle(std::span<const std::byte> bytes, const std::string& what);

  const PickleValue& root() const { return values_[root_]; }
  const PickleValue& operator[](PickleIndex index) const {
    return values_[index];
  }
  /// Returns the value at `index` if it is a `T`, else null.
  template <typename T>
  const T* Get(PickleIndex index) const {
    return std::get_if<T>(&values_[index]);
  }
  std::span<const PickleValue> values() const { return values_; }
  /// Bytes that the pickle occupies.
  std::size_t size() const { return size_; }

 private:
  std::vector<PickleValue> values_;
  PickleIndex root_ = 0;
  std::size_t size_ = 0;
};

}  // namespace dtrain
