#include "engine/fetch/archive_library.h"

#include "engine/fetch/shared_library.h"

namespace dtrain {
namespace {

ArchiveLibrary OpenArchive() {
  const SharedLibrary library("libarchive.so.13", "libarchive13");
  ArchiveLibrary archive{};
  library.Find("archive_entry_filetype", archive.entry_filetype);
  library.Find("archive_entry_hardlink", archive.entry_hardlink);
  library.Find("archive_entry_pathname", archive.entry_pathname);
  library.Find("archive_error_string", archive.error_string);
  library.Find("archive_read_data", archive.read_data);
  library.Find("archive_read_free", archive.read_free);
  library.Find("archive_read_new", archive.read_new);
  library.Find("archive_read_next_header", archive.read_next_header);
  library.Find("archive_read_open_filename", archive.read_open_filename);
  library.Find("archive_read_support_filter_all",
               archive.read_support_filter_all);
  library.Find("archive_read_support_format_tar",
               archive.read_support_format_tar);
  library.Find("archive_read_support_format_zip",
               archive.read_support_format_zip);
  return archive;
}

}  // namespace

const ArchiveLibrary& LibArchive() {
  static const ArchiveLibrary library = OpenArchive();
  return library;
}

}  // namespace dtrain
