// Files of torch.save: where tensors and their storages are, in both formats.
// Nothing of a file is executed; pickle.cc has the reason and the method.
//
// Since PyTorch 1.6 a file is a ZIP archive: `data.pkl` describes the objects,
// and each storage is an entry below `data/`. Before that it was four pickles
// (a magic number, the protocol, facts about the system, the objects), a pickle
// with the list of storage keys, and the storages in that order, each with its
// number of elements in front.
//
// A tensor is a call of torch._utils._rebuild_tensor… with a storage (a
// persistent id), offset, shape and strides. All of these numbers come from the
// file: SizeInside checks with overflow that the last element lies inside of
// the storage, before any byte is read. REQUIRES clauses of ContiguousBytes and
// GatherBytes mean that it has.

#include "engine/checkpoint/torch_file.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/checkpoint/byte_reader.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/checkpoint/zip_file.h"

namespace dtrain {
namespace {

using Bytes = std::span<const std::byte>;

// PyTorch's own limit for tensors that are saved.
constexpr std::size_t kMaxTensorDimensions = 25;
// A parameter wraps a tensor; PyTorch does not wrap more often.
constexpr int kMaxWraps = 3;

constexpr std::array<std::pair<std::string_view, std::string_view>, 10>
    kStorages{{
        {"DoubleStorage", "F64"},
        {"FloatStorage", "F32"},
        {"HalfStorage", "F16"},
        {"BFloat16Storage", "BF16"},
        {"LongStorage", "I64"},
        {"IntStorage", "I32"},
        {"ShortStorage", "I16"},
        {"CharStorage", "I8"},
        {"ByteStorage", "U8"},
        {"BoolStorage", "BOOL"},
    }};

// Returns the integer at `index` if it is not negative.
std::optional<std::int64_t> CountAt(const Pickle& pickle, PickleIndex index) {
  const auto* number = pickle.Get<std::int64_t>(index);
  if (number == nullptr || *number < 0) return std::nullopt;
  return *number;
}

std::optional<std::vector<std::int64_t>> CountsAt(const Pickle& pickle,
                                                  PickleIndex index) {
  const auto* list = pickle.Get<PickleList>(index);
  if (list == nullptr || list->items.size() > kMaxTensorDimensions) {
    return std::nullopt;
  }
  std::vector<std::int64_t> counts;
  for (const PickleIndex item : list->items) {
    const auto count = CountAt(pickle, item);
    if (!count) return std::nullopt;
    counts.push_back(*count);
  }
  return counts;
}

// The parts of a call of torch._utils.NAME.
struct UtilsCall {
  std::string_view name;
  std::span<const PickleIndex> arguments;
};

std::optional<UtilsCall> UtilsCallAt(const Pickle& pickle, PickleIndex index) {
  const auto* call = pickle.Get<PickleCall>(index);
  if (call == nullptr) return std::nullopt;
  const auto* global = pickle.Get<PickleGlobal>(call->function);
  const auto* arguments = pickle.Get<PickleList>(call->arguments);
  if (global == nullptr || global->module != "torch._utils" ||
      arguments == nullptr) {
    return std::nullopt;
  }
  return UtilsCall{global->name, arguments->items};
}

// Returns the call that builds the tensor, inside of calls that make it a
// parameter.
std::optional<UtilsCall> RebuildCallAt(const Pickle& pickle,
                                       PickleIndex index) {
  auto call = UtilsCallAt(pickle, index);
  for (int wraps = 0; call && call->name.starts_with("_rebuild_parameter");
       ++wraps) {
    if (call->arguments.empty() || wraps == kMaxWraps) return std::nullopt;
    call = UtilsCallAt(pickle, call->arguments[0]);
  }
  return call;
}

// Returns the position of the first element in bytes.
std::size_t FirstByte(const StridedTensor& tensor, std::size_t element) {
  return static_cast<std::size_t>(tensor.storage.offset + tensor.offset) *
         element;
}

// A template, so that the compiler copies an element in one instruction.
template <std::size_t element>
std::vector<std::byte> Gather(const StridedTensor& tensor, Bytes storage,
                              std::size_t size) {
  std::size_t source = FirstByte(tensor, element);
  std::vector<std::byte> bytes(size);
  std::vector<std::int64_t> at(tensor.shape.size());
  for (std::size_t done = 0; done < size; done += element) {
    std::memcpy(&bytes[done], &storage[source], element);
    // Advances to the next element; the last index runs fastest. Unsigned,
    // since a dimension of one element may have any stride.
    for (std::size_t i = at.size(); i > 0; --i) {
      const auto step =
          static_cast<std::size_t>(tensor.strides[i - 1]) * element;
      source += step;
      if (++at[i - 1] < tensor.shape[i - 1]) break;
      source -= step * static_cast<std::size_t>(tensor.shape[i - 1]);
      at[i - 1] = 0;
    }
  }
  return bytes;
}

}  // namespace

std::optional<std::string_view> StorageName(std::string_view dtype) {
  const auto* found = std::ranges::find(
      kStorages, dtype, &std::pair<std::string_view, std::string_view>::second);
  if (found == kStorages.end()) return std::nullopt;
  return found->first;
}

std::optional<StorageReference> ReadStorageReference(const Pickle& pickle,
                                                     PickleIndex index) {
  const auto* id = pickle.Get<PicklePersistentId>(index);
  if (id == nullptr) return std::nullopt;
  // ("storage", type, key, device, elements), and a view's key, offset and
  // elements in the format before PyTorch 1.6.
  const auto* parts = pickle.Get<PickleList>(id->id);
  if (parts == nullptr || parts->items.size() < 5) return std::nullopt;
  const auto& items = parts->items;
  const auto* kind = pickle.Get<PickleText>(items[0]);
  const auto* type = pickle.Get<PickleGlobal>(items[1]);
  const auto* key = pickle.Get<PickleText>(items[2]);
  const auto numel = CountAt(pickle, items[4]);
  if (kind == nullptr || kind->text != "storage" || type == nullptr ||
      key == nullptr || !numel) {
    return std::nullopt;
  }
  const auto* known =
      std::ranges::find(kStorages, type->name,
                        &std::pair<std::string_view, std::string_view>::first);
  if (known == kStorages.end() ||
      (type->module != "torch" && type->module != "torch.cuda")) {
    return std::nullopt;
  }
  StorageReference storage{
      .dtype = known->second, .key = key->text, .numel = *numel};
  const auto* view = items.size() > 5 ? pickle.Get<PickleList>(items[5])
                                      : static_cast<const PickleList*>(nullptr);
  if (view == nullptr) return storage;
  if (view->items.size() != 3) return std::nullopt;
  const auto offset = CountAt(pickle, view->items[1]);
  const auto size = CountAt(pickle, view->items[2]);
  if (!offset || !size) return std::nullopt;
  storage.offset = *offset;
  storage.numel = *size;
  return storage;
}

bool IsTensor(const Pickle& pickle, PickleIndex index) {
  const auto call = RebuildCallAt(pickle, index);
  return call && call->name.starts_with("_rebuild_tensor");
}

std::optional<StridedTensor> ReadTensor(const Pickle& pickle,
                                        PickleIndex index) {
  const auto call = RebuildCallAt(pickle, index);
  if (!call || call->arguments.size() < 4) return std::nullopt;
  const auto storage = ReadStorageReference(pickle, call->arguments[0]);
  const auto offset = CountAt(pickle, call->arguments[1]);
  auto shape = CountsAt(pickle, call->arguments[2]);
  auto strides = CountsAt(pickle, call->arguments[3]);
  if (!storage || !offset || !shape || !strides ||
      shape->size() != strides->size()) {
    return std::nullopt;
  }
  return StridedTensor{.storage = *storage,
                       .offset = *offset,
                       .shape = std::move(*shape),
                       .strides = std::move(*strides)};
}

std::optional<std::size_t> SizeInside(const StridedTensor& tensor,
                                      Bytes storage) {
  const auto& reference = tensor.storage;
  const auto size = TensorSize(tensor.storage.dtype, tensor.shape);
  // A tensor without elements reads nothing, so its strides may be anything.
  if (size == 0) return 0;
  std::int64_t last = tensor.offset;
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    std::int64_t reach = 0;
    if (__builtin_mul_overflow(tensor.shape[i] - 1, tensor.strides[i],
                               &reach) ||
        __builtin_add_overflow(last, reach, &last)) {
      return std::nullopt;
    }
  }
  if (!size || last >= reference.numel) return std::nullopt;
  const std::size_t elements =
      storage.size() / ElementSize(reference.dtype).value();
  const auto begin = static_cast<std::size_t>(reference.offset);
  const auto numel = static_cast<std::size_t>(reference.numel);
  if (begin > elements || numel > elements - begin) return std::nullopt;
  return size;
}

std::optional<Bytes> ContiguousBytes(const StridedTensor& tensor,
                                     Bytes storage) {
  if (std::ranges::find(tensor.shape, 0) != tensor.shape.end()) return Bytes{};
  std::int64_t elements = 1;
  for (std::size_t i = tensor.shape.size(); i > 0; --i) {
    if (tensor.shape[i - 1] != 1 && tensor.strides[i - 1] != elements) {
      return std::nullopt;
    }
    elements *= tensor.shape[i - 1];
  }
  const std::size_t element = ElementSize(tensor.storage.dtype).value();
  return storage.subspan(FirstByte(tensor, element),
                         static_cast<std::size_t>(elements) * element);
}

std::vector<std::byte> GatherBytes(const StridedTensor& tensor, Bytes storage,
                                   std::size_t size) {
  switch (ElementSize(tensor.storage.dtype).value()) {
    case 1:
      return Gather<1>(tensor, storage, size);
    case 2:
      return Gather<2>(tensor, storage, size);
    case 4:
      return Gather<4>(tensor, storage, size);
    default:
      return Gather<8>(tensor, storage, size);
  }
}

namespace {

using Bytes = std::span<const std::byte>;

constexpr std::string_view kZipMagic = "PK\3\4";
constexpr std::string_view kPickle = "/data.pkl";
// The number 0x1950a86a20f9469cfc6c, with which the older format begins.
constexpr std::string_view kLegacyMagic =
    "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
constexpr std::int64_t kLegacyProtocol = 1001;
constexpr std::byte kProto{0x80};

[[noreturn]] void FailTorchFile(const std::string& what,
                                const std::string& fault) {
  throw Error(ErrorKind::kFailed, what + ": " + fault);
}

std::string_view ToText(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Returns the archive's top directory, which contains all files.
std::string FindTopDirectory(const ZipFile& zip, const std::string& what) {
  for (const std::string_view name : zip.Names()) {
    const auto slash = name.find('/');
    if (slash != name.npos && name.substr(slash) == kPickle) {
      return std::string(name.substr(0, slash));
    }
  }
  FailTorchFile(what,
                "a ZIP archive without data.pkl, so not of torch.save; save "
                "model.state_dict() with torch.save");
}

// True if the description of the system that wrote the file says so.
bool IsBigEndian(const Pickle& system) {
  const auto* dict = std::get_if<PickleDict>(&system.root());
  if (dict == nullptr) return false;
  for (const auto& [key, value] : dict->items) {
    const auto* text = system.Get<PickleText>(key);
    const auto* little = system.Get<bool>(value);
    if (text != nullptr && little != nullptr && text->text == "little_endian") {
      return !*little;
    }
  }
  return false;
}

[[noreturn]] void RefuseBigEndian(const std::string& what) {
  FailTorchFile(
      what, "its numbers are big-endian; save it on a little-endian machine");
}

// The first three pickles of the older format.
std::size_t ReadLegacyHeader(Bytes file, const std::string& what) {
  const Pickle magic(file, what);
  const auto* number = std::get_if<PickleLong>(&magic.root());
  if (number == nullptr || number->bytes != kLegacyMagic) {
    FailTorchFile(what,
                  "a pickle, but not of torch.save; save model.state_dict() "
                  "with torch.save");
  }
  std::size_t position = magic.size();
  const Pickle protocol(file.subspan(position), what);
  const auto* version = std::get_if<std::int64_t>(&protocol.root());
  if (version == nullptr || *version != kLegacyProtocol) {
    FailTorchFile(what,
                  "of a version of torch.save's format that dtrain does not "
                  "read; save it again with PyTorch 1.6 or later");
  }
  position += protocol.size();
  const Pickle system(file.subspan(position), what);
  if (IsBigEndian(system)) RefuseBigEndian(what);
  return position + system.size();
}

}  // namespace

bool TorchFile::Is(Bytes file) {
  return ToText(file).starts_with(kZipMagic) ||
         (file.size() > 1 && file[0] == kProto && file[1] <= std::byte{5});
}

TorchFile::TorchFile(Bytes file, const std::string& what) {
  if (ToText(file).starts_with(kZipMagic)) {
    ReadZip(file, what);
  } else {
    ReadLegacy(file, what);
  }
}

void TorchFile::ReadZip(Bytes file, const std::string& what) {
  const ZipFile zip(file, what);
  const std::string directory = FindTopDirectory(zip, what);
  if (!zip.Names(directory + "/constants.pkl").empty() ||
      !zip.Names(directory + "/code/").empty()) {
    FailTorchFile(what,
                  "a TorchScript program, whose code dtrain does not run; save "
                  "model.state_dict() with torch.save");
  }
  const auto order = zip.Find(directory + "/byteorder");
  if (order && ToText(*order) != "little") RefuseBigEndian(what);
  pickle_.emplace(*zip.Find(directory + std::string(kPickle)), what);
  const std::string data = directory + "/data/";
  for (const std::string_view name : zip.Names(data)) {
    storages_.emplace(name.substr(data.size()), *zip.Find(name));
  }
}

void TorchFile::ReadLegacy(Bytes file, const std::string& what) {
  std::size_t position = ReadLegacyHeader(file, what);
  pickle_.emplace(file.subspan(position), what);
  position += pickle_->size();
  const Pickle keys(file.subspan(position), what);
  position += keys.size();
  // Bytes of an element, for each storage.
  std::map<std::string_view, std::size_t> sizes;
  for (PickleIndex i = 0; i < pickle_->values().size(); ++i) {
    const auto storage = ReadStorageReference(*pickle_, i);
    if (storage) sizes[storage->key] = ElementSize(storage->dtype).value();
  }
  ByteReader reader(file.subspan(position),
                    what + ": it ends too early; was it copied whole?");
  const auto* list = std::get_if<PickleList>(&keys.root());
  if (list == nullptr) FailTorchFile(what, "its list of storages is damaged");
  for (const PickleIndex item : list->items) {
    const auto* key = keys.Get<PickleText>(item);
    const auto size = key == nullptr ? sizes.end() : sizes.find(key->text);
    const auto count = reader.Number<std::uint64_t>();
    std::size_t bytes = 0;
    if (size == sizes.end() ||
        __builtin_mul_overflow(count, size->second, &bytes)) {
      FailTorchFile(what, "it has a storage of an unknown type or size");
    }
    storages_.emplace(key->text, reader.Bytes(bytes));
  }
}

std::optional<Bytes> TorchFile::Storage(std::string_view key) const {
  const auto found = storages_.find(key);
  if (found == storages_.end()) return std::nullopt;
  return found->second;
}

}  // namespace dtrain
