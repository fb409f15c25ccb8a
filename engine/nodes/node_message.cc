#include "engine/nodes/node_message.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <span>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/ranks/peer_proof.h"
#include "engine/wire/json_codec.h"

namespace dtrain {
namespace {

// In the order of LogLevel.
constexpr std::array<std::string_view, 4> kLevels = {"debug", "info", "warning",
                                                     "error"};

template <typename Message>
Message Decode(std::string_view line) {
  return DecodeLine<Message>(line, "message between machines",
                             /*strict=*/false);
}

}  // namespace

// The runner may exit with 128 plus the number.
void WorkerDraining::Check() const {
  constexpr std::array<int, 5> kSignals = {0, SIGHUP, SIGINT, SIGTERM, SIGUSR2};
  if (std::ranges::find(kSignals, signal) != kSignals.end()) return;
  throw Error(ErrorKind::kFailed,
              "field 'signal' must be SIGHUP, SIGINT, SIGTERM or SIGUSR2");
}

// An invalid message is a fault of its sender, not of the trial.
void ShardMessage::Check() const {
  static_cast<void>(DecodeTrialMessage(line));
}

// Found by the codec.
static std::span<const std::string_view> EnumNames(LogLevel) { return kLevels; }

std::string RankSecret(const std::string& secret, const TrialSpec& spec) {
  return DeriveSecret(secret, "ranks of trial " + ToString(spec.id) + ", " +
                                  spec.address->token);
}

std::string EncodeReport(const NodeReport& report) {
  return EncodeLine(report);
}

std::string EncodeOrder(const NodeOrder& order) { return EncodeLine(order); }

NodeReport DecodeReport(std::string_view line) {
  return Decode<NodeReport>(line);
}

NodeOrder DecodeOrder(std::string_view line) { return Decode<NodeOrder>(line); }

NodeChannel::NodeChannel(UniqueFd socket, PeerSession session, std::string peer,
                         std::size_t max_line, Clock clock, Duration silence)
    : peer_(std::move(peer)),
      session_(std::move(session)),
      clock_(std::move(clock)),
      lines_(std::move(socket), peer_, max_line + PeerSession::kSealBytes),
      silence_(silence),
      last_received_(clock_.monotonic()),
      last_sent_(last_received_) {}

void NodeChannel::Write(const std::string& line) {
  last_sent_ = clock_.monotonic();
  lines_.Write(session_.Seal(line.substr(0, line.size() - 1)) + "\n");
}

std::optional<std::string> NodeChannel::Next() {
  std::optional<std::string> line = lines_.Next();
  if (!line) return line;
  last_received_ = clock_.monotonic();
  return session_.Open(*line);
}

void NodeChannel::OnTime(const std::string& alive) {
  const Duration now = clock_.monotonic();
  if (now - last_received_ >= silence_) {
    throw Error(ErrorKind::kFailed,
                "it was silent for " + FormatDuration(silence_));
  }
  if (now - last_sent_ >= kNodeBeat) Write(alive);
}

Duration NodeChannel::Deadline() const {
  return std::min(last_received_ + silence_, last_sent_ + kNodeBeat);
}

}  // namespace dtrain
