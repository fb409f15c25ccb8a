#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "engine/fetch/transfer.h"

namespace dtrain {

/// A file to download, and how it is known to be the right one.
struct DownloadRequest {
  std::vector<std::string> addresses;  // asked in turn until one has it
  std::filesystem::path part;          // where it goes; what is there is used
  std::int64_t bytes = 0;
  bool approximate = false;  // it may have a hundredth more, or fewer
  std::string sha256;        // at least its beginning, in hex
  Patience patience;
};

/// Who listens while something is fetched. All may be empty.
struct FetchListener {
  // How many bytes of the file are there. Called often.
  std::function<void(std::int64_t bytes)> progress;
  // One line for people: what is tried again, and why.
  std::function<void(const std::string& text)> say;
  // Whether to stop; what is there is kept. Asked about every second.
  std::function<bool()> stop;

  bool Stops() const { return stop && stop(); }
};

/// Brings `request.part` to its end and checks its SHA-256. What an earlier
/// call left is gone on with; where the whole is wrong then, it is downloaded
/// once more from the start. Gives the SHA-256, in full; empty: the listener
/// stopped it. Throws Error(kFailed) that names every address and why it did
/// not serve, Error(kDiskFull) where there is no space left.
std::string Download(const DownloadRequest& request,
                     const FetchListener& listener);

}  // namespace dtrain
