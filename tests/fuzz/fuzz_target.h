#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
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

/// Requires that `decode` reads the line or throws Error(kFailed), and that
/// writing and reading a message again changes nothing.
template <typename Message>
void CheckMessage(const std::string& line, Message (*decode)(std::string_view),
                  std::string (*encode)(const Message&)) {
  std::optional<Message> message;
  try {
    message = decode(line);
  } catch (const Error& error) {
    Require(error.kind() == ErrorKind::kFailed, "a bad message is a failure");
    RequireOneLine(error);
    return;
  }
  std::string written = encode(*message);
  Require(written.ends_with('\n'), "a written message ends its line");
  written.pop_back();
  Require(written.find('\n') == written.npos, "a message is one line");
  Require(encode(decode(written)) == written + '\n',
          "writing and reading again changes nothing");
}

/// Returns the input as text.
inline std::string_view ToText(const std::uint8_t* data, std::size_t size) {
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
