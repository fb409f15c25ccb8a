#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/error.h"
#include "engine/os/unique_fd.h"

/// Entry point of a fuzz target, called by libFuzzer or by replay_main.cc for
/// each input. Always returns 0.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size);

namespace dtrain {

/// Prints `requirement` and aborts if it does not hold. Fuzzers report an abort
/// as a finding.
void Require(bool holds, std::string_view requirement);

/// Requires that the message of `error` is one line of bounded length without
/// control characters.
void RequireOneLine(const Error& error);

/// Returns the input as text.
inline std::string_view TextOf(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// An in-memory file with the given content and its offset at the beginning,
/// for readers that take a path or a descriptor.
class ByteFile {
 public:
  explicit ByteFile(std::string_view bytes);

  /// Path that opens the file in this process.
  std::string path() const;
  /// Hands over the descriptor.
  UniqueFd Release() { return std::move(fd_); }

 private:
  UniqueFd fd_;
};

}  // namespace dtrain
