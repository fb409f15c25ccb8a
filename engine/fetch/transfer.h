#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "engine/fetch/part_file.h"

namespace dtrain {

/// How long a server may take, and how often it is asked.
struct Patience {
  std::chrono::milliseconds connect = std::chrono::seconds(30);
  // With next to no bytes for so long it is given up.
  std::chrono::seconds stall{30};
  // Failures in a row that may pass by themselves, without much that came.
  int attempts = 5;
  // Before the second attempt; twice as long before each further one.
  std::chrono::milliseconds pause = std::chrono::seconds(1);
};

/// What one transfer is to bring.
struct TransferRequest {
  std::string address;
  std::int64_t most = 0;              // bytes of the whole file, at most
  std::optional<std::int64_t> exact;  // how many it has, where that is known
  Patience patience;
  // Called about every second, and whenever something came; true: stop.
  std::function<bool()> watch;
};

/// How a transfer ended.
struct TransferResult {
  enum class End {
    kWhole,    // all of the file is there, or the server has no more
    kBroken,   // may go better next time
    kNoRange,  // the server does not go on where the file ends
    kRefused,  // this address does not have it
    kDisk,     // it cannot be written: `error` is errno
    kStopped   // `watch` said so
  };
  End end = End::kWhole;
  std::string problem;  // for people, without the address
  int error = 0;
};

/// Brings `part` to its end from an http, https or file address. What is there
/// already is asked for again only where the server cannot go on behind it.
/// Follows up to five redirects, from https to nothing but https, never to a
/// file. Throws Error(kFailed) only where libcurl does not work at all.
TransferResult Transfer(const TransferRequest& request, PartFile& part);

}  // namespace dtrain
