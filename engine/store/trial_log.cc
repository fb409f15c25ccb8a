// The log of a trial is a text file of one record a line:
//
//   1700000000000000 0 e w . text     microseconds, rank, stream (o or e),
//                                     level (d i w e), . or + for a part of a
//                                     line that the next record continues
//
// Records are appended whole, so a line is torn only by a crash or a full
// disk; the writer ends such a line before its next record, and the reader
// passes over it. A log that reaches its cap is renamed to log.1, which is why
// the reader compares inodes at the end of a file.

#include "engine/store/trial_log.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/os/system_error.h"
#include "engine/store/file_tree.h"

namespace dtrain {
namespace {

constexpr std::array<std::string_view, 4> kLevels = {"debug", "info", "warning",
                                                     "error"};

}  // namespace

std::string_view LogLevelName(LogLevel level) {
  return kLevels[static_cast<std::size_t>(level)];
}

LogLevel LogLevelFromName(std::string_view name) {
  const auto found = std::find(kLevels.begin(), kLevels.end(), name);
  if (found != kLevels.end()) {
    return static_cast<LogLevel>(found - kLevels.begin());
  }
  throw Error(ErrorKind::kUsage, "unknown log level '" +
                                     EscapeForTerminal(name) +
                                     "'; choose debug, info, warning or error");
}

LogLevel ParseLevelPrefix(std::string_view& line) {
  const bool prefixed = line.size() >= 3 && line[0] == '<' && line[1] >= '0' &&
                        line[1] <= '7' && line[2] == '>';
  if (!prefixed) return LogLevel::kInfo;
  const char severity = line[1];
  line.remove_prefix(3);
  if (severity <= '3') return LogLevel::kError;
  if (severity == '4') return LogLevel::kWarning;
  return severity == '7' ? LogLevel::kDebug : LogLevel::kInfo;
}

namespace {

constexpr std::size_t kMaxPiece = std::size_t{64} << 10;

}  // namespace

LogLineSplitter::LogLineSplitter(int rank, bool from_stderr)
    : rank_(rank),
      from_stderr_(from_stderr),
      lines_(kMaxPiece, LineSplitter::Overlong::kCut) {}

void LogLineSplitter::Feed(std::string_view bytes, Timestamp now,
                           const std::function<void(const LogRecord&)>& emit) {
  lines_.Append(bytes);
  while (const auto line = lines_.Next()) Convert(*line, now, emit);
}

void LogLineSplitter::Finish(
    Timestamp now, const std::function<void(const LogRecord&)>& emit) {
  if (const auto line = lines_.Rest()) Convert(*line, now, emit);
}

void LogLineSplitter::Convert(
    const LineSplitter::Line& line, Timestamp now,
    const std::function<void(const LogRecord&)>& emit) {
  std::string_view text = line.text;
  if (!line.overlong && text.ends_with(kLineBreak.front())) {
    text.remove_suffix(1);
    if (text.empty() && !continued_) return;
  }
  if (!continued_) level_ = ParseLevelPrefix(text);
  continued_ = line.overlong;
  emit({.time = now,
        .rank = rank_,
        .from_stderr = from_stderr_,
        .level = level_,
        .partial = line.overlong,
        .text = std::string(text)});
}

namespace {

constexpr std::size_t kBufferSize = std::size_t{64} << 10;

std::int64_t Lines(std::string_view text) {
  return std::count(text.begin(), text.end(), '\n');
}

// Returns the bytes of `data` written: fewer than all of them on a full disk.
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
  // The record that would exceed the cap is the first of the new file; a file
  // always has one, even if that alone exceeds it.
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
  // What precedes the records in this write; lines that do not reach the disk
  // are counted behind it.
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

namespace {

constexpr std::size_t kChunk = std::size_t{64} << 10;
// A record is at most 64 KiB of text and its stamp.
constexpr std::size_t kMaxLine = std::size_t{128} << 10;

[[noreturn]] void Fail(const std::filesystem::path& path) {
  throw Error(ErrorKind::kStore, path.string() + ": cannot be read: " +
                                     ErrnoText() + "; check its permissions");
}

std::uint64_t InodeAt(const std::filesystem::path& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}

// Parses a number and the space after it, and removes both from `line`.
template <typename T>
bool ParseNumber(std::string_view& line, T& number) {
  const char* end = line.data() + line.size();
  const auto [rest, error] = std::from_chars(line.data(), end, number);
  if (error != std::errc() || rest == end || *rest != ' ') return false;
  line.remove_prefix(static_cast<std::size_t>(rest - line.data()) + 1);
  return true;
}

// Parses one of `letters` and the space after it; returns the letter's index,
// -1 if there is none.
int ParseLetter(std::string_view& line, std::string_view letters) {
  if (line.size() < 2 || line[1] != ' ') return -1;
  const std::size_t index = letters.find(line[0]);
  if (index == std::string_view::npos) return -1;
  line.remove_prefix(2);
  return static_cast<int>(index);
}

std::optional<LogRecord> Parse(std::string_view line) {
  LogRecord record;
  std::int64_t micros = 0;
  if (!ParseNumber(line, micros)) return std::nullopt;
  if (!ParseNumber(line, record.rank)) return std::nullopt;
  const int stream = ParseLetter(line, "oe");
  const int level = stream < 0 ? -1 : ParseLetter(line, "diwe");
  const int partial = level < 0 ? -1 : ParseLetter(line, ".+");
  if (partial < 0) return std::nullopt;
  record.time = Timestamp(micros);
  record.from_stderr = stream == 1;
  record.level = static_cast<LogLevel>(level);
  record.partial = partial == 1;
  record.text = line;
  return record;
}

// Returns the offset at which the last `lines` lines of the file begin, and
// subtracts from `lines` those that the file has.
off_t TailOffset(int fd, std::int64_t& lines) {
  std::array<char, kChunk> block;
  off_t end = ::lseek(fd, 0, SEEK_END);
  bool last = true;  // the newline that ends the file begins no line
  while (end > 0) {
    const off_t begin = std::max<off_t>(end - static_cast<off_t>(kChunk), 0);
    const auto size = static_cast<std::size_t>(end - begin);
    if (::pread(fd, block.data(), size, begin) != static_cast<ssize_t>(size)) {
      return begin;
    }
    for (std::size_t i = size; i-- > 0;) {
      if (block[i] != '\n' || std::exchange(last, false)) continue;
      if (--lines == 0) return begin + static_cast<off_t>(i) + 1;
    }
    end = begin;
  }
  if (!last) --lines;
  return 0;
}

}  // namespace

TrialLogReader::TrialLogReader(std::filesystem::path path)
    : path_(std::move(path)),
      lines_(kMaxLine, LineSplitter::Overlong::kDiscard) {}

std::filesystem::path TrialLogReader::Rotated() const {
  return path_.string() + ".1";
}

std::optional<LogRecord> TrialLogReader::Next() {
  while (true) {
    while (const auto line = lines_.Next()) {
      auto record = line->overlong ? std::nullopt : Parse(line->text);
      if (record) return record;
    }
    if (!Refill()) return std::nullopt;
  }
}

void TrialLogReader::SeekToTail(std::int64_t lines) {
  // A rotation in between makes it a few lines more or less.
  if (!Open(path_)) return;
  if (lines <= 0) {
    ::lseek(file_.get(), 0, SEEK_END);
    return;
  }
  const off_t offset = TailOffset(file_.get(), lines);
  if (lines > 0 && Open(Rotated())) {
    ::lseek(file_.get(), TailOffset(file_.get(), lines), SEEK_SET);
  } else {
    ::lseek(file_.get(), offset, SEEK_SET);
  }
}

bool TrialLogReader::Refill() {
  if (!file_ && !OpenNext()) return false;
  std::array<char, kChunk> chunk;
  while (true) {
    const ssize_t count = ::read(file_.get(), chunk.data(), chunk.size());
    if (count > 0) {
      lines_.Append({chunk.data(), static_cast<std::size_t>(count)});
      return true;
    }
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) Fail(path_);
    if (!OpenNext()) return false;
  }
}

// Called at the end of the file. False if it is still the log. A file is left
// only at an end that was reached after it had been rotated away, because the
// writer may have added to it since the last read.
bool TrialLogReader::OpenNext() {
  if (!file_) return Open(Rotated()) || Open(path_);
  const std::uint64_t log = InodeAt(path_);
  if (log == inode_ || log == 0) return false;
  if (!std::exchange(passed_on_, true)) return true;
  // An unfinished last line is left over from a crash.
  lines_.Clear();
  // Between two looks the log may be rotated, even twice. The file that follows
  // `old` is log.1 if that is another one by now, and otherwise the log; the
  // loop repeats until no rotation came in between.
  const std::uint64_t old = inode_;
  while (true) {
    const std::uint64_t rotated = InodeAt(Rotated());
    const bool skipped_one = rotated != 0 && rotated != old;
    if (skipped_one && Open(Rotated())) return true;
    if (!Open(path_)) return false;
    if (InodeAt(Rotated()) == rotated) return true;
  }
}

bool TrialLogReader::Open(const std::filesystem::path& path) {
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!file) {
    if (errno == ENOENT) return false;
    Fail(path);
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) Fail(path);
  file_ = std::move(file);
  inode_ = status.st_ino;
  passed_on_ = false;
  return true;
}

}  // namespace dtrain
