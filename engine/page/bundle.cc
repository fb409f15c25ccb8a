#include "engine/page/bundle.h"

#include <algorithm>
#include <bit>
#include <limits>

#include <zlib.h>

#include "engine/base/error.h"

namespace dtrain {
namespace {

constexpr char kMagic[] = "DTRN";
constexpr std::size_t kWordBytes = 4;

void AppendWord(std::string& bytes, std::uint32_t word) {
  for (std::size_t i = 0; i < kWordBytes; ++i) {
    bytes += static_cast<char>(word >> (8 * i));
  }
}

// The high bytes of neighbouring numbers are mostly equal, so gzip finds long
// repeats in a plane of bytes that it does not find in whole numbers.
// Appends the bytes of all numbers, those of the lowest place first.
template <typename Number>
nlohmann::json AppendColumn(std::string& columns,
                            const std::vector<Number>& numbers,
                            const char* type) {
  const std::size_t at = columns.size();
  columns.resize(at + numbers.size() * sizeof(Number));
  char* to = columns.data() + at;
  for (std::size_t byte = 0; byte < sizeof(Number); ++byte) {
    for (const Number number : numbers) {
      *to++ = static_cast<char>(number >> (8 * byte));
    }
  }
  return {{"at", at}, {"n", numbers.size()}, {"as", type}};
}

bool IsWord(std::int64_t number) {
  return number >= 0 && number <= std::numeric_limits<std::uint32_t>::max();
}

}  // namespace

nlohmann::json Bundle::Whole(std::span<const std::int64_t> numbers,
                             bool delta) {
  if (!std::ranges::all_of(numbers, IsWord)) {
    return Doubles(std::vector<double>(numbers.begin(), numbers.end()));
  }
  std::vector<std::uint32_t> words;
  words.reserve(numbers.size());
  std::uint32_t last = 0;
  for (const std::int64_t number : numbers) {
    const auto word = static_cast<std::uint32_t>(number);
    words.push_back(delta ? word - last : word);
    last = word;
  }
  nlohmann::json column = AppendColumn(columns_, words, "u32");
  if (delta) column["delta"] = true;
  return column;
}

nlohmann::json Bundle::Deltas(std::span<const std::int64_t> numbers) {
  return Whole(numbers, /*delta=*/true);
}

nlohmann::json Bundle::Integers(std::span<const std::int64_t> numbers) {
  return Whole(numbers, /*delta=*/false);
}

nlohmann::json Bundle::Floats(std::span<const double> numbers) {
  std::vector<std::uint32_t> words;
  words.reserve(numbers.size());
  for (const double number : numbers) {
    words.push_back(std::bit_cast<std::uint32_t>(static_cast<float>(number)));
  }
  return AppendColumn(columns_, words, "f32");
}

nlohmann::json Bundle::Doubles(std::span<const double> numbers) {
  std::vector<std::uint64_t> words;
  words.reserve(numbers.size());
  for (const double number : numbers) {
    words.push_back(std::bit_cast<std::uint64_t>(number));
  }
  return AppendColumn(columns_, words, "f64");
}

std::string Bundle::Finish(const nlohmann::json& document) const {
  const std::string text =
      document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::string bytes = kMagic;
  AppendWord(bytes, static_cast<std::uint32_t>(text.size()));
  return bytes + text + columns_;
}

nlohmann::json ExactIntegers(const nlohmann::json& value) {
  // JavaScript's numbers are doubles.
  constexpr std::int64_t kMaxExact = std::int64_t{1} << 53;
  if (value.is_array()) {
    nlohmann::json all = nlohmann::json::array();
    for (const auto& one : value) all.push_back(ExactIntegers(one));
    return all;
  }
  if (!value.is_number_integer()) return value;
  const bool is_large = value.is_number_unsigned() &&
                        value.get<std::uint64_t>() > std::uint64_t{kMaxExact};
  const auto number = value.get<std::int64_t>();
  const bool exact = number >= -kMaxExact && number <= kMaxExact;
  return exact && !is_large ? value : nlohmann::json(value.dump());
}

std::string Gzip(std::string_view bytes) {
  constexpr int kGzipWindow = 15 + 16;  // the largest, with gzip's header
  constexpr int kMemoryLevel = 9;
  z_stream stream{};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipWindow,
                   kMemoryLevel, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw Error(ErrorKind::kFailed, "zlib cannot compress; out of memory");
  }
  std::string compressed(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in =
      reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));  // not written
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(compressed.data());
  stream.avail_out = static_cast<uInt>(compressed.size());
  const int result = deflate(&stream, Z_FINISH);
  compressed.resize(stream.total_out);
  deflateEnd(&stream);
  if (result == Z_STREAM_END) return compressed;
  throw Error(ErrorKind::kFailed, "zlib cannot compress the data");
}

std::string Base64(std::string_view bytes) {
  constexpr char kDigits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  // Three bytes become four digits of 6 bits.
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t j = i; j < i + 3; ++j) {
      group = group << 8 |
              (j < bytes.size() ? static_cast<unsigned char>(bytes[j]) : 0U);
    }
    for (int shift = 18; shift >= 0; shift -= 6) {
      text += kDigits[group >> shift & 63];
    }
  }
  const std::size_t missing = (3 - bytes.size() % 3) % 3;
  text.replace(text.size() - missing, missing, missing, '=');
  return text;
}

}  // namespace dtrain
