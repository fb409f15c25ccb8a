#pragma once

namespace dtrain {

/// Whether this process is told that every disk is full: statvfs and fstatvfs
/// then find no free bytes and inodes. What is written is written all the same.
void SetDisksFull(bool full);

}  // namespace dtrain
