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

/// `path` with the home directory for a `~` at its beginning, as a shell reads
/// it: what a YAML or --to=~/x says no shell has seen.
std::filesystem::path ExpandHome(const std::string& path,
                                 const ReadVariable& variable);

/// `places` for a message, with commas; where there are none, why.
std::string NamePlaces(std::span<const std::filesystem::path> places);

/// Where the data sets of a trial may be. Its `data` hyperparameter (`~` is the
/// home directory) is the only place if it is not empty; else $DTRAIN_DATA and
/// $XDG_CACHE_HOME/dtrain/data, which is ~/.cache/dtrain/data by default.
class DTRAIN_API DataDirectory {
 public:
  explicit DataDirectory(const std::string& data,
                         const ReadVariable& variable = ProcessVariable);

  /// The first place that holds every one of `files`, itself or in its child
  /// directory `set` ("mnist"). A file may be there with ".gz" at its end.
  std::optional<std::filesystem::path> Find(
      const std::string& set, std::span<const std::string> files) const;

  /// What to say where `Find` found nothing: the places, the files that belong
  /// there and, where they are published as `fetched` ("cifar10", of
  /// `dtrain data list`), the command that gets them.
  std::string MissingMessage(const std::string& set,
                             std::span<const std::string> files,
                             const std::string& fetched = "") const;

  /// The command that gets what is published as `fetched` to where `Find` looks
  /// first.
  std::string FetchCommand(const std::string& fetched) const;

  const std::vector<std::filesystem::path>& places() const { return places_; }

 private:
  std::vector<std::filesystem::path> places_;
  std::string fetch_to_;  // how `dtrain data fetch` is told the first of them
};

/// `file`, or `file`.gz where only that exists; nothing where neither does.
DTRAIN_API std::optional<std::filesystem::path> PlainOrGzip(
    const std::filesystem::path& file);

/// A prepared data set that is kept in `file`, so that building it is paid once
/// and every later trial only maps it, all of them the same pages.
struct CachedSet {
  std::filesystem::path file;  // empty: it is built each time
  // Makes the bytes. They depend on nothing that is not in the file's name.
  std::function<std::vector<std::uint8_t>()> build;
  // Whether bytes from the file are what `build` makes: their size, at least.
  std::function<bool(std::span<const std::uint8_t>)> valid;
};

/// The bytes of `set`: from its file, else built, and then written there. A
/// file that cannot be written is no error, the next trial just builds again.
/// Processes may do this at once: a file appears whole or not at all.
DTRAIN_API SharedBytes OpenSet(const CachedSet& set);

/// Where dtrain keeps what it can make again: $XDG_CACHE_HOME/dtrain, which is
/// ~/.cache/dtrain by default. Empty where neither variable is set.
DTRAIN_API std::filesystem::path CacheDirectory(const ReadVariable& variable);

}  // namespace dtrain
