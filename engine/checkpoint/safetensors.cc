// A safetensors file is the length of its header in 8 bytes, the header as a
// JSON object, and the bytes of all tensors. The header gives each tensor its
// type, shape and the offsets of its bytes. The reader trusts none of them:
// offsets must lie in the file, the size must follow from shape and type, and
// sorted by offset the tensors must cover the data without a hole or an
// overlap, so no byte can hide or be used twice. JSON parsers accept a key that
// occurs twice and keep one of the values; since two programs could then read
// two different models from one file, HeaderCheck refuses such a header, and a
// deeply nested one, before it is parsed.

#include "engine/checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <unordered_set>
#include <utility>

#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/base/text.h"

namespace dtrain {

namespace {

static_assert(std::endian::native == std::endian::little,
              "tensors are written in the byte order of memory");

using nlohmann::json;

constexpr std::uint64_t kMaxHeader = 16'000'000;
constexpr std::size_t kMaxDimensions = 64;
constexpr std::size_t kMaxDepth = 4;
constexpr std::string_view kMetadata = "__metadata__";

constexpr std::array<std::pair<std::string_view, std::size_t>, 16> kTypes{{
    {"F64", 8},
    {"F32", 4},
    {"F16", 2},
    {"BF16", 2},
    {"F8_E4M3", 1},
    {"F8_E5M2", 1},
    {"I64", 8},
    {"I32", 4},
    {"I16", 2},
    {"I8", 1},
    {"U64", 8},
    {"U32", 4},
    {"U16", 2},
    {"U8", 1},
    {"BOOL", 1},
    {"C64", 8},
}};

[[noreturn]] void Fail(const std::string& what, const std::string& fault) {
  throw Error(ErrorKind::kFailed,
              what + ": not a valid safetensors file: " + fault);
}

// Returns a name of the tensor for messages, safe to print.
std::string Named(const std::string& name) {
  return "tensor '" + Truncate(EscapeForTerminal(name), 60) + "'";
}

// Returns the value if it is an unsigned integer.
std::optional<std::uint64_t> Unsigned(const json& value) {
  if (!value.is_number_unsigned()) return std::nullopt;
  return value.get<std::uint64_t>();
}

// Checks a header before it is parsed: nothing is nested too deep, and no
// object has a key twice.
class HeaderCheck : public nlohmann::json_sax<json> {
 public:
  const std::string& fault() const { return fault_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override {
    if (!Enter()) return false;
    keys_[depth_ - 1] = {};
    return true;
  }
  bool end_object() override { return Leave(); }
  bool start_array(std::size_t) override { return Enter(); }
  bool end_array() override { return Leave(); }
  bool key(string_t& name) override {
    if (keys_[depth_ - 1].insert(name).second) {
      if (depth_ == 1) entry_ = name;
      return true;
    }
    fault_ = depth_ == 1
                 ? Named(name) + " occurs twice"
                 : (entry_ == kMetadata ? "its __metadata__" : Named(entry_)) +
                       " has '" + Truncate(EscapeForTerminal(name), 60) +
                       "' twice";
    return false;
  }
  bool parse_error(std::size_t, const std::string&,
                   const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  bool Enter() { return ++depth_ <= kMaxDepth; }
  bool Leave() {
    --depth_;
    return true;
  }

  std::size_t depth_ = 0;
  // Keys of the enclosing objects, by depth.
  std::array<std::unordered_set<std::string>, kMaxDepth> keys_;
  std::string entry_;  // the outermost key
  std::string fault_;
};

// Returns the header and its size with the length in front.
std::pair<json, std::size_t> ParseHeader(std::span<const std::byte> file,
                                         const std::string& what) {
  std::uint64_t length = 0;
  if (file.size() < sizeof length) Fail(what, "it is too short");
  std::memcpy(&length, file.data(), sizeof length);
  if (length > kMaxHeader) Fail(what, "its header is above 16 MB");
  if (length > file.size() - sizeof length) {
    Fail(what, "its header goes beyond its end");
  }
  const auto* text = reinterpret_cast<const char*>(file.data() + sizeof length);
  HeaderCheck check;
  // Parsed twice: the parser of nlohmann keeps one of two equal keys without
  // notice.
  const bool passed = json::sax_parse(text, text + length, &check);
  if (!check.fault().empty()) Fail(what, check.fault());
  json header =
      passed ? json::parse(text, text + length, nullptr, false) : json();
  if (!header.is_object()) {
    Fail(what, "its header is not a JSON object of tensors");
  }
  const auto metadata = header.find(kMetadata);
  if (metadata != header.end() &&
      !(metadata->is_object() &&
        std::ranges::all_of(*metadata, &json::is_string))) {
    Fail(what, "its __metadata__ does not map strings to strings");
  }
  return {std::move(header), sizeof length + length};
}

std::vector<std::int64_t> ParseShape(const json& entry, const std::string& name,
                                     const std::string& what) {
  const auto shape = entry.find("shape");
  if (shape == entry.end() || !shape->is_array()) {
    Fail(what, Named(name) + " has no shape");
  }
  if (shape->size() > kMaxDimensions) {
    Fail(what, Named(name) + " has more than 64 dimensions");
  }
  std::vector<std::int64_t> sizes;
  for (const json& size : *shape) {
    const auto value = Unsigned(size);
    if (!value || !std::in_range<std::int64_t>(*value)) {
      Fail(what, Named(name) + " has an impossible shape");
    }
    sizes.push_back(static_cast<std::int64_t>(*value));
  }
  return sizes;
}

TensorBytes ParseTensor(const std::string& name, const json& entry,
                        std::span<const std::byte> data,
                        const std::string& what) {
  const auto fail = [&](const char* fault) {
    Fail(what, Named(name) + " " + fault);
  };
  if (!entry.is_object()) fail("is not an object");
  TensorBytes tensor{.name = name, .shape = ParseShape(entry, name, what)};
  const auto dtype = entry.find("dtype");
  if (dtype == entry.end() || !dtype->is_string()) fail("has no type");
  tensor.dtype = dtype->get<std::string>();
  if (!ElementSize(tensor.dtype)) fail("has an unknown type");
  const auto offsets = entry.find("data_offsets");
  if (offsets == entry.end() || !offsets->is_array() || offsets->size() != 2) {
    fail("has no data_offsets");
  }
  const auto begin = Unsigned((*offsets)[0]);
  const auto end = Unsigned((*offsets)[1]);
  if (!begin || !end || *begin > *end || *end > data.size()) {
    fail("lies outside of the file");
  }
  tensor.bytes = data.subspan(*begin, *end - *begin);
  if (TensorSize(tensor.dtype, tensor.shape) != tensor.bytes.size()) {
    fail("has another size than its shape and type");
  }
  return tensor;
}

}  // namespace

std::optional<std::size_t> ElementSize(std::string_view dtype) {
  const auto* found =
      std::find_if(kTypes.begin(), kTypes.end(),
                   [&](const auto& type) { return type.first == dtype; });
  if (found == kTypes.end()) return std::nullopt;
  return found->second;
}

std::optional<std::size_t> TensorSize(std::string_view dtype,
                                      std::span<const std::int64_t> shape) {
  auto total = ElementSize(dtype);
  for (const std::int64_t size : shape) {
    std::size_t product = 0;
    if (!total || __builtin_mul_overflow(*total, size, &product)) {
      return std::nullopt;
    }
    total = product;
  }
  return total;
}

std::string SafetensorsHeader(std::span<const TensorBytes> tensors) {
  json header = json::object();
  std::uint64_t offset = 0;
  for (const TensorBytes& tensor : tensors) {
    const std::uint64_t end = offset + tensor.bytes.size();
    header[tensor.name] = {{"dtype", tensor.dtype},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // aligns the data
  const std::uint64_t length = text.size();
  std::string prefix(sizeof length, '\0');
  std::memcpy(prefix.data(), &length, sizeof length);
  return prefix + text;
}

std::vector<TensorBytes> ReadSafetensors(std::span<const std::byte> file,
                                         const std::string& what) {
  const auto [header, start] = ParseHeader(file, what);
  const auto data = file.subspan(start);
  std::vector<TensorBytes> tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name == kMetadata) continue;
    tensors.push_back(ParseTensor(name, entry, data, what));
  }
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const TensorBytes& a, const TensorBytes& b) {
                     return std::pair(a.bytes.data(), a.bytes.size()) <
                            std::pair(b.bytes.data(), b.bytes.size());
                   });
  const std::byte* expected = data.data();
  for (const TensorBytes& tensor : tensors) {
    if (tensor.bytes.data() != expected) {
      Fail(what, Named(tensor.name) + " overlaps or leaves a hole");
    }
    expected += tensor.bytes.size();
  }
  if (expected != data.data() + data.size()) {
    Fail(what, "it has bytes that belong to no tensor");
  }
  return tensors;
}

}  // namespace dtrain
