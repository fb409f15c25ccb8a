#pragma once

#include <archive.h>
#include <archive_entry.h>

namespace dtrain {

/// What is used of libarchive, by its names there.
struct ArchiveLibrary {
  decltype(&archive_entry_filetype) entry_filetype;
  decltype(&archive_entry_hardlink) entry_hardlink;
  decltype(&archive_entry_pathname) entry_pathname;
  decltype(&archive_error_string) error_string;
  decltype(&archive_read_data) read_data;
  decltype(&archive_read_free) read_free;
  decltype(&archive_read_new) read_new;
  decltype(&archive_read_next_header) read_next_header;
  decltype(&archive_read_open_filename) read_open_filename;
  decltype(&archive_read_support_filter_all) read_support_filter_all;
  decltype(&archive_read_support_format_tar) read_support_format_tar;
  decltype(&archive_read_support_format_zip) read_support_format_zip;
};

/// Opened by the first call. Throws Error(kFailed) if that cannot be. Any
/// thread.
const ArchiveLibrary& LibArchive();

}  // namespace dtrain
