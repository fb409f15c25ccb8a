#pragma once

#include "engine/store/layout.h"

namespace dtrain {

/// Sets a MiB of the store's disk aside, unless that was done before. Throws
/// Error(kDiskFull) where there is no such space: too little to begin with.
/// Where the file system has no way to set space aside, none is.
void KeepReserve(const StoreLayout& layout);

/// Gives it up, so that what is left to say can be recorded. False if there was
/// none.
bool GiveUpReserve(const StoreLayout& layout);

}  // namespace dtrain
