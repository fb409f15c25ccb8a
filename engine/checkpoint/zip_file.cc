// The format of ZIP archives (PKWARE's APPNOTE.TXT, 4.3 to 4.5), with
// little-endian numbers: entries, each a header and its bytes; the directory,
// which repeats the headers and gives the offset of each entry; and an end
// record with the size and offset of the directory. Numbers that do not fit
// into their field are in ZIP64 fields.
//
// The reader starts at the end record, as PyTorch does. Every entry must be
// where the directory says, under the same name, and inside the file; the
// directory must have the size and number of entries that the end record gives,
// and no name twice. So a file has one meaning, whatever program reads it. See
// docs/decisions/0020-zip-reader.md for why this is not libarchive.

#include "engine/checkpoint/zip_file.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <type_traits>

#include <zlib.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/checkpoint/byte_reader.h"

namespace dtrain {
namespace {

constexpr std::uint32_t kZipEntrySignature = 0x04034b50;
constexpr std::uint32_t kZipDirectorySignature = 0x02014b50;
constexpr std::uint32_t kZipEndSignature = 0x06054b50;
constexpr std::uint32_t kZip64EndSignature = 0x06064b50;
constexpr std::uint32_t kZip64LocatorSignature = 0x07064b50;
// Value of a field whose number is in a ZIP64 field.
constexpr std::uint32_t kZipElsewhere = 0xFFFFFFFF;
constexpr std::uint16_t kZipElsewhere16 = 0xFFFF;
// Id of the ZIP64 field.
constexpr std::uint16_t kZip64Field = 1;

static_assert(std::endian::native == std::endian::little,
              "numbers are read in the byte order of the archive");

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

// An entry of the directory.
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
  throw Error(ErrorKind::kFailed, what + ": not a valid ZIP archive: " + fault);
}

std::string Named(std::string_view name) {
  return "its entry '" + Truncate(EscapeForTerminal(name), 60) + "'";
}

// Returns a reader of the bytes from `offset`, which may be beyond the end.
ByteReader ReaderAt(Bytes file, std::uint64_t offset, const std::string& what) {
  return {
      file.subspan(std::min<std::uint64_t>(offset, file.size())),
      what + ": not a valid ZIP archive: its directory goes beyond its end"};
}

// Returns the offset of the end record, which may be followed by a comment.
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

// Reads the numbers of `entry` that are in its ZIP64 field, in their order
// there.
void ReadExtra(DirectoryEntry& entry, Bytes extra, const std::string& what) {
  ByteReader reader(extra, what + ": not a valid ZIP archive: " +
                               Named(entry.name) + " is cut");
  while (reader.position() < extra.size()) {
    const auto id = reader.Number<std::uint16_t>();
    const auto size = reader.Number<std::uint16_t>();
    const Bytes field = reader.Bytes(size);
    if (id != kZip64Field) continue;
    ByteReader numbers(field, what + ": not a valid ZIP archive: " +
                                  Named(entry.name) + " lacks a ZIP64 size");
    for (std::uint64_t* number : {&entry.size, &entry.packed, &entry.offset}) {
      if (*number == kZipElsewhere) *number = numbers.Number<std::uint64_t>();
    }
    return;
  }
}

DirectoryEntry ReadEntry(ByteReader& directory, const std::string& what) {
  if (directory.Number<std::uint32_t>() != kZipDirectorySignature) {
    FailZip(what, "its directory is damaged");
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

// Returns the bytes of an entry, compressed or not.
Bytes EntryBytes(const DirectoryEntry& entry, Bytes file,
                 const std::string& what) {
  auto reader = ReaderAt(file, entry.offset, what);
  if (reader.Number<std::uint32_t>() != kZipEntrySignature) {
    FailZip(what, Named(entry.name) + " is not where the directory says");
  }
  reader.Bytes(22);  // fields that the directory repeats
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
  const std::size_t end = FindEnd(file, what);
  auto reader = ReaderAt(file, end, what);
  reader.Bytes(10);  // signature, disks, entries on this disk
  Directory found;
  found.entries = reader.Number<std::uint16_t>();
  found.size = reader.Number<std::uint32_t>();
  found.offset = reader.Number<std::uint32_t>();
  if (found.entries == kZipElsewhere16 || found.size == kZipElsewhere ||
      found.offset == kZipElsewhere) {
    found = ReadEnd64(file, end, what);
  }
  auto directory = ReaderAt(file, found.offset, what);
  // Each entry takes 46 bytes, so a false number of entries ends with the file.
  for (std::uint64_t i = 0; i < found.entries; ++i) {
    const DirectoryEntry entry = ReadEntry(directory, what);
    const Entry kept{.bytes = EntryBytes(entry, file, what),
                     .checksum = entry.checksum,
                     .is_plain = IsPlain(entry)};
    if (!entries_.emplace(entry.name, kept).second) {
      FailZip(what, Named(entry.name) + " occurs twice");
    }
  }
  if (directory.position() != found.size) {
    FailZip(what, "its directory does not have the recorded size");
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
  if (checksum != 0 &&
      checksum != ::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()),
                            bytes.size())) {
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

namespace {

static_assert(std::endian::native == std::endian::little,
              "numbers are written in the byte order of memory");

constexpr std::size_t kEntryHeaderSize = 30;
constexpr std::uint64_t kEnd64Rest = 44;  // bytes of the record after its size
constexpr std::uint16_t kPaddingField = 0x4246;  // PyTorch's id for padding
constexpr std::size_t kFieldHeaderSize = 4;
constexpr std::uint16_t kVersion = 20;
constexpr std::uint16_t kVersion64 = 45;
constexpr std::uint16_t kFirstDay = 0x0021;  // 1980-01-01
constexpr std::uint64_t kAlignment = 64;

template <typename T>
void Append(std::string& text, std::type_identity_t<T> number) {
  text.append(reinterpret_cast<const char*>(&number), sizeof number);
}

std::uint32_t Field32(std::uint64_t number) {
  return number < kZipElsewhere ? static_cast<std::uint32_t>(number)
                                : kZipElsewhere;
}

// Returns a ZIP64 field with the numbers that do not fit into 32 bits.
std::string Zip64Field(std::initializer_list<std::uint64_t> numbers) {
  std::string large;
  for (const std::uint64_t number : numbers) {
    if (number >= kZipElsewhere) Append<std::uint64_t>(large, number);
  }
  if (large.empty()) return large;
  std::string field;
  Append<std::uint16_t>(field, kZip64Field);
  Append<std::uint16_t>(field, static_cast<std::uint16_t>(large.size()));
  return field + large;
}

// Returns the fields that an entry's header and the directory have in common.
std::string CommonFields(std::uint64_t size, std::uint32_t checksum,
                         std::size_t name, std::size_t extra) {
  std::string fields;
  Append<std::uint16_t>(fields, extra > 0 ? kVersion64 : kVersion);
  Append<std::uint16_t>(fields, 0);  // flags
  Append<std::uint16_t>(fields, 0);  // method: stored
  Append<std::uint16_t>(fields, 0);  // time
  Append<std::uint16_t>(fields, kFirstDay);
  Append<std::uint32_t>(fields, checksum);
  Append<std::uint32_t>(fields, Field32(size));  // compressed
  Append<std::uint32_t>(fields, Field32(size));
  Append<std::uint16_t>(fields, static_cast<std::uint16_t>(name));
  return fields;
}

// Returns the ZIP64 end record, which follows the directory, and its locator.
std::string End64(std::uint64_t entries, std::uint64_t size,
                  std::uint64_t offset) {
  std::string end;
  Append<std::uint32_t>(end, kZip64EndSignature);
  Append<std::uint64_t>(end, kEnd64Rest);
  Append<std::uint16_t>(end, kVersion64);
  Append<std::uint16_t>(end, kVersion64);
  Append<std::uint32_t>(end, 0);        // disk
  Append<std::uint32_t>(end, 0);        // disk of the directory
  Append<std::uint64_t>(end, entries);  // on this disk
  Append<std::uint64_t>(end, entries);
  Append<std::uint64_t>(end, size);
  Append<std::uint64_t>(end, offset);
  Append<std::uint32_t>(end, kZip64LocatorSignature);
  Append<std::uint32_t>(end, 0);  // disk of the record
  Append<std::uint64_t>(end, offset + size);
  Append<std::uint32_t>(end, 1);  // disks
  return end;
}

}  // namespace

void ZipWriter::Put(std::string_view bytes) {
  sink_(std::as_bytes(std::span(bytes)));
  position_ += bytes.size();
}

void ZipWriter::Add(std::string_view name, std::span<const std::byte> bytes) {
  const std::uint64_t offset = position_;
  const std::uint64_t size = bytes.size();
  const auto checksum = static_cast<std::uint32_t>(
      ::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), size));
  // The compressed and uncompressed size of a stored entry are equal.
  const std::string own64 = Zip64Field({size, size});
  // An extra field after which the bytes are aligned.
  const std::uint64_t start =
      offset + kEntryHeaderSize + name.size() + own64.size() + kFieldHeaderSize;
  const std::uint64_t padding = (kAlignment - start % kAlignment) % kAlignment;
  std::string own = own64;
  Append<std::uint16_t>(own, kPaddingField);
  Append<std::uint16_t>(own, static_cast<std::uint16_t>(padding));
  own += std::string(padding, 'Z');
  std::string header;
  Append<std::uint32_t>(header, kZipEntrySignature);
  header += CommonFields(size, checksum, name.size(), own64.size());
  Append<std::uint16_t>(header, static_cast<std::uint16_t>(own.size()));
  Put(header.append(name).append(own));
  sink_(bytes);
  position_ += size;

  const std::string listed = Zip64Field({size, size, offset});
  Append<std::uint32_t>(directory_, kZipDirectorySignature);
  Append<std::uint16_t>(directory_, kVersion64);  // made by
  directory_ += CommonFields(size, checksum, name.size(), listed.size());
  Append<std::uint16_t>(directory_, static_cast<std::uint16_t>(listed.size()));
  Append<std::uint16_t>(directory_, 0);  // comment
  Append<std::uint16_t>(directory_, 0);  // disk
  Append<std::uint16_t>(directory_, 0);  // attributes, inside
  Append<std::uint32_t>(directory_, 0);  // attributes, outside
  Append<std::uint32_t>(directory_, Field32(offset));
  directory_.append(name).append(listed);
  ++entries_;
}

void ZipWriter::Finish() {
  const std::uint64_t offset = position_;
  const std::uint64_t size = directory_.size();
  Put(directory_);
  if (entries_ >= kZipElsewhere16 || size >= kZipElsewhere ||
      offset >= kZipElsewhere) {
    Put(End64(entries_, size, offset));
  }
  const auto entries = static_cast<std::uint16_t>(
      std::min<std::uint64_t>(entries_, kZipElsewhere16));
  std::string end;
  Append<std::uint32_t>(end, kZipEndSignature);
  Append<std::uint32_t>(end, 0);  // disk, disk of the directory
  Append<std::uint16_t>(end, entries);
  Append<std::uint16_t>(end, entries);
  Append<std::uint32_t>(end, Field32(size));
  Append<std::uint32_t>(end, Field32(offset));
  Append<std::uint16_t>(end, 0);  // comment
  Put(end);
}

}  // namespace dtrain
