#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "engine/data/data_directory.h"
#include "engine/fetch/fetch_files.h"

namespace dtrain {

/// Returns the address that a user means by `from`: a directory or file of this
/// machine
/// (`~` is the home directory) or an http, https or file address, without "/"
/// at its end. Throws Error(kUsage) that begins with "--from" for anything
/// else.
std::string SourceAddress(const std::string& from,
                          const ReadVariable& variable = ProcessVariable);

/// Returns the file: address of `path`.
std::string FileAddress(const std::filesystem::path& path);

/// Returns `address` without a user's name and password, to be shown.
std::string ShownAddress(const std::string& address);

/// Timeouts for a server, and the number of attempts.
struct Patience {
  std::chrono::milliseconds connect = std::chrono::seconds(30);
  // With next to no bytes for so long it is given up.
  std::chrono::seconds stall{30};
  // Failures in a row that may pass by themselves, without much that came.
  int attempts = 5;
  // Before the second attempt; twice as long before each further one.
  std::chrono::milliseconds pause = std::chrono::seconds(1);
};

/// One transfer to be made.
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

/// Completes `part` from an http, https or file address. Existing bytes are
/// transferred again only if the server cannot resume after them.
/// Follows up to five redirects, from https to nothing but https, never to a
/// file. Throws Error(kFailed) only where libcurl does not work at all.
TransferResult Transfer(const TransferRequest& request, PartFile& part);

}  // namespace dtrain
