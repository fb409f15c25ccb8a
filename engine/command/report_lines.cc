#include "engine/command/report_lines.h"

#include <array>
#include <cerrno>
#include <string_view>

#include <fcntl.h>
#include <unistd.h>

namespace dtrain {
namespace {

constexpr std::size_t kChunk = std::size_t{64} << 10;
// So much of a line that is too long is kept, to be named by.
constexpr std::size_t kShown = 100;

}  // namespace

ReportLines::ReportLines(UniqueFd fd, std::size_t max_line)
    : fd_(std::move(fd)), max_line_(max_line) {
  ::fcntl(fd_.get(), F_SETFL, ::fcntl(fd_.get(), F_GETFL) | O_NONBLOCK);
}

bool ReportLines::Fill() {
  std::array<char, kChunk> chunk;
  const ssize_t count = ::read(fd_.get(), chunk.data(), chunk.size());
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (count <= 0) {
    if (!line_.empty()) EndLine();
    return false;
  }
  Cut({chunk.data(), static_cast<std::size_t>(count)});
  return true;
}

void ReportLines::Cut(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view piece = text.substr(0, end);
    if (!too_long_) line_ += piece;
    if (line_.size() > max_line_) {
      too_long_ = true;
      line_.resize(kShown);
      line_.shrink_to_fit();
    }
    if (end == text.npos) return;
    EndLine();
    text.remove_prefix(end + 1);
  }
}

void ReportLines::EndLine() {
  lines_.push_back({std::exchange(line_, {}), std::exchange(too_long_, false)});
}

std::optional<ReportLine> ReportLines::Next() {
  if (lines_.empty()) return std::nullopt;
  ReportLine line = std::move(lines_.front());
  lines_.pop_front();
  return line;
}

}  // namespace dtrain
