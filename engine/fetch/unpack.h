#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/fetch/data_sets.h"

namespace dtrain {

/// An archive to unpack, and limits.
struct UnpackRequest {
  std::filesystem::path archive;
  std::string root;            // only entries in this directory are unpacked
  std::filesystem::path to;    // a new directory, for the contents of `root`
  std::int64_t max_bytes = 0;  // of all files together
  std::function<bool()> stop;  // may be empty; returns true to stop
};

/// Unpacks a tar (plain or compressed) or zip archive into a directory that it
/// creates. Returns the files, or nothing if `stop` returned true. Permissions,
/// owners and times of the archive are ignored. Throws Error(kFailed) if the
/// archive is damaged or holds something that does not belong in a data set (a
/// link, a device, a path that leaves the directory or has control characters,
/// more bytes or files than expected), Error(kDiskFull) if the disk is full.
std::optional<std::vector<FileSum>> Unpack(const UnpackRequest& request);

}  // namespace dtrain
