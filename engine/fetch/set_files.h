#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/fetch/data_sets.h"

namespace dtrain {

/// What there is of a set.
enum class SetState {
  kMissing,
  kPartial,    // a fetch was broken off, or files are missing
  kThere,      // complete, as far as names and sizes tell
  kGood,       // and every file has its checksum
  kUnchecked,  // complete, but of some file no checksum is known
  kDamaged
};

/// "missing", "partial", "there", "good", "unchecked", "damaged".
std::string_view StateName(SetState state);

/// A set as it was found.
struct FoundSet {
  SetState state = SetState::kMissing;
  std::filesystem::path directory;  // of its files; empty where there are none
  std::int64_t files = 0;
  std::int64_t bytes = 0;
  std::string problem;  // for kPartial, kUnchecked and kDamaged

  bool Complete() const {
    return state == SetState::kThere || state == SetState::kGood ||
           state == SetState::kUnchecked;
  }
};

/// Looks for `set` where trials do: in each of `places`, data directories, and
/// in the set's own directory there. By names and sizes.
FoundSet LocateSet(const DataSet& set,
                   std::span<const std::filesystem::path> places);

/// The same, and reads every file and compares its SHA-256 with the one that
/// was recorded when it was fetched, else with the published one. Nothing if
/// `stop` came to say true. Throws Error(kFailed) if a file cannot be read.
std::optional<FoundSet> VerifySet(const DataSet& set,
                                  std::span<const std::filesystem::path> places,
                                  const std::function<bool()>& stop);

/// Records what was fetched of `set` into the data directory `place`. Throws
/// Error(kFailed) or Error(kDiskFull) if it cannot be written.
void WriteSetRecord(const DataSet& set, const std::filesystem::path& place,
                    const std::vector<FileSum>& files);

/// Where a fetch of `set` into `place` keeps what is not whole yet.
std::filesystem::path PartialDirectory(const DataSet& set,
                                       const std::filesystem::path& place);

}  // namespace dtrain
