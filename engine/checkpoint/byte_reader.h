#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "engine/base/error.h"

namespace dtrain {

/// Reads little-endian numbers and byte strings one after the other. Throws
/// Error(kFailed) with the text `fault` beyond the end. Owns no bytes.
class ByteReader {
 public:
  ByteReader(std::span<const std::byte> bytes, std::string fault)
      : bytes_(bytes), fault_(std::move(fault)) {}

  template <typename T>
  T Number() {
    T number{};
    std::memcpy(&number, Bytes(sizeof number).data(), sizeof number);
    return number;
  }
  std::span<const std::byte> Bytes(std::size_t count) {
    if (count > bytes_.size() - position_) {
      throw Error(ErrorKind::kFailed, fault_);
    }
    const auto bytes = bytes_.subspan(position_, count);
    position_ += count;
    return bytes;
  }
  std::string_view Text(std::size_t count) {
    const auto bytes = Bytes(count);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  /// Returns the text before the next newline, and skips the newline.
  std::string_view Line() {
    const auto rest = bytes_.subspan(position_);
    const std::string_view text(reinterpret_cast<const char*>(rest.data()),
                                rest.size());
    // Without a newline, asks for one byte too many, which throws.
    const std::size_t length = text.find('\n');
    return Text(length == text.npos ? text.size() + 1 : length + 1)
        .substr(0, length);
  }

  std::size_t position() const { return position_; }

 private:
  std::span<const std::byte> bytes_;
  std::size_t position_ = 0;
  std::string fault_;
};

}  // namespace dtrain
