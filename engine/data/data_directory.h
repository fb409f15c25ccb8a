#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/base/api.h"
#include "engine/os/files.h"
#include "engine/os/process.h"

namespace dtrain {

/// Replaces a leading `~` of `path` by the home directory, as a shell does: no
/// shell has expanded paths in a YAML or in --to=~/x.
std::filesystem::path ExpandHome(const std::string& path,
                                 const ReadVariable& variable);

/// Joins `places` with commas for a message; if there are none, explains why.
std::string NamePlaces(std::span<const std::filesystem::path> places);

/// Directories in which the data sets of a trial are searched: the
/// hyperparameter `data` alone if it is not empty (`~` is expanded), otherwise
/// $DTRAIN_DATA and $XDG_CACHE_HOME/dtrain/data, by default
/// ~/.cache/dtrain/data.
class DTRAIN_API DataDirectory {
 public:
  explicit DataDirectory(const std::string& data,
                         const ReadVariable& variable = ProcessVariable);

  /// First directory that contains all of `files`, itself or in its
  /// subdirectory `set` ("mnist"). Files may have the additional extension
  /// ".gz".
  std::optional<std::filesystem::path> Find(
      const std::string& set, std::span<const std::string> files) const;

  /// Error message for a set that Find did not find: the directories, the files
  /// expected there and, if the set is published as `fetched` ("cifar10", see
  /// `dtrain data list`), the command that downloads it.
  std::string MissingMessage(const std::string& set,
                             std::span<const std::string> files,
                             const std::string& fetched = "") const;

  /// Command that downloads the set published as `fetched` to the first
  /// directory that Find searches.
  std::string FetchCommand(const std::string& fetched) const;

  const std::vector<std::filesystem::path>& places() const { return places_; }

 private:
  std::vector<std::filesystem::path> places_;
  std::string fetch_to_;  // option of `dtrain data fetch` for the first place
};

/// `file`, or `file`.gz if only that exists; empty if neither does.
DTRAIN_API std::optional<std::filesystem::path> PlainOrGzip(
    const std::filesystem::path& file);

/// A prepared data set cached in `file`. It is built once; later trials map the
/// file and share its pages.
struct CachedSet {
  std::filesystem::path file;  // empty: built each time
  // Builds the bytes. They depend only on what the file's name encodes.
  std::function<std::vector<std::uint8_t>()> build;
  // Checks bytes from the file, at least their size.
  std::function<bool(std::span<const std::uint8_t>)> valid;
};

/// Returns the bytes of `set` from its file, or builds them and writes the
/// file. A file that cannot be written is not an error; the next trial builds
/// the set again. Safe for concurrent processes: the file is created
/// atomically.
DTRAIN_API SharedBytes OpenSet(const CachedSet& set);

/// Directory for files that dtrain can rebuild: $XDG_CACHE_HOME/dtrain, by
/// default ~/.cache/dtrain. Empty if neither variable is set.
DTRAIN_API std::filesystem::path CacheDirectory(const ReadVariable& variable);

}  // namespace dtrain
