#pragma once

namespace dtrain {

/// How often this process, SQLite included, has waited for the disk to have
/// what it wrote: calls of fsync and fdatasync.
int SyncCount();

}  // namespace dtrain
