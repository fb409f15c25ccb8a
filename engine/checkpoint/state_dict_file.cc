#include "engine/checkpoint/state_dict_file.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/checkpoint/pickle.h"
#include "engine/checkpoint/torch_file.h"
#include "engine/checkpoint/torch_tensor.h"

namespace dtrain {

namespace {

using Bytes = std::span<const std::byte>;

constexpr std::array<std::string_view, 3> kWrappers = {"state_dict", "model",
                                                       "model_state_dict"};
// What a module adds with get_extra_state: no tensor, and not for us.
constexpr std::string_view kExtraState = "_extra_state";
constexpr std::size_t kMostTensors = 100'000;
// Copies of tensors that repeat elements (stride 0) may be that many times as
// large as the file.
constexpr std::size_t kMostCopies = 4;
constexpr std::size_t kCopiesAtLeast = 1 << 20;
constexpr std::size_t kShownKeys = 5;

[[noreturn]] void FailStateDict(const std::string& what,
                                const std::string& fault) {
  throw Error(ErrorKind::kFailed, what + ": " + fault);
}

std::string Quoted(std::string_view name) {
  return std::string("'").append(Truncate(EscapeForTerminal(name), 60)) + "'";
}

struct Item {
  std::string_view name;
  PickleIndex value = 0;
};

// What a dict has under names, as Python has it: the last value of a name, at
// the place of the first.
std::vector<Item> ItemsOf(const Pickle& pickle, const PickleDict& dict) {
  std::vector<Item> items;
  std::unordered_map<std::string_view, std::size_t> places;
  for (const auto& [key, value] : dict.items) {
    const auto* name = pickle.Get<PickleText>(key);
    if (name == nullptr) continue;
    const auto [place, is_new] = places.emplace(name->text, items.size());
    if (is_new) items.push_back({.name = name->text});
    items[place->second].value = value;
  }
  return items;
}

bool HasTensor(const Pickle& pickle, const std::vector<Item>& items) {
  return std::ranges::any_of(
      items, [&](const Item& item) { return IsTensor(pickle, item.value); });
}

std::string Keys(const std::vector<Item>& items) {
  std::vector<std::string> keys;
  for (const Item& item : items) {
    if (keys.size() == kShownKeys) {
      keys.emplace_back("…");
      break;
    }
    keys.push_back(Quoted(item.name));
  }
  return keys.empty() ? "nothing under a name" : Join(keys, ", ");
}

// The items of the state dict, wherever the file has it.
std::vector<Item> StateDictOf(const Pickle& pickle, const std::string& what) {
  const auto* root = std::get_if<PickleDict>(&pickle.root());
  if (root == nullptr) {
    FailStateDict(what, "it holds no dict of tensors; save model.state_dict()");
  }
  std::vector<Item> items = ItemsOf(pickle, *root);
  for (const Item& item : items) {
    const auto* dict = pickle.Get<PickleDict>(item.value);
    if (dict == nullptr ||
        std::ranges::find(kWrappers, item.name) == kWrappers.end()) {
      continue;
    }
    auto wrapped = ItemsOf(pickle, *dict);
    if (HasTensor(pickle, wrapped)) return wrapped;
  }
  if (!HasTensor(pickle, items)) {
    FailStateDict(what, "it holds no state dict, but " + Keys(items) +
                            "; save model.state_dict()");
  }
  return items;
}

// Whether it may stand beside tensors without being one.
bool MayBeLeftOut(const Pickle& pickle, const Item& item) {
  const PickleValue& value = pickle[item.value];
  return item.name.ends_with(kExtraState) ||
         !(std::holds_alternative<PickleList>(value) ||
           std::holds_alternative<PickleDict>(value) ||
           std::holds_alternative<PickleCall>(value) ||
           std::holds_alternative<PicklePersistentId>(value));
}

void KeepTensors(const Pickle& pickle, std::vector<Item>& items,
                 const std::string& what) {
  std::erase_if(items, [&](const Item& item) {
    if (IsTensor(pickle, item.value)) return false;
    if (MayBeLeftOut(pickle, item)) return true;
    FailStateDict(what,
                  Quoted(item.name) +
                      " among its tensors is none; save model.state_dict()");
  });
  if (items.size() > kMostTensors) {
    FailStateDict(
        what, "it has more than " + std::to_string(kMostTensors) + " tensors");
  }
}

StridedTensor DescriptionOf(const Pickle& pickle, const Item& item,
                            const std::string& what) {
  if (!IsValidUtf8(item.name)) {
    FailStateDict(what, "the name " + Quoted(item.name) + " is no UTF-8");
  }
  auto tensor = TensorOf(pickle, item.value);
  if (!tensor) {
    FailStateDict(
        what, "tensor " + Quoted(item.name) +
                  " is of a kind that dtrain does not read; it reads dense "
                  "ones of float64, 32, 16, bfloat16, int64, 32, 16, 8, uint8 "
                  "and bool");
  }
  return *std::move(tensor);
}

}  // namespace

StateDictFile::StateDictFile(Bytes file, const std::string& what) {
  const TorchFile torch(file, what);
  const Pickle& pickle = torch.pickle();
  auto items = StateDictOf(pickle, what);
  KeepTensors(pickle, items, what);
  std::size_t left = std::max(kMostCopies * file.size(), kCopiesAtLeast);
  for (const Item& item : items) {
    const StridedTensor tensor = DescriptionOf(pickle, item, what);
    const Bytes storage = torch.Storage(tensor.storage.key).value_or(Bytes{});
    const auto size = SizeInside(tensor, storage);
    if (!size) {
      FailStateDict(what,
                    "tensor " + Quoted(item.name) +
                        " lies outside of its storage; was it copied whole?");
    }
    auto bytes = ContiguousBytes(tensor, storage);
    if (!bytes) {
      if (*size > left) {
        FailStateDict(
            what, "tensor " + Quoted(item.name) +
                      " is much larger than the file; save contiguous ones");
      }
      left -= *size;
      bytes = copies_.emplace_back(GatherBytes(tensor, storage, *size));
    }
    tensors_.push_back({.name = std::string(item.name),
                        .dtype = std::string(tensor.storage.dtype),
                        .shape = tensor.shape,
                        .bytes = *bytes});
  }
}

}  // namespace dtrain
