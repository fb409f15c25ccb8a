#include "engine/store/trial_log_reader.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/error.h"

namespace dtrain {
namespace {

constexpr std::size_t kChunk = std::size_t{64} << 10;
// A record is at most 64 KiB of text and its stamp.
constexpr std::size_t kLongestLine = std::size_t{128} << 10;

[[noreturn]] void Fail(const std::filesystem::path& path) {
  throw Error(ErrorKind::kStore, path.string() + ": cannot be read: " +
                                     std::generic_category().message(errno) +
                                     "; check its permissions");
}

std::uint64_t InodeAt(const std::filesystem::path& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}

// Takes a number and the space behind it.
template <typename T>
bool TakeNumber(std::string_view& line, T& number) {
  const char* end = line.data() + line.size();
  const auto [rest, error] = std::from_chars(line.data(), end, number);
  if (error != std::errc() || rest == end || *rest != ' ') return false;
  line.remove_prefix(static_cast<std::size_t>(rest - line.data()) + 1);
  return true;
}

// Takes one of `letters` and the space behind it; -1 if neither is there.
int TakeLetter(std::string_view& line, std::string_view letters) {
  if (line.size() < 2 || line[1] != ' ') return -1;
  const std::size_t index = letters.find(line[0]);
  if (index == std::string_view::npos) return -1;
  line.remove_prefix(2);
  return static_cast<int>(index);
}

std::optional<LogRecord> Parse(std::string_view line) {
  LogRecord record;
  std::int64_t micros = 0;
  if (!TakeNumber(line, micros)) return std::nullopt;
  if (!TakeNumber(line, record.rank)) return std::nullopt;
  const int stream = TakeLetter(line, "oe");
  const int level = stream < 0 ? -1 : TakeLetter(line, "diwe");
  const int partial = level < 0 ? -1 : TakeLetter(line, ".+");
  if (partial < 0) return std::nullopt;
  record.time = Timestamp(micros);
  record.from_stderr = stream == 1;
  record.level = static_cast<LogLevel>(level);
  record.partial = partial == 1;
  record.text = line;
  return record;
}

// Where the last `lines` lines of the file begin, which become fewer by those
// that it has.
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
    : path_(std::move(path)) {}

std::filesystem::path TrialLogReader::Rotated() const {
  return path_.string() + ".1";
}

std::optional<LogRecord> TrialLogReader::Next() {
  while (true) {
    const std::size_t end = buffer_.find('\n', start_);
    if (end != std::string::npos) {
      const std::string_view line(buffer_.data() + start_, end - start_);
      auto record =
          std::exchange(skipping_, false) ? std::nullopt : Parse(line);
      start_ = end + 1;
      if (record) return record;
      continue;
    }
    if (buffer_.size() - start_ > kLongestLine) {
      buffer_.clear();
      start_ = 0;
      skipping_ = true;
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
  buffer_.erase(0, std::exchange(start_, 0));
  while (true) {
    const std::size_t size = buffer_.size();
    buffer_.resize(size + kChunk);
    ssize_t count = -1;
    do {
      count = ::read(file_.get(), buffer_.data() + size, kChunk);
    } while (count < 0 && errno == EINTR);
    const int error = errno;
    buffer_.resize(size +
                   static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    if (count > 0) return true;
    errno = error;
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
  // What a crash left of a last line is no record.
  buffer_.clear();
  start_ = 0;
  skipping_ = false;
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
