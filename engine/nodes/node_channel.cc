#include "engine/nodes/node_channel.h"

#include <algorithm>

#include "engine/base/error.h"
#include "engine/base/text.h"

namespace dtrain {

NodeChannel::NodeChannel(UniqueFd socket, PeerSession session, std::string peer,
                         std::size_t max_line, Clock clock, Duration silence)
    : peer_(std::move(peer)),
      session_(std::move(session)),
      clock_(std::move(clock)),
      lines_(std::move(socket), peer_, max_line + PeerSession::kSealBytes),
      silence_(silence),
      heard_at_(clock_.monotonic()),
      said_at_(heard_at_) {}

void NodeChannel::Write(const std::string& line) {
  said_at_ = clock_.monotonic();
  lines_.Write(session_.Seal(line.substr(0, line.size() - 1)) + "\n");
}

std::optional<std::string> NodeChannel::Next() {
  std::optional<std::string> line = lines_.NextLine();
  if (!line) return line;
  heard_at_ = clock_.monotonic();
  return session_.Open(*line);
}

void NodeChannel::OnTime(const std::string& alive) {
  const Duration now = clock_.monotonic();
  if (now - heard_at_ >= silence_) {
    throw Error(ErrorKind::kFailed,
                "it was silent for " + FormatDuration(silence_));
  }
  if (now - said_at_ >= kNodeBeat) Write(alive);
}

Duration NodeChannel::Deadline() const {
  return std::min(heard_at_ + silence_, said_at_ + kNodeBeat);
}

}  // namespace dtrain
