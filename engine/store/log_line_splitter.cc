#include "engine/store/log_line_splitter.h"

#include <algorithm>
#include <utility>

namespace dtrain {
namespace {

constexpr std::size_t kLongestPiece = std::size_t{64} << 10;

// The level of a prefix `<N>` as in sd-daemon(3), which is cut off.
LogLevel TakeLevel(std::string& line) {
  const bool prefixed = line.size() >= 3 && line[0] == '<' && line[1] >= '0' &&
                        line[1] <= '7' && line[2] == '>';
  if (!prefixed) return LogLevel::kInfo;
  const char severity = line[1];
  line.erase(0, 3);
  if (severity <= '3') return LogLevel::kError;
  if (severity == '4') return LogLevel::kWarning;
  return severity == '7' ? LogLevel::kDebug : LogLevel::kInfo;
}

}  // namespace

void LogLineSplitter::Feed(std::string_view bytes, Timestamp now,
                           const std::function<void(const LogRecord&)>& emit) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const bool whole = end != std::string_view::npos;
    // Take no more at once than makes one piece.
    const std::size_t length = std::min(whole ? end : bytes.size(),
                                        kLongestPiece + 1 - pending_.size());
    pending_ += bytes.substr(0, length);
    bytes.remove_prefix(length);
    if (pending_.size() > kLongestPiece) {
      std::string rest = pending_.substr(kLongestPiece);
      pending_.resize(kLongestPiece);
      Emit(now, /*partial=*/true, emit);
      pending_ = std::move(rest);
    } else if (whole) {
      bytes.remove_prefix(1);
      Emit(now, /*partial=*/false, emit);
    }
  }
}

void LogLineSplitter::Finish(
    Timestamp now, const std::function<void(const LogRecord&)>& emit) {
  if (!pending_.empty() || continued_) Emit(now, /*partial=*/false, emit);
}

void LogLineSplitter::Emit(Timestamp now, bool partial,
                           const std::function<void(const LogRecord&)>& emit) {
  if (!continued_) level_ = TakeLevel(pending_);
  continued_ = partial;
  emit({.time = now,
        .rank = rank_,
        .from_stderr = from_stderr_,
        .level = level_,
        .partial = partial,
        .text = std::exchange(pending_, {})});
}

}  // namespace dtrain
