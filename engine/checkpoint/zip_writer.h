#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace dtrain {

/// Takes the next bytes of a file; throws Error if it cannot.
using ByteSink = std::function<void(std::span<const std::byte>)>;

/// Writes a ZIP archive of stored entries from its beginning to its end, as
/// PKWARE's APPNOTE 6.3 describes it: what ZipFile reads. The bytes of every
/// entry begin at a multiple of 64, so that whoever maps the archive can use
/// them as they lie. ZIP64 stands where a number needs it, and only there. The
/// same entries give the same archive: there are no times in it.
class ZipWriter {
 public:
  explicit ZipWriter(ByteSink sink) : sink_(std::move(sink)) {}

  /// Adds an entry; its bytes go on to the sink and are not kept. REQUIRES: no
  /// other has this name, which is ASCII.
  void Add(std::string_view name, std::span<const std::byte> bytes);
  /// Writes the directory. REQUIRES: the last call.
  void Finish();

 private:
  void Put(std::string_view bytes);

  ByteSink sink_;
  std::uint64_t position_ = 0;
  std::uint64_t entries_ = 0;
  std::string directory_;
};

}  // namespace dtrain
