#include "engine/checkpoint/state_dict_writer.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/checkpoint/torch_tensor.h"

namespace dtrain {

namespace {

using Bytes = std::span<const std::byte>;

// The directory of the archive in which everything lies.
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

// The stretches of memory that tensors lie in, each once, numbered.
class Storages {
 public:
  // The number of the one with the bytes of `tensor`.
  std::int64_t NumberOf(const TensorBytes& tensor) {
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

// Of rows that lie one after the other.
std::vector<std::int64_t> StridesOf(std::span<const std::int64_t> shape) {
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t stride = 1;
  for (std::size_t i = shape.size(); i > 0; --i) {
    strides[i - 1] = stride;
    const auto size = std::max<std::int64_t>(shape[i - 1], 1);
    // Of a tensor without elements alone.
    if (__builtin_mul_overflow(stride, size, &stride)) stride = 1;
  }
  return strides;
}

std::string_view CheckedStorageName(const TensorBytes& tensor) {
  const auto name = StorageName(tensor.dtype);
  if (name) return *name;
  throw Error(ErrorKind::kUsage,
              "tensor '" + Truncate(EscapeForTerminal(tensor.name), 60) +
                  "' is of the type " + tensor.dtype +
                  ", which dtrain cannot write as a state dict; write "
                  "safetensors");
}

// What rebuilds the tensor: a call with its storage, offset, shape, strides,
// whether it wants a gradient, and its hooks.
void PickleTensor(PickleWriter& pickle, const TensorBytes& tensor,
                  std::int64_t storage) {
  const auto elements = static_cast<std::int64_t>(
      tensor.bytes.size() / ElementSize(tensor.dtype).value());
  pickle.Global("torch._utils", "_rebuild_tensor_v2");
  pickle.Opcodes("((");  // the arguments, and the first of them
  pickle.Unicode("storage");
  pickle.Global("torch", CheckedStorageName(tensor));
  pickle.Unicode(std::to_string(storage));
  pickle.Unicode("cpu");
  pickle.Int(elements);
  pickle.Opcodes("tQ");  // a persistent id
  pickle.Int(0);
  pickle.Tuple(tensor.shape);
  pickle.Tuple(StridesOf(tensor.shape));
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
    PickleTensor(pickle, tensor, storages.NumberOf(tensor));
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

}  // namespace dtrain
