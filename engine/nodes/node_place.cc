#include "engine/nodes/node_place.h"

#include <charconv>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/ranks/rank_connections.h"

namespace dtrain {
namespace {

constexpr int kDefaultPort = 29500;

std::string Shown(const std::string& name, const std::string& value) {
  return name + "=" + Truncate(EscapeForTerminal(value), 100);
}

int NumberOf(const std::string& name, const std::string& value, int least,
             int most) {
  int number = 0;
  const char* const end = value.data() + value.size();
  const auto [at, error] = std::from_chars(value.data(), end, number);
  if (error == std::errc() && at == end && number >= least && number <= most) {
    return number;
  }
  throw Error(ErrorKind::kUsage, Shown(name, value) + ": is no number from " +
                                     std::to_string(least) + " to " +
                                     std::to_string(most));
}

[[noreturn]] void FailMissing(const std::string& name, const std::string& what,
                              int world_size) {
  throw Error(ErrorKind::kUsage,
              "WORLD_SIZE=" + std::to_string(world_size) + ", but " + name +
                  " is not set; set it to " + what + ", or unset WORLD_SIZE");
}

// It may be another program's, left over.
int WorldSizeOf(const std::string& value) {
  try {
    return NumberOf("WORLD_SIZE", value, 1, kMaxNetworkRanks);
  } catch (const Error& error) {
    throw Error(ErrorKind::kUsage,
                std::string(error.what()) +
                    "; set it to how many machines take part, or unset it");
  }
}

int RankOf(const ReadEnvironment& read, int world_size) {
  const auto rank = read("RANK");
  if (!rank || rank->empty()) {
    FailMissing("RANK", "this process's number from 0", world_size);
  }
  try {
    return NumberOf("RANK", *rank, 0, world_size - 1);
  } catch (const Error& error) {
    throw Error(ErrorKind::kUsage, std::string(error.what()) +
                                       ", as WORLD_SIZE=" +
                                       std::to_string(world_size) + " has it");
  }
}

HostPort RunnerOf(const ReadEnvironment& read, int world_size) {
  const auto host = read("MASTER_ADDR");
  if (!host || host->empty()) {
    FailMissing("MASTER_ADDR", "the machine of RANK=0", world_size);
  }
  HostPort runner{.host = *host, .port = kDefaultPort};
  if (const auto port = read("MASTER_PORT"); port && !port->empty()) {
    runner.port = NumberOf("MASTER_PORT", *port, 1, 65535);
  }
  try {
    RequireAddress(runner.host);
  } catch (const Error& error) {
    throw Error(ErrorKind::kUsage, std::string("MASTER_ADDR=") + error.what());
  }
  return runner;
}

bool AreAllHere(const ReadEnvironment& read, int world_size) {
  const auto local = read("LOCAL_WORLD_SIZE");
  if (!local || local->empty()) return false;
  return NumberOf("LOCAL_WORLD_SIZE", *local, 1, kMaxNetworkRanks) >=
         world_size;
}

}  // namespace

std::optional<NodePlace> NodePlaceFrom(const ReadEnvironment& read) {
  const auto size = read("WORLD_SIZE");
  if (!size || size->empty()) return std::nullopt;
  const int world_size = WorldSizeOf(*size);
  if (world_size == 1) return std::nullopt;
  return NodePlace{.rank = RankOf(read, world_size),
                   .world_size = world_size,
                   .runner = RunnerOf(read, world_size),
                   .all_here = AreAllHere(read, world_size)};
}

}  // namespace dtrain
