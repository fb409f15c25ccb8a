#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

#include "engine/base/api.h"
#include "engine/data/data_directory.h"
#include "engine/os/files.h"

namespace dtrain {

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
