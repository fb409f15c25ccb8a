#pragma once

#include <string>
#include <string_view>

namespace dtrain {

/// A random version 4 UUID from the system's generator: the random streams of
/// an experiment and of its trials are not touched.
std::string RandomUuid();

/// Whether `text` looks like one.
bool IsUuid(std::string_view text);

}  // namespace dtrain
