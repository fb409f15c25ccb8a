#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain {

/// What the name of a directory ends with that is being deleted.
inline constexpr std::string_view kTrashSuffix = ".trash";

/// The names in `directory` in order; none where it is no directory, or a link
/// to one.
std::vector<std::string> NamesIn(const std::filesystem::path& directory);

/// What deletions left in `directory` that did not come to their end.
std::vector<std::filesystem::path> TrashIn(
    const std::filesystem::path& directory);

/// The bytes of the files in `path`, or of the file that it is; links are not
/// followed. What cannot be looked at counts as nothing.
std::int64_t TreeBytes(const std::filesystem::path& path);

/// Deletes `path` with all that is in it and gives its bytes: gives it a trash
/// name beside it first, so that nobody ever sees half of it, and what stays
/// after a crash is known for what it is. Links are removed, never followed.
/// Nothing there is fine; what an earlier call could not finish is deleted as
/// well. Throws Error(kFailed) naming what could not go.
std::int64_t RemoveTree(const std::filesystem::path& path);

}  // namespace dtrain
