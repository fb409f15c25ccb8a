#include "engine/slots/slot_queue.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>

#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/text.h"

namespace dtrain {
namespace {

constexpr const char* kTicketPrefix = "wait-";

// A waiter tries again every half second; one that has not for this long is
// stopped or hangs.
constexpr Timestamp kSignOfLife = std::chrono::seconds(10);

// Names sort as the numbers in them.
std::string TicketName(std::int64_t number) {
  std::array<char, 40> name{};
  std::snprintf(name.data(), name.size(), "%s%018lld", kTicketPrefix,
                static_cast<long long>(number));
  return name.data();
}

std::int64_t TicketNumber(const std::string& name) {
  std::int64_t number = 0;
  const std::size_t prefix = std::string_view(kTicketPrefix).size();
  std::from_chars(name.data() + prefix, name.data() + name.size(), number);
  return number;
}

Timestamp LastSignOfLife(int file) {
  struct stat status {};
  ::fstat(file, &status);
  return std::chrono::duration_cast<Timestamp>(
      std::chrono::seconds(status.st_mtim.tv_sec) +
      std::chrono::nanoseconds(status.st_mtim.tv_nsec));
}

}  // namespace

std::optional<UniqueFd> SlotQueue::Lock() const {
  UniqueFd file = directory_.OpenFile("queue");
  if (!TryLock(file.get())) return std::nullopt;
  return file;
}

bool SlotQueue::Competes(const std::string& ticket,
                         const std::vector<std::string>& slots) const {
  const UniqueFd file = directory_.OpenToRead(ticket);
  if (!file) return false;
  if (TryLock(file.get())) {
    directory_.Remove(ticket);  // Its holder is dead.
    return false;
  }
  if (clock_.now() - LastSignOfLife(file.get()) > kSignOfLife) return false;
  const std::vector<std::string> wanted = Split(ReadContent(file.get()), '\n');
  return std::any_of(wanted.begin(), wanted.end(), [&](const auto& slot) {
    return std::find(slots.begin(), slots.end(), slot) != slots.end();
  });
}

bool SlotQueue::IsMyTurn(const std::vector<std::string>& slots) const {
  for (const std::string& ticket : directory_.List(kTicketPrefix)) {
    if (ticket == name_) return true;
    if (Competes(ticket, slots)) return false;
  }
  return true;
}

void SlotQueue::Wait(const std::vector<std::string>& slots,
                     const std::string& waiter) {
  const std::string content = Join(slots, "\n") + "\n" + waiter;
  if (ticket_) {
    ::futimens(ticket_.get(), nullptr);
    if (content != content_) WriteContent(ticket_.get(), content);
    content_ = content;
    return;
  }
  const std::vector<std::string> tickets = directory_.List(kTicketPrefix);
  const std::int64_t last = tickets.empty() ? 0 : TicketNumber(tickets.back());
  name_ = TicketName(last + 1);
  ticket_ = directory_.OpenFile(name_);
  // Nobody else can have it: the number is new, and the queue is locked.
  [[maybe_unused]] const bool locked = TryLock(ticket_.get());
  WriteContent(ticket_.get(), content);
  content_ = content;
}

std::vector<std::vector<std::string>> SlotQueue::Tickets() const {
  std::vector<std::vector<std::string>> tickets;
  for (const std::string& name : directory_.List(kTicketPrefix)) {
    const UniqueFd file = directory_.OpenToRead(name);
    if (!file || TryLock(file.get())) continue;  // Its holder is dead.
    tickets.push_back(Split(ReadContent(file.get()), '\n'));
  }
  return tickets;
}

void SlotQueue::Leave() {
  if (!ticket_) return;
  directory_.Remove(name_);
  name_.clear();
  ticket_.reset();
}

}  // namespace dtrain
