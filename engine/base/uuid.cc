#include "engine/base/uuid.h"

#include <algorithm>

#include <sys/random.h>

#include "engine/base/error.h"
#include "engine/base/text.h"

namespace dtrain {

std::string FormatUuid(std::array<std::byte, 16> random) {
  random[6] = (random[6] & std::byte{0x0f}) | std::byte{0x40};
  random[8] = (random[8] & std::byte{0x3f}) | std::byte{0x80};
  std::string text = ToHex(random);
  for (const std::size_t position : {20, 16, 12, 8}) {
    text.insert(position, 1, '-');
  }
  return text;
}

std::string RandomUuid() {
  std::array<std::byte, 16> bytes{};
  // getrandom returns up to 256 bytes whole or not at all.
  if (::getrandom(bytes.data(), bytes.size(), 0) !=
      static_cast<ssize_t>(bytes.size())) {
    throw Error(ErrorKind::kFailed,
                "cannot get random numbers from the kernel");
  }
  return FormatUuid(bytes);
}

bool IsUuid(std::string_view text) {
  constexpr std::string_view kForm = "00000000-0000-0000-0000-000000000000";
  const auto fits = [](char c, char form) {
    const bool is_digit = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
    return form == '-' ? c == '-' : is_digit;
  };
  return std::ranges::equal(text, kForm, fits);
}

}  // namespace dtrain
