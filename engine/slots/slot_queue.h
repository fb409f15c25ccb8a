#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/os/unique_fd.h"
#include "engine/slots/slot_directory.h"

namespace dtrain {

/// This runner's place among those that wait for slots. Slots are taken only
/// under the `queue` file's lock, and by nobody who competes with one that has
/// waited longer. A waiter holds a lock on its ticket, so that a dead one
/// vanishes; one that has shown no life for a while (it is stopped) is passed
/// over.
class SlotQueue {
 public:
  SlotQueue(const SlotDirectory& directory, Clock clock)
      : directory_(directory), clock_(std::move(clock)) {}
  ~SlotQueue() { Leave(); }
  SlotQueue(const SlotQueue&) = delete;
  SlotQueue& operator=(const SlotQueue&) = delete;

  /// Holds the queue's lock as long as the result lives; none if another has
  /// it, which is never for long.
  std::optional<UniqueFd> Lock() const;

  /// Whether nobody who waits longer wants one of `slots`. REQUIRES: locked.
  bool IsMyTurn(const std::vector<std::string>& slots) const;
  /// Takes a ticket for `slots`, or shows that its holder still lives.
  /// `waiter` is a line that says for whom. REQUIRES: locked.
  void Wait(const std::vector<std::string>& slots, const std::string& waiter);
  /// Gives the ticket back. Does nothing where there is none.
  void Leave();

  bool waiting() const { return static_cast<bool>(ticket_); }
  /// The lines of every ticket whose holder lives: its slots and its waiter.
  /// REQUIRES: locked.
  std::vector<std::vector<std::string>> Tickets() const;

 private:
  bool Competes(const std::string& ticket,
                const std::vector<std::string>& slots) const;

  const SlotDirectory& directory_;
  Clock clock_;
  std::string name_;     // of the ticket
  std::string content_;  // of the ticket
  UniqueFd ticket_;
};

}  // namespace dtrain
