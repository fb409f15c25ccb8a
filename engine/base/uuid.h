#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace dtrain {

/// Returns the version 4 UUID (RFC 4122) with these random bytes, in lower-case
/// hex; 6 of the 128 bits are replaced by the version and the variant.
std::string FormatUuid(std::array<std::byte, 16> random);

/// Returns a random UUID from the kernel's generator: the random streams of an
/// experiment and its trials are not touched. Throws Error(kFailed).
std::string RandomUuid();

/// True for a UUID in lower-case hex of any version.
bool IsUuid(std::string_view text);

}  // namespace dtrain
