#include "engine/process/rank_output.h"

#include <cerrno>
#include <utility>

#include <unistd.h>

namespace dtrain {
namespace {

constexpr std::size_t kChunk = std::size_t{64} << 10;

}  // namespace

RankOutput::RankOutput(TrialOutput& output, int rank, Clock clock,
                       std::array<UniqueFd, 2> pipes)
    : output_(output),
      clock_(std::move(clock)),
      pipes_(std::move(pipes)),
      splitters_{LogLineSplitter(rank, /*from_stderr=*/false),
                 LogLineSplitter(rank, /*from_stderr=*/true)} {}

bool RankOutput::Drain(Stream stream) {
  std::array<char, kChunk> chunk;
  const ssize_t count =
      ::read(pipes_[stream].get(), chunk.data(), chunk.size());
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  splitters_[stream].Feed(
      {chunk.data(), static_cast<std::size_t>(count)}, clock_.now(),
      [this](const LogRecord& record) { output_.Append(record); });
  return count > 0;
}

void RankOutput::Close(Stream stream) {
  if (!pipes_[stream]) return;
  pipes_[stream].reset();
  splitters_[stream].Finish(clock_.now(), [this](const LogRecord& record) {
    output_.Append(record);
  });
}

}  // namespace dtrain
