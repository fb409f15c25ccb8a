#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "engine/base/error.h"

namespace dtrain {

class Store;

/// What keeps checkpoints from going to a directory that checkpoint_storage
/// names.
struct StorageProblem {
  ErrorKind kind = ErrorKind::kUsage;  // kStore, kDiskFull
  std::string text;                    // what, what to do
};

/// Looks at the directory `path` of checkpoint_storage, of which `base` has to
/// be there. It must be the user's or root's, others may not be able to rename
/// what is in it, and this user must be able to write there. Makes nothing.
std::optional<StorageProblem> FindStorageProblem(
    const std::filesystem::path& base, const std::filesystem::path& path);

/// Makes what is missing of `path` below `base`, in it the directory of
/// `store`, named by its UUID, and in that one for `experiment`, each for this
/// user alone (0700) and durable; gives the last. Throws Error(kStore): it
/// cannot be made, the store's is not this user's own or belongs to a store of
/// which this is a copy, or the experiment's has files that no experiment of
/// this database can have made; Error(kDiskFull).
std::filesystem::path MakeStorage(const std::filesystem::path& base,
                                  const std::filesystem::path& path,
                                  const Store& store, std::int64_t experiment);

/// A file in the directory of a store's checkpoints: the path of that store.
inline constexpr char kStorageOwnerFile[] = "store";

/// Why `store` must neither write to nor delete in `root`, the directory of its
/// checkpoints in one that checkpoint_storage names: another store with the
/// same UUID, of which this is a copy, has it. Empty: none does, also where
/// this store was moved, or that other one is gone.
std::string WhyNotOurs(const Store& store, const std::filesystem::path& root);

/// Notes in `root` that it belongs to `store`. Throws Error(kStore),
/// Error(kDiskFull).
void ClaimStorage(const Store& store, const std::filesystem::path& root);

/// Whether `directory` is a directory of this user's own (no link to one) that
/// no other can write to, as what MakeStorage makes is.
bool IsOwnDirectory(const std::filesystem::path& directory);

/// Why checkpoints cannot be written to `directory`, which MakeStorage made for
/// an experiment: it was moved, unmounted, made read-only; empty: they can.
std::string WhyStorageFails(const std::filesystem::path& directory);

}  // namespace dtrain
