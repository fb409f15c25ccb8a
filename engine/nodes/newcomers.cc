#include "engine/nodes/newcomers.h"

#include "engine/base/error.h"
#include "engine/ranks/tcp.h"

namespace dtrain {
namespace {

constexpr Duration kPatience = std::chrono::seconds(10);
// More than these wait in the queue of the socket.
constexpr std::size_t kMost = 256;
// A part's end has the last lines of a log, of 2000 bytes each, in it.
constexpr std::size_t kLongestReport = std::size_t{1} << 20;

}  // namespace

Newcomers::Newcomers(Poller& poller, std::uint64_t first_token, Clock clock)
    : poller_(poller), next_token_(first_token), clock_(std::move(clock)) {}

Newcomers::~Newcomers() {
  for (const auto& [token, newcomer] : waiting_) {
    poller_.Remove(newcomer.channel->fd());
  }
}

void Newcomers::Accept(int listener) {
  while (UniqueFd socket = AcceptFrom(listener)) {
    if (waiting_.size() >= kMost) continue;  // turned away
    const std::uint64_t token = next_token_++;
    poller_.Add(socket.get(), token);
    waiting_[token] = {
        .channel = std::make_unique<NodeChannel>(
            std::move(socket), "a follower", kLongestReport, clock_),
        .until = clock_.monotonic() + kPatience};
  }
}

std::unique_ptr<NodeChannel> Newcomers::Take(Waiting::iterator newcomer) {
  std::unique_ptr<NodeChannel> channel = std::move(newcomer->second.channel);
  poller_.Remove(channel->fd());
  waiting_.erase(newcomer);
  return channel;
}

std::optional<std::pair<NodeHello, std::unique_ptr<NodeChannel>>>
Newcomers::OnReady(std::uint64_t token) {
  const auto found = waiting_.find(token);
  if (found == waiting_.end()) return std::nullopt;
  try {
    const bool more = found->second.channel->Fill();
    if (const auto line = found->second.channel->Next()) {
      const NodeReport report = DecodeReport(*line);
      auto channel = Take(found);
      const auto* hello = std::get_if<NodeHello>(&report);
      if (hello == nullptr) return std::nullopt;
      return std::pair(*hello, std::move(channel));
    }
    if (more) return std::nullopt;
  } catch (const Error&) {
    // Nonsense.
  }
  Take(found);
  return std::nullopt;
}

void Newcomers::OnTime() {
  const Duration now = clock_.monotonic();
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    const auto next = std::next(it);
    if (it->second.until <= now) Take(it);
    it = next;
  }
}

std::optional<Duration> Newcomers::Deadline() const {
  if (waiting_.empty()) return std::nullopt;
  return waiting_.begin()->second.until;
}

}  // namespace dtrain
