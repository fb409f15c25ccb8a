#pragma once

#include <cstddef>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace dtrain {

/// Computes the SHA-256 of bytes that come in pieces. One thread.
class Sha256 {
 public:
  Sha256();
  ~Sha256();

  void Update(std::span<const std::byte> bytes);
  /// Returns the digest in lower-case hex. REQUIRES: called once, last.
  std::string Finish();
  /// Returns the digest as 32 bytes. REQUIRES: called once, last.
  std::string FinishBytes();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

/// Returns the SHA-256 of `bytes` in lower-case hex.
std::string ComputeSha256(std::span<const std::byte> bytes);
/// Returns that of a file's content, which is read into memory. A file that
/// cannot be read counts as empty.
std::string Sha256OfFile(const std::filesystem::path& file);

/// Returns the HMAC-SHA256 (RFC 2104) of the concatenated `parts` under `key`:
/// 32 bytes.
std::string HmacSha256(std::string_view key,
                       std::initializer_list<std::string_view> parts);

/// Compares in a time that depends only on the lengths.
bool AreEqualInConstantTime(std::string_view left, std::string_view right);

}  // namespace dtrain
