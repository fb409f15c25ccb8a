#include "tests/engine/ranks/run_ranks.h"

#include <array>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/base/system_error.h"
#include "engine/ranks/rank_memory.h"

namespace dtrain {
namespace {

using Body = std::function<std::string(const Seat&)>;

RankResult ResultOf(const Body& body, const Seat& seat) {
  try {
    return {.value = body(seat)};
  } catch (const Error& error) {
    return {.error = error.what()};
  }
}

std::vector<RankResult> RunThreads(bool shared, const RankMapping& mapping,
                                   int memory_fd, const Body& body) {
  std::vector<RankResult> results(static_cast<std::size_t>(mapping.ranks()));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < mapping.ranks(); ++rank) {
    threads.emplace_back([&, rank] {
      results[static_cast<std::size_t>(rank)] =
          ResultOf(body, Seat(mapping, memory_fd, rank, shared));
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
RankProcess StartProcess(const Seat& seat, const Body& body) {
  std::array<int, 2> ends;
  if (::pipe(ends.data()) != 0) ThrowSystemError("make a pipe");
  RankProcess process{.id = ::fork(), .result = UniqueFd(ends[0])};
  const UniqueFd into(ends[1]);
  if (process.id != 0) return process;
  const RankResult result = ResultOf(body, seat);
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
  const UniqueFd memory = MakeRankMemory(ranks);
  const RankMapping mapping(memory.get(), ranks);
  if (kind != RankKind::kProcesses) {
    return RunThreads(kind == RankKind::kThreads, mapping, memory.get(), body);
  }
  std::vector<RankProcess> processes;
  for (int rank = 0; rank < ranks; ++rank) {
    processes.push_back(StartProcess(
        Seat(mapping, memory.get(), rank, /*shared=*/false), body));
  }
  std::vector<RankResult> results;
  for (const RankProcess& process : processes) {
    results.push_back(EndProcess(process));
  }
  return results;
}

}  // namespace dtrain
