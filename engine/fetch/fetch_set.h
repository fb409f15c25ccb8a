#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "engine/fetch/data_sets.h"
#include "engine/fetch/download.h"
#include "engine/fetch/set_files.h"

namespace dtrain {

/// How far a fetch is.
struct FetchProgress {
  std::string_view file;
  std::int64_t bytes = 0;
  std::int64_t expected = 0;
};

/// How a set is to be fetched.
struct FetchOptions {
  // Data directories where it may be already; it goes into the first.
  std::vector<std::filesystem::path> places;
  std::string from;    // as SourceAddress gives it; empty: the public addresses
  bool force = false;  // fetch even what is there and good
  Patience patience;
  std::function<void(const FetchProgress&)> progress;
  std::function<void(const std::string& text)> say;
  std::function<bool()> stop;
};

/// What came of it.
struct FetchResult {
  enum class End { kFetched, kThere, kStopped };
  End end = End::kFetched;
  FoundSet found;  // unless it was stopped
};

/// Sees to it that `set` is there, whole and verified. Downloads into a hidden
/// directory beside its place, where the next call goes on if this one is
/// stopped, fails or dies; then checks every SHA-256, unpacks, makes it durable
/// and gives it its name. Calls for one set and place wait for each other.
/// Throws Error(kFailed) that says which address did not serve and why, or what
/// cannot be written; Error(kDiskFull) where there is no space. REQUIRES: there
/// is a place.
FetchResult FetchSet(const DataSet& set, const FetchOptions& options);

}  // namespace dtrain
