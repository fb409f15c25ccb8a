#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dtrain {

/// The directory of a ZIP archive in memory, with or without ZIP64, as in
/// PKWARE's APPNOTE 6.3. Reads stored entries only, which is what PyTorch
/// writes; decompresses nothing.
class ZipFile {
 public:
  /// REQUIRES: `file` outlives this. Throws Error(kFailed) that names `what`
  /// and the fault: not an archive, an entry beyond the end, two entries of one
  /// name.
  ZipFile(std::span<const std::byte> file, const std::string& what);

  /// Returns the bytes of the entry `name`; nothing if there is no such entry.
  /// Throws Error(kFailed) if it is compressed or encrypted, or if its CRC-32
  /// differs from the recorded one. A recorded 0 means that there is no
  /// checksum (an option of PyTorch).
  std::optional<std::span<const std::byte>> Find(std::string_view name) const;
  /// Returns the names that begin with `prefix`, sorted.
  std::vector<std::string_view> Names(std::string_view prefix = {}) const;

 private:
  struct Entry {
    std::span<const std::byte> bytes;
    std::uint32_t checksum = 0;
    bool is_plain = false;
  };

  std::string what_;
  std::map<std::string_view, Entry> entries_;
};

/// Writes the next bytes of a file; throws Error if it cannot.
using ByteSink = std::function<void(std::span<const std::byte>)>;

/// Writes a ZIP archive of stored entries sequentially, as in PKWARE's APPNOTE
/// 6.3; ZipFile reads it. The bytes of every entry are aligned to 64 bytes, so
/// that they can be used in a mapped archive. ZIP64 is used only for numbers
/// that need it. No times are recorded, so equal entries give equal archives.
class ZipWriter {
 public:
  explicit ZipWriter(ByteSink sink) : sink_(std::move(sink)) {}

  /// Writes an entry to the sink; keeps none of its bytes. REQUIRES: the name
  /// is new, and ASCII.
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
