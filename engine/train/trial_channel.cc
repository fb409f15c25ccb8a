#include "engine/train/trial_channel.h"

#include <cerrno>
#include <cstdlib>
#include <utility>

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/base/error.h"
#include "engine/train/log_line.h"

// Two threads share a channel: the trial's main thread sends, and a listener
// reads the socket. The listener wakes the main thread through condition
// variables and eventfds, and handles what must not wait for the main thread: a
// closed socket (the runner has exited), SIGTERM, and the exit after
// `orphan_life`. Reports carry sequence numbers and are kept until the runner
// acknowledges them; Send waits when too many are pending.

namespace dtrain {

namespace {

using std::chrono::steady_clock;

constexpr int kOrphanExitCode = 75;
constexpr std::chrono::milliseconds kProgressInterval{200};

// A signal handler can only use a global.
std::atomic<int> term_wake_fd = -1;

void Wake(int fd) {
  const std::uint64_t one = 1;
  // A write may be interrupted or cut short. A counter that is already full has
  // woken the reader.
  constexpr int kMaxTries = 100;
  for (int tries = 0; tries < kMaxTries; ++tries) {
    if (::write(fd, &one, sizeof one) >= 0 || errno == EAGAIN) return;
  }
}

// Only write(2), which is async-signal-safe; the listener does the rest.
void OnTerm(int) {
  const int saved = errno;
  Wake(term_wake_fd);
  errno = saved;
}

// Sequence number by which a message is acknowledged; null if it is not.
std::int64_t* FindSeq(TrialMessage& message) {
  return std::visit(
      [](auto& kind) -> std::int64_t* {
        if constexpr (requires { kind.seq; }) return &kind.seq;
        return nullptr;
      },
      message);
}

std::size_t CountValues(const TrialMessage& message) {
  return std::visit(
      [](const auto& kind) -> std::size_t {
        if constexpr (requires { kind.metrics; }) return kind.metrics.size();
        return 0;
      },
      message);
}

}  // namespace

TrialChannel::TrialChannel(UniqueFd socket, ChannelLimits limits)
    : socket_(std::move(socket)),
      limits_(limits),
      reader_(socket_.get()),
      news_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

TrialChannel::~TrialChannel() {
  if (!listener_.joinable()) return;
  ::signal(SIGTERM, SIG_DFL);
  quit_ = true;
  Wake(wake_.get());
  listener_.join();
}

TrialSpec TrialChannel::ReadSpec() {
  std::optional<std::string> line = reader_.Next();
  while (!line) {
    if (!reader_.Fill()) {
      throw Error(ErrorKind::kFailed,
                  "control channel: closed before the trial was described");
    }
    line = reader_.Next();
  }
  return DecodeTrialSpec(*line);
}

void TrialChannel::Start() {
  term_wake_fd = wake_.get();
  struct sigaction action = {};
  action.sa_handler = OnTerm;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGTERM, &action, nullptr);
  listener_ = std::thread([this] { Listen(); });
}

void TrialChannel::Listen() try {
  bool open = true;
  while (open) {
    while (auto line = reader_.Next())
      HandleMessage(DecodeRunnerMessage(*line));
    pollfd entries[] = {{.fd = socket_.get(), .events = POLLIN, .revents = 0},
                        {.fd = wake_.get(), .events = POLLIN, .revents = 0}};
    if (::poll(entries, 2, -1) < 0) continue;
    if (entries[1].revents != 0) {
      if (quit_) return;
      std::uint64_t count = 0;
      (void)!::read(wake_.get(), &count, sizeof count);
      RequestStop();
    }
    if (entries[0].revents != 0) open = reader_.Fill();
  }
  while (auto line = reader_.Next()) HandleMessage(DecodeRunnerMessage(*line));
  HangUp();
} catch (const std::exception& error) {
  // An invalid message from the runner is treated like a closed connection.
  LogLine(LogLevel::kError, error.what());
  HangUp();
}

void TrialChannel::HandleMessage(RunnerMessage message) {
  if (std::holds_alternative<StopTrial>(message)) {
    RequestStop();
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    if (const auto* ack = std::get_if<Acknowledge>(&message)) {
      // One acknowledgement covers all messages up to its number.
      while (!sent_.empty() && sent_.front().seq <= ack->seq) {
        values_ -= sent_.front().values;
        sent_.pop_front();
      }
    } else {
      instructions_.push_back(message);
      Wake(news_.get());
    }
  }
  changed_.notify_all();
}

void TrialChannel::RequestStop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    Wake(news_.get());
  }
  changed_.notify_all();
}

void TrialChannel::HangUp() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  RequestStop();
  const auto end = steady_clock::now() + limits_.orphan_life;
  while (!quit_) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(end - steady_clock::now());
    // The main thread has had its time to save a checkpoint, and may hang.
    if (left.count() <= 0) ::_exit(kOrphanExitCode);
    pollfd entry{.fd = wake_.get(), .events = POLLIN, .revents = 0};
    if (::poll(&entry, 1, static_cast<int>(left.count())) > 0 && !quit_) {
      std::uint64_t count = 0;
      (void)!::read(wake_.get(), &count, sizeof count);
    }
  }
}

void TrialChannel::Send(TrialMessage message) {
  std::int64_t* seq = FindSeq(message);
  const bool is_progress = std::holds_alternative<Progress>(message);
  std::unique_lock lock(mutex_);
  if (seq != nullptr) {
    AwaitRoom(lock);
    *seq = ++seq_;
  }
  const std::string line = Encode(message);
  if (is_progress) progress_ = line;
  if (seq != nullptr) {
    const std::size_t values = CountValues(message);
    values_ += values;
    sent_.push_back({*seq, std::move(message), values});
  }
  const bool closed = closed_;
  lock.unlock();
  if (!closed) Write(line);
}

// The listener thread notices a runner that has exited. Another error is not
// one of the trial.
void TrialChannel::Write(const std::string& line) try {
  (void)WriteAll(socket_.get(), line);
} catch (const Error& error) {
  throw Error(ErrorKind::kStore, error.what());
}

void TrialChannel::AwaitRoom(std::unique_lock<std::mutex>& lock) {
  const auto has_room = [this] {
    return closed_ ||
           (sent_.size() < limits_.messages && values_ < limits_.values);
  };
  while (!changed_.wait_for(lock, kProgressInterval, has_room)) {
    // The runner is only slow: send it a sign of life.
    const std::string progress = progress_;
    lock.unlock();
    Write(progress);
    lock.lock();
  }
}

RunnerMessage TrialChannel::Next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return stop_ || !instructions_.empty(); });
  if (stop_) return StopTrial{};
  const RunnerMessage order = instructions_.front();
  instructions_.pop_front();
  return order;
}

std::optional<RunnerMessage> TrialChannel::TryNext() {
  const std::lock_guard lock(mutex_);
  std::uint64_t count = 0;
  (void)!::read(news_.get(), &count, sizeof count);
  if (stop_) return StopTrial{};
  if (instructions_.empty()) return std::nullopt;
  const RunnerMessage order = instructions_.front();
  instructions_.pop_front();
  return order;
}

bool TrialChannel::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

std::vector<TrialMessage> TrialChannel::Unacknowledged() const {
  const std::lock_guard lock(mutex_);
  std::vector<TrialMessage> messages;
  messages.reserve(sent_.size());
  for (const Sent& sent : sent_) messages.push_back(sent.message);
  return messages;
}

void TrialChannel::Drain() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, limits_.drain,
                    [this] { return closed_ || sent_.empty(); });
}

TrialLink TrialChannel::Link() {
  return {.send = [this](TrialMessage message) { Send(std::move(message)); },
          .next = [this] { return Next(); },
          .stop_requested = [this] { return stop_requested(); },
          .unacknowledged = [this] { return Unacknowledged(); }};
}

}  // namespace dtrain
