#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

namespace dtrain {

class Store;

/// Bytes that experiments take on disk.
struct DiskUse {
  struct Checkpoints {
    std::int64_t count = 0;
    std::int64_t bytes = 0;
  };
  Checkpoints best;    // of the trials' best validations
  Checkpoints latest;  // the trials' latest ones that are not their best
  Checkpoints others;  // corrupt ones, too
  std::int64_t logs = 0;
  std::int64_t context = 0;
  std::int64_t other = 0;  // files that programs wrote, locks

  Checkpoints checkpoints() const;
  std::int64_t bytes() const;
  DiskUse& operator+=(const DiskUse& more);

  /// "1.2 MB: 3 checkpoints 1 MB (2 best 0.8 MB, 1 latest 0.2 MB), logs 8 kB".
  std::string Text() const;
  nlohmann::json Json() const;
};

/// Reads the sizes of the files of an experiment, and of its checkpoints as
/// they were recorded.
DiskUse ReadDiskUse(const Store& store, std::int64_t experiment);

/// Bytes of the database of all experiments, with its write-ahead log.
std::int64_t DatabaseBytes(const Store& store);

/// Returns how a later search of this configuration, and this experiment, could
/// keep fewer checkpoints; empty without any.
std::string HowToKeepLess(const DiskUse& use, std::int64_t experiment,
                          const nlohmann::json& config);

}  // namespace dtrain
