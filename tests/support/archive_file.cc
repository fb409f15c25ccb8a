#include "tests/support/archive_file.h"

#include <memory>
#include <stdexcept>

#include <archive.h>
#include <archive_entry.h>

namespace dtrain {
namespace {

void SetKind(archive_entry* header, const ArchiveEntry& entry) {
  switch (entry.kind) {
    case ArchiveEntry::Kind::kFile:
      archive_entry_set_filetype(header, AE_IFREG);
      archive_entry_set_size(header,
                             static_cast<la_int64_t>(entry.text.size()));
      break;
    case ArchiveEntry::Kind::kDirectory:
      archive_entry_set_filetype(header, AE_IFDIR);
      break;
    case ArchiveEntry::Kind::kSymlink:
      archive_entry_set_filetype(header, AE_IFLNK);
      archive_entry_set_symlink(header, entry.text.c_str());
      break;
    case ArchiveEntry::Kind::kHardlink:
      archive_entry_set_filetype(header, AE_IFREG);
      archive_entry_set_hardlink(header, entry.text.c_str());
      break;
    case ArchiveEntry::Kind::kFifo:
      archive_entry_set_filetype(header, AE_IFIFO);
      break;
  }
}

}  // namespace

void WriteArchive(const std::filesystem::path& path,
                  const std::vector<ArchiveEntry>& entries) {
  const std::unique_ptr<archive, decltype(&archive_write_free)> out(
      archive_write_new(), archive_write_free);
  if (path.extension() == ".zip") {
    archive_write_set_format_zip(out.get());
  } else {
    archive_write_set_format_ustar(out.get());
    archive_write_add_filter_gzip(out.get());
  }
  if (archive_write_open_filename(out.get(), path.c_str()) != ARCHIVE_OK) {
    throw std::runtime_error("cannot write " + path.string());
  }
  for (const ArchiveEntry& entry : entries) {
    const std::unique_ptr<archive_entry, decltype(&archive_entry_free)> header(
        archive_entry_new(), archive_entry_free);
    archive_entry_set_pathname(header.get(), entry.name.c_str());
    archive_entry_set_perm(header.get(), 0777);
    SetKind(header.get(), entry);
    if (archive_write_header(out.get(), header.get()) != ARCHIVE_OK) {
      throw std::runtime_error(archive_error_string(out.get()));
    }
    if (entry.kind == ArchiveEntry::Kind::kFile) {
      archive_write_data(out.get(), entry.text.data(), entry.text.size());
    }
  }
  archive_write_close(out.get());
}

}  // namespace dtrain
