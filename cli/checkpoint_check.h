#pragma once

#include <string>

#include "engine/checkpoint/checkpoint_files.h"
#include "engine/store/store.h"

namespace dtrain {

/// How a checkpoint's files are.
enum class FileState { kGood, kBad, kUnreadable };

struct FileReport {
  FileState state = FileState::kGood;
  std::string problem;  // in words that name the file; empty if good
};

/// Throws Error(kStore) where the directory that checkpoint_storage named for
/// it is not there: not mounted, say. That does not make it damaged.
void RequireStorageThere(const Store& store, const CheckpointRow& checkpoint);

/// All files of the checkpoint, each compared with its SHA-256 in the manifest,
/// and the manifest with the record. Throws Error(kDamaged) that names what is
/// not as it was, Error(kFailed) if this user may not read it, Error(kNotFound)
/// if it was deleted while it was read.
CheckpointFiles ReadCheckpoint(const Store& store,
                               const CheckpointRow& checkpoint);

/// Whether ReadCheckpoint reads it. kUnreadable: this user may not, so nothing
/// is known.
FileReport VerifyCheckpoint(const Store& store,
                            const CheckpointRow& checkpoint);

/// Looks at the directory and the manifest, and at the size of each file: a
/// moment even for large ones.
FileReport GlanceAtCheckpoint(const Store& store,
                              const CheckpointRow& checkpoint);

}  // namespace dtrain
