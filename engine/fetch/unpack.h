#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace dtrain {

/// A file of a set, by its path within the set's directory.
struct FileSum {
  std::string name;
  std::int64_t bytes = 0;
  std::string sha256;
};

/// What may come out of an archive.
struct UnpackRequest {
  std::filesystem::path archive;
  std::string root;             // only what is in this directory of it
  std::filesystem::path to;     // a new directory, for what `root` holds
  std::int64_t most_bytes = 0;  // of all files together
  std::function<bool()> stop;
};

/// Unpacks a tar (plain or compressed) or zip archive into a directory that it
/// makes, and gives what is there now; nothing if `stop` came to say true.
/// Rights, owners and times of the archive do not matter. Throws Error(kFailed)
/// if the archive is damaged or holds what has no business in a data set (a
/// link, a device, a path that leaves the directory or has control characters,
/// more bytes or files than expected), Error(kDiskFull) where there is no
/// space.
std::optional<std::vector<FileSum>> Unpack(const UnpackRequest& request);

}  // namespace dtrain
