#pragma once

#include <string>

namespace dtrain {

/// A random version 4 UUID from the system's generator: the random streams of
/// an experiment and of its trials are not touched.
std::string RandomUuid();

}  // namespace dtrain
