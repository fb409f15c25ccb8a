#include "engine/checkpoint/zip_file.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include <zlib.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/checkpoint/byte_reader.h"
#include "engine/checkpoint/zip_format.h"

namespace dtrain {

namespace {

static_assert(std::endian::native == std::endian::little,
              "numbers are read as they lie in the archive");

using Bytes = std::span<const std::byte>;

constexpr std::string_view kEndSignature = "PK\5\6";
constexpr std::size_t kEndSize = 22;
constexpr std::size_t kLocator64Size = 20;
constexpr std::size_t kMaxComment = 0xFFFF;
constexpr std::uint16_t kEncrypted = 1;

struct Directory {
  std::uint64_t entries = 0;
  std::uint64_t size = 0;
  std::uint64_t offset = 0;
};

// An entry as the directory has it.
struct DirectoryEntry {
  std::string_view name;
  std::uint16_t flags = 0;
  std::uint16_t method = 0;
  std::uint32_t checksum = 0;
  std::uint64_t packed = 0;
  std::uint64_t size = 0;
  std::uint64_t offset = 0;
};

[[noreturn]] void FailZip(const std::string& what, const std::string& fault) {
  throw Error(ErrorKind::kFailed, what + ": no valid ZIP archive: " + fault);
}

std::string Named(std::string_view name) {
  return "its entry '" + Truncate(EscapeForTerminal(name), 60) + "'";
}

// A reader of what begins at `offset`, which may be anywhere.
ByteReader ReaderAt(Bytes file, std::uint64_t offset, const std::string& what) {
  return {file.subspan(std::min<std::uint64_t>(offset, file.size())),
          what + ": no valid ZIP archive: its directory goes beyond its end"};
}

// Where the record lies that ends every archive; a comment may follow it.
std::size_t FindEnd(Bytes file, const std::string& what) {
  const auto tail =
      file.last(std::min<std::size_t>(file.size(), kEndSize + kMaxComment));
  const std::string_view text(reinterpret_cast<const char*>(tail.data()),
                              tail.size());
  for (std::size_t at = text.rfind(kEndSignature); at != text.npos;
       at = at == 0 ? text.npos : text.rfind(kEndSignature, at - 1)) {
    if (text.size() - at < kEndSize) continue;
    std::uint16_t comment = 0;
    std::memcpy(&comment, &text[at + kEndSize - sizeof comment],
                sizeof comment);
    if (at + kEndSize + comment == text.size()) {
      return file.size() - tail.size() + at;
    }
  }
  FailZip(what, "its end is missing; was it copied whole?");
}

Directory ReadEnd64(Bytes file, std::size_t end, const std::string& what) {
  if (end < kLocator64Size) FailZip(what, "its ZIP64 locator is missing");
  auto locator = ReaderAt(file, end - kLocator64Size, what);
  if (locator.Number<std::uint32_t>() != kZip64LocatorSignature) {
    FailZip(what, "its ZIP64 locator is missing");
  }
  locator.Bytes(4);  // the number of the disk
  auto record = ReaderAt(file, locator.Number<std::uint64_t>(), what);
  if (record.Number<std::uint32_t>() != kZip64EndSignature) {
    FailZip(what, "its ZIP64 record is missing");
  }
  record.Bytes(28);  // its size, versions, disks, entries on this disk
  Directory directory;
  directory.entries = record.Number<std::uint64_t>();
  directory.size = record.Number<std::uint64_t>();
  directory.offset = record.Number<std::uint64_t>();
  return directory;
}

Directory FindDirectory(Bytes file, const std::string& what) {
  const std::size_t end = FindEnd(file, what);
  auto reader = ReaderAt(file, end, what);
  reader.Bytes(10);  // signature, disks, entries on this disk
  Directory directory;
  directory.entries = reader.Number<std::uint16_t>();
  directory.size = reader.Number<std::uint32_t>();
  directory.offset = reader.Number<std::uint32_t>();
  if (directory.entries == kZipElsewhere16 || directory.size == kZipElsewhere ||
      directory.offset == kZipElsewhere) {
    return ReadEnd64(file, end, what);
  }
  return directory;
}

// Fills in the numbers of `entry` that did not fit, in the order that they have
// there.
void ReadExtra(DirectoryEntry& entry, Bytes extra, const std::string& what) {
  ByteReader reader(
      extra, what + ": no valid ZIP archive: " + Named(entry.name) + " is cut");
  while (reader.position() < extra.size()) {
    const auto id = reader.Number<std::uint16_t>();
    const auto size = reader.Number<std::uint16_t>();
    const Bytes field = reader.Bytes(size);
    if (id != kZip64Field) continue;
    ByteReader numbers(field, what + ": no valid ZIP archive: " +
                                  Named(entry.name) + " lacks a ZIP64 size");
    for (std::uint64_t* number : {&entry.size, &entry.packed, &entry.offset}) {
      if (*number == kZipElsewhere) *number = numbers.Number<std::uint64_t>();
    }
    return;
  }
}

DirectoryEntry ReadEntry(ByteReader& directory, const std::string& what) {
  if (directory.Number<std::uint32_t>() != kZipDirectorySignature) {
    FailZip(what, "its directory is garbled");
  }
  DirectoryEntry entry;
  directory.Bytes(4);  // versions
  entry.flags = directory.Number<std::uint16_t>();
  entry.method = directory.Number<std::uint16_t>();
  directory.Bytes(4);  // time, date
  entry.checksum = directory.Number<std::uint32_t>();
  entry.packed = directory.Number<std::uint32_t>();
  entry.size = directory.Number<std::uint32_t>();
  const auto name = directory.Number<std::uint16_t>();
  const auto extra = directory.Number<std::uint16_t>();
  const auto comment = directory.Number<std::uint16_t>();
  directory.Bytes(8);  // disk, attributes
  entry.offset = directory.Number<std::uint32_t>();
  entry.name = directory.Text(name);
  ReadExtra(entry, directory.Bytes(extra), what);
  directory.Bytes(comment);
  return entry;
}

bool IsPlain(const DirectoryEntry& entry) {
  return entry.method == 0 && entry.packed == entry.size &&
         (entry.flags & kEncrypted) == 0;
}

std::uint32_t Crc32Of(Bytes bytes) {
  return static_cast<std::uint32_t>(
      ::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

// What lies there for it, compressed or not.
Bytes BytesOf(const DirectoryEntry& entry, Bytes file,
              const std::string& what) {
  auto reader = ReaderAt(file, entry.offset, what);
  if (reader.Number<std::uint32_t>() != kZipEntrySignature) {
    FailZip(what, Named(entry.name) + " is not where the directory says");
  }
  reader.Bytes(22);  // what the directory has, too
  const auto name = reader.Number<std::uint16_t>();
  const auto extra = reader.Number<std::uint16_t>();
  if (reader.Text(name) != entry.name) {
    FailZip(what, Named(entry.name) + " is not where the directory says");
  }
  reader.Bytes(extra);
  const std::size_t start = entry.offset + reader.position();
  if (entry.packed > file.size() - start) {
    FailZip(what, Named(entry.name) + " goes beyond its end");
  }
  return file.subspan(start, entry.packed);
}

}  // namespace

ZipFile::ZipFile(Bytes file, const std::string& what) : what_(what) {
  const Directory found = FindDirectory(file, what);
  auto directory = ReaderAt(file, found.offset, what);
  // Reads each entry's 46 bytes, so a lie ends with the file.
  for (std::uint64_t i = 0; i < found.entries; ++i) {
    const DirectoryEntry entry = ReadEntry(directory, what);
    const Entry kept{.bytes = BytesOf(entry, file, what),
                     .checksum = entry.checksum,
                     .is_plain = IsPlain(entry)};
    if (!entries_.emplace(entry.name, kept).second) {
      FailZip(what, Named(entry.name) + " is there twice");
    }
  }
  if (directory.position() != found.size) {
    FailZip(what, "its directory is not as long as it says");
  }
}

std::optional<Bytes> ZipFile::Find(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) return std::nullopt;
  if (!found->second.is_plain) {
    FailZip(what_, Named(name) +
                       " is compressed or encrypted; dtrain reads archives of "
                       "stored entries, as torch.save writes them");
  }
  const Bytes bytes = found->second.bytes;
  const std::uint32_t checksum = found->second.checksum;
  if (checksum != 0 && checksum != Crc32Of(bytes)) {
    FailZip(what_,
            Named(name) + " does not match its CRC-32; was it copied whole?");
  }
  return bytes;
}

std::vector<std::string_view> ZipFile::Names(std::string_view prefix) const {
  std::vector<std::string_view> names;
  for (auto entry = entries_.lower_bound(prefix);
       entry != entries_.end() && entry->first.starts_with(prefix); ++entry) {
    names.push_back(entry->first);
  }
  return names;
}

}  // namespace dtrain
