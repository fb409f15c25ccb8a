#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace dtrain {

/// The SHA-256 of bytes that come in pieces. One thread.
class Sha256 {
 public:
  Sha256();
  ~Sha256();

  void Update(std::span<const std::byte> bytes);
  /// In lower-case hex. REQUIRES: called once, last.
  std::string Finish();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

/// That of `bytes` at once.
std::string Sha256Of(std::span<const std::byte> bytes);

}  // namespace dtrain
