#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/checkpoint/pickle.h"

namespace dtrain {

/// A file that torch.save wrote, as a pickle and the storages that it refers
/// to: a ZIP archive (torch/serialization.py since PyTorch 1.6), or five
/// pickles one after the other with the storages behind them (before).
class TorchFile {
 public:
  /// Whether `file` begins like one.
  static bool Is(std::span<const std::byte> file);

  /// REQUIRES: `file` outlives this. Throws Error(kFailed) that names `what`
  /// and the fault.
  TorchFile(std::span<const std::byte> file, const std::string& what);

  const Pickle& pickle() const { return *pickle_; }
  /// The bytes of the storage under `key`, or nothing if there are none.
  std::optional<std::span<const std::byte>> Storage(std::string_view key) const;

 private:
  void ReadZip(std::span<const std::byte> file, const std::string& what);
  void ReadLegacy(std::span<const std::byte> file, const std::string& what);

  std::optional<Pickle> pickle_;
  std::map<std::string_view, std::span<const std::byte>> storages_;
};

}  // namespace dtrain
