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

/// Where a value stands among the values of its pickle.
using PickleIndex = std::uint32_t;

struct PickleNone {};
/// A class or function that is named, no more.
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
/// A dict or an OrderedDict, in its order; keys may recur, the last one counts.
struct PickleDict {
  std::vector<std::pair<PickleIndex, PickleIndex>> items;
};
/// What only the program that wrote the pickle can look up.
struct PicklePersistentId {
  PickleIndex id = 0;
};
/// What Python would get by calling `function`, a global, with `arguments`.
struct PickleCall {
  PickleIndex function = 0;
  PickleIndex arguments = 0;
};

using PickleValue =
    std::variant<PickleNone, bool, std::int64_t, double, PickleText,
                 PickleBytes, PickleLong, PickleList, PickleDict, PickleGlobal,
                 PicklePersistentId, PickleCall>;

/// A pickle of Python's, protocols 2 to 5 (PEP 3154 and CPython's pickletools
/// describe them), as plain data. Executes nothing. Knows what a state dict
/// and the checkpoint of a training loop consist of, and refuses every other
/// class or function by its name.
///
/// Values refer to each other by index, so that what a pickle shares is shared
/// here too, and loops are harmless: whoever follows indices must bound how
/// far. Nothing in here recurses; memory is a small multiple of the bytes read.
class Pickle {
 public:
  /// Reads the pickle that `bytes` begins with. REQUIRES: `bytes` outlives
  /// this. Throws Error(kFailed) that names `what` and the fault.
  Pickle(std::span<const std::byte> bytes, const std::string& what);

  const PickleValue& root() const { return values_[root_]; }
  const PickleValue& operator[](PickleIndex index) const {
    return values_[index];
  }
  /// The value at `index` if it is a `T`, or null.
  template <typename T>
  const T* Get(PickleIndex index) const {
    return std::get_if<T>(&values_[index]);
  }
  std::span<const PickleValue> values() const { return values_; }
  /// How many bytes it took.
  std::size_t size() const { return size_; }

 private:
  std::vector<PickleValue> values_;
  PickleIndex root_ = 0;
  std::size_t size_ = 0;
};

}  // namespace dtrain
