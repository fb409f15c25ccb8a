#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/store/layout.h"

namespace SQLite {
class Database;
}

namespace dtrain {

/// An experiment, trial or checkpoint by its id, with a word about it.
struct StoreName {
  std::string id;     // "3", "3.7" or a UUID
  std::string about;  // name and state; trial and local time of a checkpoint
};

/// The names in a store, for completions on a command line, which must be fast
/// and silent: opening never waits for a lock, migrates a store or creates a
/// file, and what cannot be read counts as empty.
class StoreNames {
 public:
  /// Opens the store; nothing if there is none or it cannot be read.
  static std::optional<StoreNames> Open(const StoreLayout& layout);

  StoreNames(StoreNames&&) noexcept;
  ~StoreNames();

  /// Experiments whose id starts with `prefix`, the newest first.
  std::vector<StoreName> Experiments(const std::string& prefix) const;
  /// Trials of one experiment whose number starts with `prefix`.
  std::vector<StoreName> Trials(std::int64_t experiment,
                                const std::string& prefix) const;
  /// Existing checkpoints whose UUID starts with `prefix`, the newest first.
  std::vector<StoreName> Checkpoints(const std::string& prefix) const;
  /// Metrics of one experiment, or of all.
  std::vector<std::string> Metrics(
      std::optional<std::int64_t> experiment) const;
  std::vector<std::string> Labels() const;
  /// The effective configuration of one experiment, or of the newest; null if
  /// there is none.
  nlohmann::json Configuration(std::optional<std::int64_t> experiment) const;

 private:
  explicit StoreNames(std::unique_ptr<SQLite::Database> database);

  std::unique_ptr<SQLite::Database> database_;
};

}  // namespace dtrain
