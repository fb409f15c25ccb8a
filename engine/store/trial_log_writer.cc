#include "engine/store/trial_log_writer.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/error.h"
#include "engine/store/private_files.h"

namespace dtrain {
namespace {

constexpr std::size_t kBufferSize = std::size_t{64} << 10;

std::int64_t Lines(std::string_view text) {
  return std::count(text.begin(), text.end(), '\n');
}

// How much of `data` was written; less than all of it if the disk is full.
std::size_t Write(int fd, std::string_view data) {
  std::size_t written = 0;
  while (written < data.size()) {
    const ssize_t count =
        ::write(fd, data.data() + written, data.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    written += static_cast<std::size_t>(count);
  }
  return written;
}

std::int64_t FileSize(const std::filesystem::path& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  return error ? 0 : static_cast<std::int64_t>(size);
}

}  // namespace

TrialLogWriter::TrialLogWriter(std::filesystem::path path, std::int64_t cap)
    : path_(std::move(path)), cap_(cap) {
  try {
    MakePrivateDirectories(path_.parent_path());
  } catch (const Error&) {
    // Then the file cannot be opened either, and lines are counted as dropped.
  }
  Open();
}

TrialLogWriter::~TrialLogWriter() { Flush(); }

void TrialLogWriter::Open() {
  file_.reset(::open(path_.c_str(),
                     O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
                     0600));
  struct stat status {};
  if (!file_ || ::fstat(file_.get(), &status) != 0) return;
  size_ = status.st_size;
  // A writer that was killed, or a full disk, may have left half a record.
  char last = '\n';
  torn_ = size_ > 0 && ::pread(file_.get(), &last, 1, size_ - 1) == 1 &&
          last != '\n';
}

void TrialLogWriter::Append(const LogRecord& record) {
  last_.time = record.time;
  last_.rank = record.rank;
  const std::size_t before = buffer_.size();
  Buffer(record);
  const bool first = size_ == 0 && before == 0;
  if (!first && size_ + static_cast<std::int64_t>(buffer_.size()) > cap_) {
    const std::string line = buffer_.substr(before);
    buffer_.resize(before);
    Flush();
    Rotate();
    buffer_ += line;
  }
  if (buffer_.size() >= kBufferSize) Flush();
}

void TrialLogWriter::Flush() {
  if (buffer_.empty()) return;
  const std::string lines = std::exchange(buffer_, {});
  const std::int64_t dropped_before = dropped_;
  if (dropped_before > 0) {
    Remark(std::to_string(dropped_before) +
           " lines were lost here because the disk was full");
  }
  const std::size_t remark = buffer_.size() + (torn_ ? 1 : 0);
  const std::string data =
      (torn_ ? "\n" : "") + std::exchange(buffer_, {}) + lines;
  if (!file_) Open();
  const std::size_t written = file_ ? Write(file_.get(), data) : 0;
  if (written >= remark) dropped_ = 0;
  dropped_ += Lines(std::string_view(data).substr(std::max(written, remark)));
  size_ += static_cast<std::int64_t>(written);
  if (written > 0) torn_ = data[written - 1] != '\n';
}

void TrialLogWriter::Rotate() {
  const std::filesystem::path rotated = path_.string() + ".1";
  const std::int64_t lost = FileSize(rotated);
  if (std::rename(path_.c_str(), rotated.c_str()) != 0) return;
  size_ = 0;
  torn_ = false;
  Open();
  if (lost == 0) return;
  Remark(std::to_string(lost) +
         " bytes of older log were dropped; a trial's log is kept to two "
         "files of " +
         std::to_string(cap_) + " bytes");
}

void TrialLogWriter::Buffer(const LogRecord& record) {
  static constexpr std::string_view kLevelLetters = "diwe";
  buffer_ += std::to_string(record.time.count());
  buffer_ += ' ';
  buffer_ += std::to_string(record.rank);
  buffer_ += record.from_stderr ? " e " : " o ";
  buffer_ += kLevelLetters[static_cast<std::size_t>(record.level)];
  buffer_ += record.partial ? " + " : " . ";
  buffer_ += record.text;
  buffer_ += '\n';
}

void TrialLogWriter::Remark(const std::string& text) {
  Buffer({.time = last_.time,
          .rank = last_.rank,
          .from_stderr = true,
          .level = LogLevel::kWarning,
          .text = "dtrain: " + text});
}

}  // namespace dtrain
