#include "engine/process/trial_output.h"

#include <cerrno>

#include <unistd.h>

namespace dtrain {
namespace {

constexpr std::size_t kChunk = std::size_t{64} << 10;
constexpr std::size_t kLastLines = 20;
constexpr std::size_t kLongestLastLine = 2000;
constexpr Duration kFlushAfter = std::chrono::milliseconds(100);

}  // namespace

TrialOutput::TrialOutput(std::filesystem::path log, Clock clock,
                         std::array<UniqueFd, 2> pipes)
    : clock_(std::move(clock)),
      pipes_(std::move(pipes)),
      splitters_{LogLineSplitter(/*rank=*/0, /*from_stderr=*/false),
                 LogLineSplitter(/*rank=*/0, /*from_stderr=*/true)},
      writer_(std::move(log)) {}

bool TrialOutput::Drain(Stream stream) {
  std::array<char, kChunk> chunk;
  const ssize_t count =
      ::read(pipes_[stream].get(), chunk.data(), chunk.size());
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  splitters_[stream].Feed({chunk.data(), static_cast<std::size_t>(count)},
                          clock_.now(),
                          [this](const LogRecord& record) { Append(record); });
  return count > 0;
}

void TrialOutput::Close(Stream stream) {
  if (!pipes_[stream]) return;
  pipes_[stream].reset();
  splitters_[stream].Finish(
      clock_.now(), [this](const LogRecord& record) { Append(record); });
}

void TrialOutput::Note(const std::string& text) {
  Append({.time = clock_.now(),
          .from_stderr = true,
          .level = LogLevel::kError,
          .text = "dtrain: " + text});
}

void TrialOutput::Append(const LogRecord& record) {
  writer_.Append(record);
  if (!flush_at_) flush_at_ = clock_.monotonic() + kFlushAfter;
  last_lines_.push_back(record.text.substr(0, kLongestLastLine));
  if (last_lines_.size() > kLastLines) last_lines_.pop_front();
}

void TrialOutput::Flush() {
  writer_.Flush();
  flush_at_.reset();
}

}  // namespace dtrain
