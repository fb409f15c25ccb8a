#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "engine/os/unique_fd.h"
#include "engine/store/log_record.h"

namespace dtrain {

/// Reads a trial's log, the rotated file first, in order. `Next` gives records
/// as they come and nothing at the (present) end; called again later it gives
/// what was appended since, also across a rotation. Lines that are no records
/// are passed over. A log that does not exist yet is an empty one.
class TrialLogReader {
 public:
  explicit TrialLogReader(std::filesystem::path path);

  /// Throws Error(kStore) if the file cannot be read.
  std::optional<LogRecord> Next();
  /// Skips so that about the last `lines` records are still to come; reads
  /// from the end, not the whole file. REQUIRES: no `Next` before.
  void SeekToTail(std::int64_t lines);

 private:
  bool Refill();
  bool OpenNext();
  bool Open(const std::filesystem::path& path);
  std::filesystem::path Rotated() const;

  std::filesystem::path path_;
  UniqueFd file_;
  std::uint64_t inode_ = 0;
  bool passed_on_ = false;  // the file is not the log any more: read its rest
  bool skipping_ = false;   // within a line too long to be a record
  std::string buffer_;
  std::size_t start_ = 0;
};

}  // namespace dtrain
