#include "engine/checkpoint/zip_writer.h"

#include <algorithm>
#include <bit>
#include <initializer_list>
#include <type_traits>

#include <zlib.h>

#include "engine/checkpoint/zip_format.h"

namespace dtrain {

namespace {

static_assert(std::endian::native == std::endian::little,
              "numbers are written as they lie in memory");

constexpr std::size_t kEntryHeaderSize = 30;
constexpr std::uint64_t kEnd64Rest = 44;  // of the record, behind its size
constexpr std::uint16_t kPaddingField = 0x4246;  // under which PyTorch pads
constexpr std::size_t kFieldHeaderSize = 4;
constexpr std::uint16_t kVersion = 20;
constexpr std::uint16_t kVersion64 = 45;
constexpr std::uint16_t kFirstDay = 0x0021;  // 1980-01-01, as ZIP writes it
constexpr std::uint64_t kAlignment = 64;

template <typename T>
void Append(std::string& text, std::type_identity_t<T> number) {
  text.append(reinterpret_cast<const char*>(&number), sizeof number);
}

std::uint32_t Field32(std::uint64_t number) {
  return number < kZipElsewhere ? static_cast<std::uint32_t>(number)
                                : kZipElsewhere;
}

// The numbers that their fields have no room for, as an extra field.
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

// An extra field of nothing, behind which what stood at `end` is aligned.
std::string Padding(std::uint64_t end) {
  const std::uint64_t start = end + kFieldHeaderSize;
  const std::uint64_t size = (kAlignment - start % kAlignment) % kAlignment;
  std::string field;
  Append<std::uint16_t>(field, kPaddingField);
  Append<std::uint16_t>(field, static_cast<std::uint16_t>(size));
  return field + std::string(size, 'Z');
}

// What an entry's own header and the directory both say of it.
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

// The ZIP64 record of a directory that ends where it begins, and its locator.
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
  // There are two sizes, of which a stored entry's are the same.
  const std::string own64 = Zip64Field({size, size});
  const std::string own =
      own64 + Padding(offset + kEntryHeaderSize + name.size() + own64.size());
  std::string header;
  Append<std::uint32_t>(header, kZipEntrySignature);
  header += CommonFields(size, checksum, name.size(), own64.size());
  Append<std::uint16_t>(header, static_cast<std::uint16_t>(own.size()));
  Put(header.append(name).append(own));
  sink_(bytes);
  position_ += size;

  const std::string listed = Zip64Field({size, size, offset});
  Append<std::uint32_t>(directory_, kZipDirectorySignature);
  Append<std::uint16_t>(directory_, kVersion64);  // of what wrote it
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
