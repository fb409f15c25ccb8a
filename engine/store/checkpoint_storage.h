#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "engine/base/error.h"

namespace dtrain {

class Store;

/// Reason why checkpoints cannot be stored in a directory that
/// checkpoint_storage names.
struct StorageProblem {
  ErrorKind kind = ErrorKind::kUsage;  // kStore, kDiskFull
  std::string text;                    // with the remedy
};

/// Checks the directory `path` of checkpoint_storage, whose parent `base` must
/// exist: it must belong to this user or root, others must not be able to
/// rename its entries, and this user must be able to write there. Creates
/// nothing.
std::optional<StorageProblem> FindStorageProblem(
    const std::filesystem::path& base, const std::filesystem::path& path);

/// Creates the missing directories of `path` below `base`, in it the directory
/// of `store`, named by its UUID, and in that the directory of `experiment`,
/// which it returns. Each is durable and for this user alone (0700). Throws
/// Error(kStore) if one cannot be created, if the store's is not this user's
/// own or belongs to a store of which this is a copy, or if the experiment's
/// has files of an unknown experiment; Error(kDiskFull).
std::filesystem::path MakeStorage(const std::filesystem::path& base,
                                  const std::filesystem::path& path,
                                  const Store& store, std::int64_t experiment);

/// File in a store's checkpoint directory with the path of the store.
inline constexpr char kStorageOwnerFile[] = "store";

/// Returns why `store` must not write or delete in `root`, its checkpoint
/// directory in one that checkpoint_storage names: it belongs to another store
/// with the same UUID, of which this is a copy. Empty if it does not, also if
/// this store was moved, or the other one no longer exists.
std::string StorageOwnerProblem(const Store& store,
                                const std::filesystem::path& root);

/// Records in `root` that it belongs to `store`. Throws Error(kStore),
/// Error(kDiskFull).
void ClaimStorage(const Store& store, const std::filesystem::path& root);

/// True if `directory` is a directory, not a link, of this user that no other
/// user can write to. MakeStorage creates such directories.
bool IsOwnDirectory(const std::filesystem::path& directory);

/// Returns why checkpoints cannot be written to `directory`, which MakeStorage
/// created: it was moved, unmounted or made read-only. Empty if they can.
std::string StorageFailure(const std::filesystem::path& directory);

}  // namespace dtrain
