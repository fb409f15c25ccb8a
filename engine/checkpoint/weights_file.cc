// Weights of other tools: reading safetensors files and state dicts of
// torch.save, and writing state dicts.
//
// The file is mapped, and tensors point into it. Only tensors that are not
// contiguous in their storage are copied; the copies are limited by the size of
// the file, since a stride of 0 lets a small file describe a tensor of any
// size.
//
// A checkpoint of a training program often has the state dict under a key
// beside other objects. FindStateDict takes the one under a usual key, or the
// dict itself; others are reported by other_keys, and --key names one. Values
// that are not tensors are left out unless they contain tensors: then something
// would be lost.
//
// WriteStateDict writes opcode by opcode what torch.save would write, and
// tensors with the same bytes share one storage, as tied weights do in PyTorch.
//
// StripPrefixes removes what wrappers put before names (DataParallel,
// torch.compile): as much as makes the most names agree with the model's.

#include "engine/checkpoint/weights_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/checkpoint/pickle.h"
#include "engine/checkpoint/torch_file.h"
#include "engine/os/system_error.h"
#include "engine/os/unique_fd.h"

namespace dtrain {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::array<std::string_view, 3> kWrappers = {"state_dict", "model",
                                                       "model_state_dict"};
// Added by a module's get_extra_state; not a tensor, so ignored.
constexpr std::string_view kExtraState = "_extra_state";
constexpr std::size_t kMaxTensors = 100'000;
// Tensors that repeat elements (stride 0) are copied; the copies may be this
// many times as large as the file.
constexpr std::size_t kMaxCopies = 4;
constexpr std::size_t kMinCopies = 1 << 20;
constexpr std::size_t kShownKeys = 5;

[[noreturn]] void FailWeights(const std::string& what,
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

// Returns the items with names as Python does: the last value of a name, in the
// position of the first.
std::vector<Item> ListItems(const Pickle& pickle, const PickleDict& dict) {
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

// Returns the class of an object, " (argparse.Namespace)"; empty for another
// value.
std::string FormatClass(const Pickle& pickle, const PickleValue& value) {
  const auto* call = std::get_if<PickleCall>(&value);
  const auto* global = call ? pickle.Get<PickleGlobal>(call->function)
                            : static_cast<const PickleGlobal*>(nullptr);
  return global == nullptr ? "" : " (" + global->FullName() + ")";
}

// Returns the first keys of the items, with the classes of objects.
std::string FormatKeys(const Pickle& pickle, const std::vector<Item>& items) {
  std::vector<std::string> keys;
  for (const Item& item : items) {
    if (keys.size() == kShownKeys) {
      keys.emplace_back("...");
      break;
    }
    keys.push_back(Quoted(item.name) + FormatClass(pickle, pickle[item.value]));
  }
  return keys.empty() ? "nothing under a name" : Join(keys, ", ");
}

// A dict of tensors in a file, and its key there; "": the file's own dict.
struct StateDict {
  std::string key;
  std::vector<Item> items;
};

// Returns the state dict under `key`, in which dots separate the keys of nested
// dicts.
StateDict GetStateDict(const Pickle& pickle, std::vector<Item> items,
                       const std::string& key, const std::string& what) {
  std::string_view rest = key;
  // The longest key that fits is taken, so that "a.b" is found as one key
  // before "b" in "a".
  while (!rest.empty()) {
    // A key may contain dots itself.
    const Item* longest = nullptr;
    for (const Item& item : items) {
      const bool is_it =
          rest == item.name || (rest.starts_with(item.name) &&
                                rest.substr(item.name.size()).starts_with('.'));
      if (is_it && !item.name.empty() &&
          (longest == nullptr || item.name.size() > longest->name.size())) {
        longest = &item;
      }
    }
    const auto* dict = longest ? pickle.Get<PickleDict>(longest->value)
                               : static_cast<const PickleDict*>(nullptr);
    if (dict == nullptr) {
      FailWeights(what, "it holds no dict " + Quoted(key) + ", but " +
                            FormatKeys(pickle, items));
    }
    rest.remove_prefix(std::min(longest->name.size() + 1, rest.size()));
    items = ListItems(pickle, *dict);
  }
  if (!HasTensor(pickle, items)) {
    FailWeights(what, Quoted(key) + " is not a dict of tensors, but one of " +
                          FormatKeys(pickle, items));
  }
  return {.key = key, .items = std::move(items)};
}

// Returns the state dict, which may be inside of a checkpoint, and the keys of
// the others.
StateDict FindStateDict(const Pickle& pickle, const std::string& key,
                        const std::string& what,
                        std::vector<std::string>& others) {
  const auto* root = std::get_if<PickleDict>(&pickle.root());
  if (root == nullptr) {
    const std::string name = FormatClass(pickle, pickle.root());
    FailWeights(what, name.empty()
                          ? "it holds no dict of tensors; save "
                            "model.state_dict()"
                          : "it is a whole object" + name +
                                ", which only its program can load; save "
                                "model.state_dict() instead");
  }
  const std::vector<Item> items = ListItems(pickle, *root);
  std::vector<StateDict> inner;
  for (const Item& item : items) {
    const auto* dict = pickle.Get<PickleDict>(item.value);
    if (dict == nullptr) continue;
    auto tensors = ListItems(pickle, *dict);
    if (!HasTensor(pickle, tensors)) continue;
    inner.push_back(
        {.key = std::string(item.name), .items = std::move(tensors)});
  }
  std::optional<StateDict> chosen;
  if (!key.empty()) {
    chosen = GetStateDict(pickle, items, key, what);
  } else {
    const auto usual = std::ranges::find_if(inner, [](const StateDict& one) {
      return std::ranges::find(kWrappers, one.key) != kWrappers.end();
    });
    if (usual != inner.end()) {
      chosen = *usual;
    } else if (HasTensor(pickle, items)) {
      chosen = StateDict{.items = items};
    }
  }
  std::vector<Item> keys;
  for (const StateDict& one : inner) {
    if (chosen && one.key == chosen->key) continue;
    others.push_back(one.key);
    keys.push_back({.name = one.key});
  }
  if (chosen) return *std::move(chosen);
  FailWeights(
      what,
      others.empty()
          ? "it holds no state dict, but " + FormatKeys(pickle, items) +
                "; save model.state_dict()"
          : "it holds its tensors under " + FormatKeys(pickle, keys) +
                "; 'dtrain checkpoint import' with --key reads one of them");
}

// Returns true if there is a tensor in the value at `index`, at any depth.
bool ContainsTensor(const Pickle& pickle, PickleIndex index) {
  std::unordered_set<PickleIndex> seen;
  std::vector<PickleIndex> left = {index};
  const auto add = [&](PickleIndex next) {
    if (seen.insert(next).second) left.push_back(next);
  };
  while (!left.empty()) {
    const PickleIndex at = left.back();
    left.pop_back();
    if (pickle.Get<PicklePersistentId>(at) != nullptr || IsTensor(pickle, at)) {
      return true;
    }
    if (const auto* list = pickle.Get<PickleList>(at)) {
      std::ranges::for_each(list->items, add);
    } else if (const auto* dict = pickle.Get<PickleDict>(at)) {
      for (const auto& [key, value] : dict->items) add(value);
    } else if (const auto* call = pickle.Get<PickleCall>(at)) {
      add(call->arguments);
    }
  }
  return false;
}

void KeepTensors(const Pickle& pickle, std::vector<Item>& items,
                 const std::string& what) {
  std::erase_if(items, [&](const Item& item) {
    if (IsTensor(pickle, item.value)) return false;
    // A state dict may contain such items beside tensors.
    if (item.name.ends_with(kExtraState) ||
        !ContainsTensor(pickle, item.value)) {
      return true;
    }
    FailWeights(
        what,
        Quoted(item.name) +
            " among its tensors is not a tensor; save model.state_dict()");
  });
  if (items.size() > kMaxTensors) {
    FailWeights(what,
                "it has more than " + std::to_string(kMaxTensors) + " tensors");
  }
}

StridedTensor DescribeTensor(const Pickle& pickle, const Item& item,
                             const std::string& what) {
  if (!IsValidUtf8(item.name)) {
    FailWeights(what, "the name " + Quoted(item.name) + " is not UTF-8");
  }
  auto tensor = ReadTensor(pickle, item.value);
  if (!tensor) {
    FailWeights(
        what, "tensor " + Quoted(item.name) +
                  " has a type or layout that dtrain does not read; it reads "
                  "dense tensors of float64, 32, 16, bfloat16, int64, 32, 16, "
                  "8, uint8 and bool");
  }
  return *std::move(tensor);
}

}  // namespace

StateDictFile::StateDictFile(Bytes file, const std::string& what,
                             const std::string& key) {
  const TorchFile torch(file, what);
  const Pickle& pickle = torch.pickle();
  auto items = FindStateDict(pickle, key, what, other_keys_).items;
  KeepTensors(pickle, items, what);
  std::size_t left = std::max(kMaxCopies * file.size(), kMinCopies);
  for (const Item& item : items) {
    const StridedTensor tensor = DescribeTensor(pickle, item, what);
    const Bytes storage = torch.Storage(tensor.storage.key).value_or(Bytes{});
    const auto size = SizeInside(tensor, storage);
    if (!size) {
      FailWeights(what,
                  "tensor " + Quoted(item.name) +
                      " lies outside of its storage; was it copied whole?");
    }
    auto bytes = ContiguousBytes(tensor, storage);
    if (!bytes) {
      if (*size > left) {
        FailWeights(what,
                    "tensor " + Quoted(item.name) +
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

namespace {

// The archive's top directory, which contains all files.
constexpr std::string_view kDirectory = "archive/";

// Writes a pickle of protocol 2, opcode by opcode; the names are CPython's.
class PickleWriter {
 public:
  void Opcodes(std::string_view opcodes) { text_ += opcodes; }
  void Global(std::string_view module, std::string_view name) {
    text_.append("c").append(module).append("\n").append(name).append("\n");
  }
  void Unicode(std::string_view text) {
    Number('X', static_cast<std::uint32_t>(text.size()));
    text_ += text;
  }
  void Int(std::int64_t value) {
    if (std::in_range<std::uint8_t>(value)) {
      Number('K', static_cast<std::uint8_t>(value));
    } else if (std::in_range<std::int32_t>(value)) {
      Number('J', static_cast<std::int32_t>(value));
    } else {
      text_ += '\x8a';  // LONG1 of eight bytes
      Number('\x08', value);
    }
  }
  void Tuple(std::span<const std::int64_t> values) {
    text_ += '(';
    for (const std::int64_t value : values) Int(value);
    text_ += 't';
  }
  const std::string& text() const { return text_; }

 private:
  template <typename T>
  void Number(char opcode, T number) {
    text_ += opcode;
    text_.append(reinterpret_cast<const char*>(&number), sizeof number);
  }

  std::string text_;
};

// Numbers the memory of tensors, so that tensors with the same bytes share one
// storage.
class Storages {
 public:
  // Returns the number of the storage with the bytes of `tensor`.
  std::int64_t StorageNumber(const TensorBytes& tensor) {
    const auto number = static_cast<std::int64_t>(bytes_.size());
    const Identity identity(tensor.bytes.data(), tensor.bytes.size(),
                            tensor.dtype);
    if (!tensor.bytes.empty()) {
      const auto [known, is_new] = numbers_.emplace(identity, number);
      if (!is_new) return known->second;
    }
    bytes_.push_back(tensor.bytes);
    return number;
  }
  const std::vector<Bytes>& bytes() const { return bytes_; }

 private:
  using Identity = std::tuple<const std::byte*, std::size_t, std::string_view>;

  std::map<Identity, std::int64_t> numbers_;
  std::vector<Bytes> bytes_;
};

// Writes the call that rebuilds the tensor. Its arguments are the storage,
// offset, shape, strides, requires_grad and hooks.
void PickleTensor(PickleWriter& pickle, const TensorBytes& tensor,
                  std::int64_t storage) {
  const auto elements = static_cast<std::int64_t>(
      tensor.bytes.size() / ElementSize(tensor.dtype).value());
  pickle.Global("torch._utils", "_rebuild_tensor_v2");
  pickle.Opcodes("((");  // the arguments, and the first of them
  pickle.Unicode("storage");
  const auto type = StorageName(tensor.dtype);
  if (!type) {
    throw Error(ErrorKind::kUsage,
                "tensor '" + Truncate(EscapeForTerminal(tensor.name), 60) +
                    "' has the type " + tensor.dtype +
                    ", which dtrain cannot write as a state dict; write "
                    "safetensors");
  }
  pickle.Global("torch", *type);
  pickle.Unicode(std::to_string(storage));
  pickle.Unicode("cpu");
  pickle.Int(elements);
  pickle.Opcodes("tQ");  // a persistent id
  pickle.Int(0);
  pickle.Tuple(tensor.shape);
  std::vector<std::int64_t> strides(tensor.shape.size());  // contiguous
  std::int64_t stride = 1;
  for (std::size_t i = tensor.shape.size(); i > 0; --i) {
    strides[i - 1] = stride;
    const auto size = std::max<std::int64_t>(tensor.shape[i - 1], 1);
    // Overflows only for a tensor without elements.
    if (__builtin_mul_overflow(stride, size, &stride)) stride = 1;
  }
  pickle.Tuple(strides);
  pickle.Opcodes("\x89");  // no gradient
  pickle.Global("collections", "OrderedDict");
  pickle.Opcodes(")R");  // no hooks
  pickle.Opcodes("tR");  // the call
}

}  // namespace

void WriteStateDict(std::span<const TensorBytes> tensors,
                    const ByteSink& sink) {
  Storages storages;
  PickleWriter pickle;
  pickle.Opcodes("\x80\x02");  // the protocol
  pickle.Global("collections", "OrderedDict");
  pickle.Opcodes(")R");
  for (const TensorBytes& tensor : tensors) {
    pickle.Unicode(tensor.name);
    PickleTensor(pickle, tensor, storages.StorageNumber(tensor));
    pickle.Opcodes("s");  // an item of the dict
  }
  pickle.Opcodes(".");

  ZipWriter zip(sink);
  const auto add = [&](const std::string& name, Bytes bytes) {
    zip.Add(std::string(kDirectory) + name, bytes);
  };
  const auto add_text = [&](const std::string& name, std::string_view text) {
    add(name, std::as_bytes(std::span(text)));
  };
  add_text("data.pkl", pickle.text());
  add_text("byteorder", "little");
  std::size_t number = 0;
  for (const Bytes bytes : storages.bytes()) {
    add("data/" + std::to_string(number++), bytes);
  }
  add_text("version", "3\n");
  zip.Finish();
}

namespace {

constexpr std::array<std::string_view, 3> kWrapperPrefixes = {
    "module.", "_orig_mod.", "model."};

Bytes Map(const std::filesystem::path& path, const std::string& what) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) != 0) {
    ThrowSystemError("read the weights in " + what);
  }
  if (!S_ISREG(status.st_mode)) FailWeights(what, "not a regular file");
  if (status.st_size == 0)
    FailWeights(what, "the file is empty; download it again");
  const auto size = static_cast<std::size_t>(status.st_size);
  void* start =
      ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), /*offset=*/0);
  if (start == MAP_FAILED) ThrowSystemError("read the weights in " + what);
  return {static_cast<const std::byte*>(start), size};
}

// Returns the prefix that all names have after their first `start` bytes; empty
// if there is none.
std::string_view CommonPrefix(const std::vector<TensorBytes>& tensors,
                              std::size_t start) {
  for (const std::string_view prefix : kWrapperPrefixes) {
    const bool all = std::ranges::all_of(tensors, [&](const auto& tensor) {
      const auto rest = std::string_view(tensor.name).substr(start);
      return rest.size() > prefix.size() && rest.starts_with(prefix);
    });
    if (all) return prefix;
  }
  return {};
}

}  // namespace

WeightsFile::WeightsFile(WeightsFile&& other) noexcept
    : mapped_(std::exchange(other.mapped_, {})),
      safetensors_(std::move(other.safetensors_)),
      state_dict_(std::move(other.state_dict_)) {}

WeightsFile& WeightsFile::operator=(WeightsFile&& other) noexcept {
  std::swap(mapped_, other.mapped_);
  std::swap(safetensors_, other.safetensors_);
  std::swap(state_dict_, other.state_dict_);
  return *this;
}

WeightsFile::~WeightsFile() {
  if (mapped_.empty()) return;
  ::munmap(const_cast<std::byte*>(mapped_.data()), mapped_.size());
}

const std::vector<TensorBytes>& WeightsFile::tensors() const {
  return state_dict_ ? state_dict_->tensors() : safetensors_;
}

std::vector<std::string> WeightsFile::other_keys() const {
  return state_dict_ ? state_dict_->other_keys() : std::vector<std::string>();
}

WeightsFile OpenWeights(const std::filesystem::path& path,
                        const std::string& key) {
  const std::string what = EscapeForTerminal(path.string());
  WeightsFile weights(Map(path, what));
  // A JSON header follows its length.
  constexpr std::size_t kHeader = sizeof(std::uint64_t);
  if (weights.mapped_.size() > kHeader &&
      weights.mapped_[kHeader] == std::byte{'{'}) {
    if (!key.empty()) {
      FailWeights(what,
                  "a safetensors file has no keys; leave out " + Quoted(key));
    }
    weights.safetensors_ = ReadSafetensors(weights.mapped_, what);
  } else if (TorchFile::Is(weights.mapped_)) {
    weights.state_dict_.emplace(weights.mapped_, what, key);
  } else {
    FailWeights(
        what,
        "neither safetensors nor a file of torch.save; save the weights "
        "as one of them");
  }
  return weights;
}

std::string StripPrefixes(std::vector<TensorBytes>& tensors,
                          const std::set<std::string>& expected) {
  if (tensors.empty()) return {};
  const auto matches = [&](std::size_t start) {
    return std::ranges::count_if(tensors, [&](const TensorBytes& tensor) {
      return expected.contains(tensor.name.substr(start));
    });
  };
  std::size_t removed = 0;
  auto most = matches(0);
  std::size_t start = 0;
  for (auto prefix = CommonPrefix(tensors, 0); !prefix.empty();
       prefix = CommonPrefix(tensors, start)) {
    start += prefix.size();
    const auto matched = matches(start);
    if (!expected.empty() && matched <= most) continue;
    most = matched;
    removed = start;
  }
  const std::string prefix = tensors.front().name.substr(0, removed);
  for (TensorBytes& tensor : tensors) tensor.name.erase(0, removed);
  return prefix;
}

}  // namespace dtrain
