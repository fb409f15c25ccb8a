#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace dtrain {

/// A number that changes with files, their order and what else is added: what
/// is prepared from them is known by it.
class FileSetKey {
 public:
  /// Its path, size and time of change; of none, or one that cannot be looked
  /// at, only the path counts.
  void Add(const std::filesystem::path& file);
  void AddText(std::string_view text);

  std::uint64_t value() const { return value_; }

 private:
  void Mix(std::uint64_t value);

  std::uint64_t value_ = 0;
};

}  // namespace dtrain
