#pragma once

namespace dtrain {

/// Returns the number of fsync and fdatasync calls of this process, including
/// those of SQLite.
int SyncCount();

}  // namespace dtrain
