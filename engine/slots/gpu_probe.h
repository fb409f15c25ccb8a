#pragma once

#include <string>

#include "engine/base/clock.h"

namespace dtrain {

/// What `ask` gives when it is called in a child process of its own that has
/// no descriptor of this one. If it has not ended after `limit`, or crashes,
/// the child is killed, the result is empty and `*problem` says so. REQUIRES:
/// this process has one thread.
std::string AskInChild(std::string (*ask)(), Duration limit,
                       std::string* problem);

}  // namespace dtrain
