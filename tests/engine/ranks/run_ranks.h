#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/ranks/shared_group.h"

namespace dtrain {

/// What ranks of a test are.
enum class RankKind {
  /// Threads with one view of the memory, so that a sanitizer of threads sees
  /// who writes what.
  kThreads,
  /// Threads that map the memory each for itself.
  kMappedThreads,
  kProcesses,
};

/// What a rank of a test is given.
class Seat {
 public:
  Seat(const RankMapping& mapping, int memory_fd, int rank, bool shared)
      : mapping_(mapping),
        memory_fd_(memory_fd),
        rank_(rank),
        shared_(shared) {}

  int rank() const { return rank_; }
  int ranks() const { return mapping_.ranks(); }
  SharedGroup Group(SharedGroupOptions options = {}) const {
    return shared_ ? SharedGroup(mapping_, rank_, options)
                   : SharedGroup(memory_fd_, rank_, ranks(), options);
  }

 private:
  const RankMapping& mapping_;
  int memory_fd_;
  int rank_;
  bool shared_;
};

/// What a rank returned, or the text of the Error that it ended with.
struct RankResult {
  std::string value;
  std::string error;

  bool operator==(const RankResult&) const = default;
};

/// Carries out `body` as each of `ranks` ranks, all at one time; a result for
/// each, in their order.
std::vector<RankResult> RunRanks(
    RankKind kind, int ranks,
    const std::function<std::string(const Seat&)>& body);

}  // namespace dtrain
