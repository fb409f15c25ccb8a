#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>

namespace dtrain {

/// Bytes and what keeps them: a mapped file or memory. Copies share them.
struct SharedBytes {
  std::shared_ptr<const void> owner;
  std::span<const std::uint8_t> bytes;
};

/// The bytes of a file, mapped to be read; all processes share its pages.
/// Nothing if it cannot be opened, is no regular file, a link or empty. Who
/// shortens a mapped file kills its readers: so such a file is made under
/// another name and never written to again.
std::optional<SharedBytes> MapFile(const std::filesystem::path& file);

}  // namespace dtrain
