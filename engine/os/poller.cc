#include "engine/os/poller.h"

#include <algorithm>
#include <array>

#include <sys/epoll.h>

#include "engine/os/system_error.h"

namespace dtrain {
namespace {

epoll_event EventFor(std::uint64_t token, bool write) {
  epoll_event event{};
  event.events = write ? EPOLLIN | EPOLLOUT : EPOLLIN;
  event.data.u64 = token;
  return event;
}

}  // namespace

Poller::Poller() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_) ThrowSystemError("make an epoll descriptor");
}

void Poller::Add(int fd, std::uint64_t token) {
  epoll_event event = EventFor(token, /*write=*/false);
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    ThrowSystemError("watch a descriptor");
  }
}

void Poller::WatchForWrite(int fd, std::uint64_t token, bool enabled) {
  epoll_event event = EventFor(token, enabled);
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void Poller::Remove(int fd) {
  epoll_event unused{};
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, &unused);
}

std::vector<Poller::Ready> Poller::Wait(Duration timeout) {
  std::array<epoll_event, 64> events;
  const auto milliseconds =
      std::chrono::ceil<std::chrono::milliseconds>(timeout).count();
  const int count = ::epoll_wait(
      epoll_.get(), events.data(), events.size(),
      static_cast<int>(std::clamp<long>(milliseconds, 0, 1'000'000)));
  std::vector<Ready> ready;
  for (int i = 0; i < count; ++i) {
    // An end or error is found by reading.
    constexpr unsigned kReadable = EPOLLIN | EPOLLHUP | EPOLLERR;
    ready.push_back({.token = events[i].data.u64,
                     .readable = (events[i].events & kReadable) != 0,
                     .writable = (events[i].events & EPOLLOUT) != 0});
  }
  return ready;
}

}  // namespace dtrain
