#include "engine/checkpoint/torch_file.h"

#include <cstdint>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/checkpoint/byte_reader.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/checkpoint/torch_tensor.h"
#include "engine/checkpoint/zip_file.h"

namespace dtrain {

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

std::string_view TextOf(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The archive's one directory, in which everything lies.
std::string DirectoryOf(const ZipFile& zip, const std::string& what) {
  for (const std::string_view name : zip.Names()) {
    const auto slash = name.find('/');
    if (slash != name.npos && name.substr(slash) == kPickle) {
      return std::string(name.substr(0, slash));
    }
  }
  FailTorchFile(what,
                "a ZIP archive without data.pkl, so not of torch.save; save "
                "model.state_dict() with it");
}

bool IsTorchScript(const ZipFile& zip, const std::string& directory) {
  return !zip.Names(directory + "/constants.pkl").empty() ||
         !zip.Names(directory + "/code/").empty();
}

// Whether the description of the system that wrote the file says so.
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

// Bytes of an element, for each storage that `pickle` refers to.
std::map<std::string_view, std::size_t> ElementSizes(const Pickle& pickle) {
  std::map<std::string_view, std::size_t> sizes;
  for (PickleIndex i = 0; i < pickle.values().size(); ++i) {
    const auto storage = StorageOf(pickle, i);
    if (storage) sizes[storage->key] = ElementSize(storage->dtype).value();
  }
  return sizes;
}

// The first three pickles of the older format.
std::size_t ReadLegacyHeader(Bytes file, const std::string& what) {
  const Pickle magic(file, what);
  const auto* number = std::get_if<PickleLong>(&magic.root());
  if (number == nullptr || number->bytes != kLegacyMagic) {
    FailTorchFile(what,
                  "a pickle, but none of torch.save; save model.state_dict() "
                  "with it");
  }
  std::size_t position = magic.size();
  const Pickle protocol(file.subspan(position), what);
  const auto* version = std::get_if<std::int64_t>(&protocol.root());
  if (version == nullptr || *version != kLegacyProtocol) {
    FailTorchFile(what,
                  "of a version of torch.save's format that dtrain does not "
                  "read; save it anew with PyTorch 1.6 or later");
  }
  position += protocol.size();
  const Pickle system(file.subspan(position), what);
  if (IsBigEndian(system)) RefuseBigEndian(what);
  return position + system.size();
}

}  // namespace

bool TorchFile::Is(Bytes file) {
  return TextOf(file).starts_with(kZipMagic) ||
         (file.size() > 1 && file[0] == kProto && file[1] <= std::byte{5});
}

TorchFile::TorchFile(Bytes file, const std::string& what) {
  if (TextOf(file).starts_with(kZipMagic)) {
    ReadZip(file, what);
  } else {
    ReadLegacy(file, what);
  }
}

void TorchFile::ReadZip(Bytes file, const std::string& what) {
  const ZipFile zip(file, what);
  const std::string directory = DirectoryOf(zip, what);
  if (IsTorchScript(zip, directory)) {
    FailTorchFile(what,
                  "a TorchScript program, whose code dtrain does not run; save "
                  "model.state_dict() with torch.save");
  }
  const auto order = zip.Find(directory + "/byteorder");
  if (order && TextOf(*order) != "little") RefuseBigEndian(what);
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
  const auto sizes = ElementSizes(*pickle_);
  ByteReader reader(file.subspan(position),
                    what + ": it ends too early; was it copied whole?");
  const auto* list = std::get_if<PickleList>(&keys.root());
  if (list == nullptr) FailTorchFile(what, "its list of storages is garbled");
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
