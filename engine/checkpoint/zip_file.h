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

/// The directory of a ZIP archive that lies in memory, with or without ZIP64,
/// as PKWARE's APPNOTE 6.3 describes it. For archives whose entries are stored
/// as they are, which is how PyTorch writes them; it inflates nothing.
class ZipFile {
 public:
  /// REQUIRES: `file` outlives this. Throws Error(kFailed) that names `what`
  /// and the fault: no archive, an entry beyond its end, two of one name.
  ZipFile(std::span<const std::byte> file, const std::string& what);

  /// The bytes of the entry `name`, or nothing if there is none. Throws
  /// Error(kFailed) if it is compressed or encrypted, or if its CRC-32 differs
  /// from the recorded one; 0 is no checksum (PyTorch can be told to write
  /// none).
  std::optional<std::span<const std::byte>> Find(std::string_view name) const;
  /// The names that begin with `prefix`, sorted.
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

/// Writes a ZIP archive of stored entries from its beginning to its end, as
/// PKWARE's APPNOTE 6.3 describes it: what ZipFile reads. The bytes of every
/// entry begin at a multiple of 64, so that they can be used in a mapped
/// archive. ZIP64 is used only where a number needs it. Equal entries give
/// equal archives: there are no times in them.
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
