#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace dtrain {

/// The SHA-256 of bytes that come in pieces. One thread.
class Sha256 {
 public:
  Sha256();
  ~Sha256();

  void Update(std::span<const std::byte> bytes);
  /// In lower-case hex. REQUIRES: called once, last.
  std::string Finish();
  /// The same as 32 bytes.
  std::string FinishBytes();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

/// That of `bytes` at once.
std::string Sha256Of(std::span<const std::byte> bytes);

/// The HMAC-SHA256 (RFC 2104) of `parts`, one after the other, under `key`: 32
/// bytes.
std::string HmacSha256(std::string_view key,
                       std::initializer_list<std::string_view> parts);

/// Whether both are the same, in a time that only their lengths determine.
bool AreEqualInConstantTime(std::string_view left, std::string_view right);

}  // namespace dtrain
