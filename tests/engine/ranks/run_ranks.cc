#include "tests/engine/ranks/run_ranks.h"

#include <array>
#include <optional>
#include <thread>
#include <utility>

#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/os/socket.h"
#include "engine/os/system_error.h"
#include "engine/ranks/process_group.h"
#include "engine/ranks/shared_collectives.h"
#include "engine/ranks/shared_memory.h"

namespace dtrain {
namespace {

using Body = std::function<std::string(const Seat&)>;
using Places = std::vector<std::optional<ProcessGroup>>;

// The memory or listener of the ranks of a test.
class Venue {
 public:
  Venue(RankKind kind, int ranks) : kind_(kind), ranks_(ranks) {
    if (on_network()) {
      listener_ = ListenAt({.host = "127.0.0.1"});
      port_ = GetPort(listener_.get());
    } else {
      memory_ = MakeSharedMemory(ranks);
      mapping_.emplace(memory_.get(), ranks);
    }
  }

  int ranks() const { return ranks_; }

  // `place` is where the rank's own is kept.
  Seat MakeSeat(int rank, std::optional<ProcessGroup>& place) {
    if (kind_ == RankKind::kThreads) {
      return Seat(rank, ranks_, [this, rank](ChannelOptions options) {
        return std::make_unique<SharedCollectives>(*mapping_, rank, options);
      });
    }
    if (on_network()) {
      place.emplace(rank == 0 ? std::move(listener_) : UniqueFd(),
                    Rendezvous{.first = {"127.0.0.1", port_},
                               .token = "a test's",
                               .rank = rank,
                               .ranks = ranks_});
    } else {
      place.emplace(memory_, rank, ranks_);
    }
    return Seat(rank, ranks_, [&place](ChannelOptions options) {
      return place->OpenChannel(std::move(options));
    });
  }

 private:
  bool on_network() const {
    return kind_ == RankKind::kNetworkThreads ||
           kind_ == RankKind::kNetworkProcesses;
  }

  const RankKind kind_;
  const int ranks_;
  UniqueFd memory_;
  std::optional<SharedMemory> mapping_;
  UniqueFd listener_;
  int port_ = 0;
};

RankResult RunRank(const Body& body, Venue& venue, int rank,
                   std::optional<ProcessGroup>& place) {
  try {
    return {.value = body(venue.MakeSeat(rank, place))};
  } catch (const Error& error) {
    return {.error = error.what()};
  }
}

std::vector<RankResult> RunThreads(Venue& venue, const Body& body) {
  std::vector<RankResult> results(static_cast<std::size_t>(venue.ranks()));
  Places places(results.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < results.size(); ++i) {
    threads.emplace_back([&, i] {
      results[i] = RunRank(body, venue, static_cast<int>(i), places[i]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

void WriteWhole(int fd, const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t wrote = ::write(fd, text.data() + at, text.size() - at);
    if (wrote <= 0) ::_exit(1);
    at += static_cast<std::size_t>(wrote);
  }
}

std::string ReadWhole(int fd) {
  std::string text;
  std::array<char, 65536> bytes;
  ssize_t read = 0;
  while ((read = ::read(fd, bytes.data(), bytes.size())) > 0) {
    text.append(bytes.data(), static_cast<std::size_t>(read));
  }
  return text;
}

struct RankProcess {
  pid_t id = -1;
  UniqueFd result;
};

// The first byte says whether it is a value or an error.
RankProcess StartProcess(Venue& venue, int rank, const Body& body) {
  std::array<int, 2> ends;
  if (::pipe(ends.data()) != 0) ThrowSystemError("make a pipe");
  RankProcess process{.id = ::fork(), .result = UniqueFd(ends[0])};
  const UniqueFd into(ends[1]);
  if (process.id != 0) return process;
  std::optional<ProcessGroup> place;
  const RankResult result = RunRank(body, venue, rank, place);
  WriteWhole(into.get(),
             result.error.empty() ? "v" + result.value : "e" + result.error);
  ::_exit(0);
}

RankResult EndProcess(const RankProcess& process) {
  const std::string said = ReadWhole(process.result.get());
  int status = -1;
  EXPECT_EQ(::waitpid(process.id, &status, 0), process.id);
  EXPECT_EQ(status, 0);
  if (said.empty()) return {.error = "a rank said nothing"};
  return said[0] == 'v' ? RankResult{.value = said.substr(1)}
                        : RankResult{.error = said.substr(1)};
}

}  // namespace

std::vector<RankResult> RunRanks(RankKind kind, int ranks, const Body& body) {
  Venue venue(kind, ranks);
  const bool processes =
      kind == RankKind::kProcesses || kind == RankKind::kNetworkProcesses;
  if (!processes) return RunThreads(venue, body);
  std::vector<RankProcess> started;
  for (int rank = 0; rank < ranks; ++rank) {
    started.push_back(StartProcess(venue, rank, body));
  }
  std::vector<RankResult> results;
  for (const RankProcess& process : started) {
    results.push_back(EndProcess(process));
  }
  return results;
}

}  // namespace dtrain
