#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/base/clock.h"

namespace dtrain {

/// Files of a linked directory.
struct LinkedFiles {
  std::int64_t files = 0;
  std::int64_t bytes = 0;
  std::int64_t links = 0;  // symbolic links, whose targets are not counted
  Timestamp modified{0};   // the newest, of files and links
  bool complete = true;    // false: there are more, which were not counted

  /// {"files", "bytes", "links", "modified", "complete"}.
  nlohmann::json Json() const;
};

/// Returns the number and size of such files: "12 files and 1 link, 3.1 MB".
/// `recorded` is the Json of LinkedFiles, also of an earlier version.
std::string LinkedFilesText(const nlohmann::json& recorded);

/// Counts the files and links below `directory`, at most 20,000 entries,
/// without following links. Returns nothing for anything but a directory.
std::optional<LinkedFiles> CountLinkedFiles(
    const std::filesystem::path& directory);

/// A directory that is not part of a stored context: each trial has a symbolic
/// link to it in its copy.
struct ContextLink {
  std::string path;              // relative to the context: "data", "../data"
  std::filesystem::path target;  // absolute
  bool declared = false;         // by `context.links`, else found in a program
  // Of the target when `create` listed the context; not stored.
  std::optional<LinkedFiles> files = std::nullopt;
};

/// The directory that a context was stored from, and the links of its copies.
/// Stored in a file beside the context.
struct ContextOrigin {
  std::filesystem::path directory;  // absolute, without links
  std::vector<ContextLink> links;
  /// Path of a copy below StoreLayout::WorkingTree: as many last names of
  /// `directory` as the links lead up, so that "../data" stays in the tree.
  std::filesystem::path below;

  /// Adds a link, unless it is there, and returns it. `path` is as a user or
  /// program wrote it; nothing need exist. Of two links of which one is within
  /// the other, a declared one replaces a found one, and of two found ones the
  /// wider stays and is returned. Throws Error(kUsage) for a path that is
  /// absolute, that leads, by its text or by links, to the context itself or a
  /// directory around it, above the root or to a file, for a missing one that
  /// only a shell would understand (~/data, $HOME/data), for one within or
  /// around a declared link, and for a name that is not UTF-8.
  const ContextLink& Add(std::string_view path, bool declared);

  /// True if `path`, relative to the context, is a link or below one.
  bool Reaches(std::string_view path) const;

  /// Returns the content of the file, JSON, and the reverse. A `directory` that
  /// is not UTF-8 is also there as a list of its bytes. Throws Error(kDamaged)
  /// naming `where`.
  std::string Text() const;
  static ContextOrigin Parse(std::string_view text, const std::string& where);
};

/// True if `path` is `root` or inside it, by their text. REQUIRES: both are
/// absolute or both relative to the same directory, and normal.
bool IsInside(const std::filesystem::path& path,
              const std::filesystem::path& root);

/// Returns the path of the ContextOrigin beside the stored context `master`.
std::filesystem::path ContextOriginPath(const std::filesystem::path& master);

/// Reads the ContextOrigin of a stored context; an empty one if it was stored
/// without. Throws Error(kFailed) if it cannot be read.
ContextOrigin ReadContextOrigin(const std::filesystem::path& master);

/// Returns the first link of the stored context `master` whose target is no
/// directory on this machine. Throws as ReadContextOrigin.
std::optional<ContextLink> FindMissingLink(const std::filesystem::path& master);

/// Returns FindProgram for a trial's copy of `context`, which may be a stored
/// one: a program behind a link, such as .venv/bin/python, is found in the
/// original directory. Throws as FindProgram.
std::filesystem::path FindProgramOfTrial(const std::string& program,
                                         const std::filesystem::path& context,
                                         const std::string& path);

/// Returns how the target of a recorded link, of which `recorded` has path,
/// target and LinkedFiles, differs now: "holds 12 files, 3.1 MB (then 11 files,
/// 3.0 MB)"; empty if it does not, or if not all of its files were counted.
std::string LinkChange(const nlohmann::json& recorded);

}  // namespace dtrain
