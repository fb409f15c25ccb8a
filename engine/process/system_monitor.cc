// The child samples all trials at common times, so that /proc is listed once
// for all of them. When a trial has ended, the kernel reports all that it used
// to the process that reaps it; the last sample is the difference to the sum of
// those before. So every trial has one, and sums are right however short trials
// are, and whatever happened to the child. A process whose parent did not wait
// for it is missing from that report, and the difference is never negative.
//
// The child inherits nothing but its socket: a child that hangs in a driver
// must hold no lock of this process. It ends when the socket is closed, which
// is also the case when this process is killed.

#include "engine/process/system_monitor.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/os/process_meter.h"
#include "engine/os/spawn.h"
#include "engine/slots/slots.h"
#include "engine/wire/json_codec.h"

namespace dtrain {
namespace {

constexpr int kMonitorFd = 3;
constexpr Duration kThoroughPeriod = std::chrono::minutes(1);
// A child that is silent for longer hangs in a driver.
constexpr int kMaxSilentPeriods = 20;
constexpr Duration kMaxSilence = std::chrono::seconds(2);
constexpr Duration kToEnd = std::chrono::milliseconds(200);
// A last sample of less than this part of a period extends the one before.
constexpr double kShortRest = 0.1;

double ToSeconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// Returns the growth of a sum, and sets `last` to it.
template <typename T>
T Grow(T& last, T now) {
  const T growth = std::max<T>(now - last, 0);
  last = now;
  return growth;
}

std::optional<std::int64_t> Grow(std::optional<std::int64_t>& last,
                                 std::optional<std::int64_t> now) {
  if (!now) return std::nullopt;
  std::int64_t before = last.value_or(0);
  last = now;
  return Grow(before, *now);
}

// The loop of the child.
class Sampler {
 public:
  Sampler(Duration period, bool with_gpus)
      : period_(period),
        with_gpus_(with_gpus),
        socket_(UniqueFd(kMonitorFd), "the runner"),
        next_(clock_.monotonic() + period),
        thorough_at_(clock_.monotonic()) {}

  // Returns when the runner has closed the socket.
  void Run() {
    while (true) {
      Duration now = clock_.monotonic();
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(next_ - now).count();
      pollfd entry{.fd = socket_.fd(), .events = POLLIN, .revents = 0};
      const int timeout =
          trials_.empty()
              ? -1
              : static_cast<int>(std::clamp<std::int64_t>(left, 0, 1 << 30));
      if (::poll(&entry, 1, timeout) < 0) continue;
      now = clock_.monotonic();
      if (now >= next_) {
        // The times stay multiples of the period while there are no trials.
        next_ += (1 + (now - next_) / period_) * period_;
        if (!Sample(now)) return;
      }
      if (entry.revents != 0 && !Receive()) return;
    }
  }

 private:
  struct Trial {
    MonitoredTrial trial;
    Duration since{0};
    ProcessUse last;
  };

  // False if the runner has closed the socket.
  bool Receive() {
    if (!socket_.Fill()) return false;
    while (const auto line = socket_.Next()) {
      auto trial = DecodeLine<MonitoredTrial>(*line, "trial", /*strict=*/true);
      const std::int64_t number = trial.trial.number;
      meter_.Remove(number);
      trials_.erase(number);
      if (trial.pids.empty()) continue;
      meter_.Add(number, trial.pids);
      ProcessUse last;
      if (trial.sampled) last = meter_.Read(/*thorough=*/false).at(number);
      trials_[number] = {
          .trial = std::move(trial), .since = clock_.monotonic(), .last = last};
    }
    return true;
  }

  // False if the runner has closed the socket.
  bool Sample(Duration now) {
    if (trials_.empty()) return true;
    const bool thorough = now >= thorough_at_;
    if (thorough) thorough_at_ = now + kThoroughPeriod;
    const auto uses = meter_.Read(thorough);
    std::string lines;
    for (auto& [number, trial] : trials_) {
      const ProcessUse& use = uses.at(number);
      if (use.processes == 0) continue;  // it has ended
      SystemSample sample{
          .seconds = ToSeconds(now - std::exchange(trial.since, now)),
          .cpu_seconds = Grow(trial.last.cpu_seconds, use.cpu_seconds),
          .processes = use.processes,
          .memory_bytes = use.memory_bytes,
          .pss_bytes = use.pss_bytes,
          .read_bytes = Grow(trial.last.read_bytes, use.read_bytes),
          .written_bytes = Grow(trial.last.written_bytes, use.written_bytes)};
      for (const MonitoredGpu& gpu : trial.trial.gpus) {
        if (!with_gpus_) break;
        if (!sensors_) sensors_.emplace();
        sample.gpus.push_back(sensors_->Read(gpu.index, gpu.uuid));
      }
      lines += EncodeLine(SystemSampled{trial.trial.trial, std::move(sample)});
    }
    if (lines.empty()) lines = "\n";  // says that this process lives
    return WriteAll(socket_.fd(), lines);
  }

  const Clock clock_ = Clock::System();
  const Duration period_;
  const bool with_gpus_;
  LineSocket socket_;
  ProcessMeter meter_;
  std::optional<GpuSensors> sensors_;
  std::map<std::int64_t, Trial> trials_;  // by number
  Duration next_;
  Duration thorough_at_;
};

// Does not return, whatever is thrown.
[[noreturn]] void RunSampler(int socket, Duration period,
                             bool with_gpus) noexcept {
  ::setsid();
  ::dup2(socket, kMonitorFd);
  ::fcntl(kMonitorFd, F_SETFL, O_NONBLOCK);
  const int null = ::open("/dev/null", O_RDWR);
  for (int fd = 0; fd < kMonitorFd; ++fd) ::dup2(null, fd);
  CloseRange(kMonitorFd + 1, ~0U);
  try {
    Sampler(period, with_gpus).Run();
  } catch (const Error&) {
    ::_exit(1);
  }
  ::_exit(0);
}

// Returns what was used beyond `sum`; none if it is not known.
std::optional<std::int64_t> Difference(std::optional<std::int64_t> used,
                                       std::optional<std::int64_t> sum) {
  if (!used || !sum) return std::nullopt;
  return std::max<std::int64_t>(*used - *sum, 0);
}

}  // namespace

Duration SystemPeriod() {
  constexpr const char* kVariable = "DTRAIN_SYSTEM_PERIOD";
  const char* text = std::getenv(kVariable);
  if (text == nullptr || *text == '\0') return std::chrono::seconds(5);
  const Duration period = ParseDuration(text, kVariable);
  if (period >= std::chrono::milliseconds(10) &&
      period <= std::chrono::hours(24)) {
    return period;
  }
  throw Error(ErrorKind::kUsage,
              std::string(kVariable) + ": '" + text +
                  "' is not from 10ms to 1d; 'profiling: {system: false}' "
                  "turns samples off");
}

SystemMonitor::SystemMonitor(Duration period, Clock clock, Poller& poller,
                             std::uint64_t token)
    : period_(period),
      clock_(std::move(clock)),
      poller_(poller),
      token_(token) {}

SystemMonitor::~SystemMonitor() { Stop(); }

void SystemMonitor::Add(MonitoredTrial trial) {
  if (trial.pids.empty()) return;
  if (trials_.empty()) heard_at_ = clock_.monotonic();
  Watched& watched = trials_[trial.trial];
  watched = {.trial = std::move(trial), .sum = SystemSample{.samples = 0}};
  if (!socket_ && failures_ < 2) {
    Start();
  } else {
    Write(EncodeLine(watched.trial));
  }
}

void SystemMonitor::Remove(TrialId trial, const SystemSample& used,
                           std::deque<LaunchEvent>& events) {
  const auto node = trials_.extract(trial);
  if (!node) return;
  const auto& [monitored, last, sum] = node.mapped();
  SystemSample rest = used;
  if (last) {
    rest.seconds = std::max(used.seconds - sum.seconds, 0.0);
    rest.cpu_seconds = std::max(used.cpu_seconds - sum.cpu_seconds, 0.0);
    rest.processes = last->processes;
    // The kernel knows a peak that is in no sample.
    if (used.memory_bytes <= sum.memory_bytes) {
      rest.memory_bytes = last->memory_bytes;
    }
    rest.read_bytes = Difference(used.read_bytes, sum.read_bytes);
    rest.written_bytes = Difference(used.written_bytes, sum.written_bytes);
    // In a short time the rounding of /proc would look like use.
    if (rest.seconds < kShortRest * ToSeconds(period_)) rest.samples = 0;
  }
  events.emplace_back(SystemSampled{trial, std::move(rest), monitored.rank});
  Write(EncodeLine(MonitoredTrial{.trial = trial, .pids = {}, .gpus = {}}));
}

void SystemMonitor::OnReady(std::deque<LaunchEvent>& events) {
  if (!socket_) return;
  try {
    socket_->Flush();
    const bool is_open = socket_->Fill();
    while (const auto line = socket_->Next()) {
      heard_at_ = clock_.monotonic();
      if (line->empty()) continue;
      auto sampled =
          DecodeLine<SystemSampled>(*line, "sample", /*strict=*/true);
      const auto found = trials_.find(sampled.trial);
      if (found == trials_.end()) continue;
      Watched& watched = found->second;
      sampled.rank = watched.trial.rank;
      watched.last = sampled.sample;
      watched.sum.Merge(sampled.sample);
      events.emplace_back(std::move(sampled));
    }
    if (is_open) {
      return poller_.WatchForWrite(socket_->fd(), token_,
                                   socket_->wants_write());
    }
  } catch (const Error&) {
    // as if it had ended
  }
  Restart();
}

void SystemMonitor::OnTime() {
  const auto deadline = Deadline();
  if (deadline && clock_.monotonic() >= *deadline) Restart();
}

std::optional<Duration> SystemMonitor::Deadline() const {
  if (!socket_ || trials_.empty()) return std::nullopt;
  return heard_at_ + kMaxSilentPeriods * period_ + kMaxSilence;
}

void SystemMonitor::Start() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    failures_ = 2;
    return;
  }
  UniqueFd here(ends[0]);
  const UniqueFd there(ends[1]);
  child_ = ::fork();
  if (child_ < 0) {
    failures_ = 2;
    return;
  }
  if (child_ == 0) RunSampler(there.get(), period_, failures_ == 0);
  ::fcntl(here.get(), F_SETFL, O_NONBLOCK);
  socket_.emplace(std::move(here), "the monitor");
  heard_at_ = clock_.monotonic();
  poller_.Add(socket_->fd(), token_);
  std::string lines;
  for (const auto& [id, one] : trials_) lines += EncodeLine(one.trial);
  Write(lines);
}

void SystemMonitor::Stop() {
  if (socket_) {
    poller_.Remove(socket_->fd());
    socket_.reset();
  }
  if (child_ <= 0) return;
  ::kill(child_, SIGKILL);
  // One that hangs in the kernel is left to the launcher's sweep.
  if (HasEnded(child_, kToEnd)) AwaitExit(child_);
  child_ = -1;
}

void SystemMonitor::Restart() {
  Stop();
  for (auto& [id, one] : trials_) one.trial.sampled = true;
  if (++failures_ < 2 && !trials_.empty()) Start();
}

void SystemMonitor::Write(const std::string& line) {
  if (!socket_) return;
  try {
    socket_->Write(line);
    poller_.WatchForWrite(socket_->fd(), token_, socket_->wants_write());
  } catch (const Error&) {
    Restart();  // it does not read
  }
}

}  // namespace dtrain
