#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "engine/fetch/data_sets.h"
#include "engine/fetch/download.h"

namespace dtrain {

/// Progress of a fetch.
struct FetchProgress {
  std::string_view file;
  std::int64_t bytes = 0;
  std::int64_t expected = 0;
};

/// Options of a fetch; the callbacks may be empty.
struct FetchOptions {
  // Data directories that may have the set; it is fetched into the first.
  std::vector<std::filesystem::path> places;
  std::string from;    // from SourceAddress; empty: the public addresses
  bool force = false;  // fetch even if it is present and valid
  Patience patience;
  std::function<void(const FetchProgress&)> progress;
  std::function<void(const std::string& text)> say;
  std::function<bool()> stop;
};

/// Outcome of a fetch.
struct FetchResult {
  enum class End { kFetched, kThere, kStopped };
  End end = End::kFetched;
  FoundSet found;  // empty if it was stopped
};

/// Fetches `set` unless it is present and valid. Downloads into a hidden
/// directory beside its place, where the next call resumes if this one is
/// stopped, fails or dies; then verifies every SHA-256, unpacks, makes the
/// files durable and renames the directory. Concurrent calls for one set and
/// place wait for each other. Throws Error(kFailed) that names the addresses
/// that failed and why, or the file that cannot be written; Error(kDiskFull) if
/// the disk is full. REQUIRES: `options.places` is not empty.
FetchResult FetchSet(const DataSet& set, const FetchOptions& options);

}  // namespace dtrain
