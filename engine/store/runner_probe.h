#pragma once

#include "engine/store/layout.h"

namespace dtrain {

/// Whether any experiment of the store has a runner on this host: a process
/// that holds an experiment's runner lock and may write at any time. Takes no
/// lock itself.
bool HasRunner(const StoreLayout& layout);

}  // namespace dtrain
