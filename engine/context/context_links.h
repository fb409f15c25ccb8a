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
  Timestamp modified{0};  // the newest
  bool complete = true;   // false: there are more, which were not counted

  /// {"files", "bytes", "modified", "complete"}.
  nlohmann::json Json() const;
};

/// Counts the files below `directory`, at most 20,000, without following
/// links; nothing if it is no directory.
std::optional<LinkedFiles> CountLinkedFiles(
    const std::filesystem::path& directory);

/// A directory that is not part of a stored context: each trial has a symbolic
/// link to it in its copy.
struct ContextLink {
  std::string path;              // relative to the context: "data", "../data"
  std::filesystem::path target;  // absolute
  bool declared = false;         // by `context.links`, else found in a program
};

/// The directory that a context was stored from, and the links of its copies.
/// Stored in a file beside the context.
struct ContextOrigin {
  std::filesystem::path directory;  // absolute, without links
  std::vector<ContextLink> links;
  /// Path of a copy below StoreLayout::WorkingTree: as many last names of
  /// `directory` as the links lead up, so that "../data" stays in the tree.
  std::filesystem::path below;

  /// Adds a link, unless it is there. `path` is as a user or program wrote it;
  /// nothing need exist. Throws Error(kUsage) for a path that is absolute, that
  /// leads to the context itself, to a directory around it, above the root or
  /// to a file, for one within another link, and for a name that is not UTF-8.
  void Add(std::string_view path, bool declared);

  /// True if `path`, relative to the context, is a link or below one.
  bool Reaches(std::string_view path) const;

  /// Returns the content of the file, JSON, and the reverse. Throws
  /// Error(kDamaged) naming `where`.
  std::string Text() const;
  static ContextOrigin Parse(std::string_view text, const std::string& where);
};

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
/// target and LinkedFiles, differs now: "holds 12 files of 3.1 MB, it had 11 of
/// 3.0 MB"; empty if it does not, or if not all of its files were counted.
std::string LinkChange(const nlohmann::json& recorded);

}  // namespace dtrain
