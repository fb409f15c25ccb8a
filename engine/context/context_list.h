#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <sys/stat.h>

#include "engine/config/experiment_config.h"
#include "engine/context/context_links.h"
#include "engine/context/working_tree.h"

namespace dtrain {

/// A file of a context in its original place.
struct ContextFile {
  std::string path;              // within the context: "a/b.txt"
  std::filesystem::path source;  // with links resolved
  std::int64_t bytes = 0;
  bool executable = false;
  struct stat status {};  // when it was listed, to detect changes
  std::string sha256;     // of a stored file; else empty
};

/// The files of a context, sorted by path.
struct ContextList {
  std::filesystem::path directory;
  std::vector<ContextFile> files;
  std::int64_t bytes = 0;
  ContextOrigin origin;
  std::vector<std::string> left_out;  // with the reason, for messages
  std::string too_large;              // see ListLinkedContext
  // Excluded entries with the reason, a rule or a default: "data/ by
  // .gitignore:1 (data/)", "venv/ (a Python environment)". Hidden directories
  // that rules exclude are not listed.
  std::vector<std::string> ignored;
};

/// Limits of a context. The limit of bytes is Determined's.
struct ContextLimits {
  std::int64_t bytes = 95'000'000;
  std::int64_t files = 20'000;
  std::int64_t entries = 200'000;  // with ignored ones and directories
};

/// Lists the files in `directory` that an experiment needs to run: all except
/// those that its .gitignore files and the .detignore at its root name, version
/// control, a store, Python's caches, the paths in `excluded`, and special
/// files. By default, Python and conda environments, node_modules, directories
/// wandb, mlruns and lightning_logs without Python files, and dtrain's own
/// exports, reports and backups are excluded; a rule such as `!wandb/` includes
/// them. Follows links that stay inside `directory` and skips others, which
/// `left_out` then names. Stops at a limit. Throws Error(kUsage) with the
/// largest files, or with the file that cannot be read.
ContextList ListContext(const std::filesystem::path& directory,
                        const std::vector<std::filesystem::path>& excluded = {},
                        const ContextLimits& limits = {});

/// Lists a context as ListContext, without the paths that are links of
/// `origin`, and without other links to their targets, which `left_out` names.
/// At a limit it returns what it has listed, and says in `too_large` which one
/// and what to do: with more links the context may be small enough.
ContextList ListLinkedContext(
    const std::filesystem::path& directory, const ContextOrigin& origin,
    const std::vector<std::filesystem::path>& excluded,
    const ContextLimits& limits = {});

/// Returns why the file or directory `path`, relative to `directory`, is not in
/// its context although it exists: the rule that leaves it out, a link, or that
/// it is outside. Nothing if it is in the context or does not exist.
std::optional<std::string> FindExclusion(const std::filesystem::path& directory,
                                         const std::string& path);

/// True if `directory` is a store, of this run or another.
bool IsStore(const std::filesystem::path& directory);

/// True for the names of directories that no rule brings into a context: .git,
/// .dtrain, __pycache__.
bool IsNeverStored(const std::string& name);

/// True if a Python file is among the first 10,000 entries below `directory`.
bool HasPython(const std::filesystem::path& directory);

/// Mode of a copy's files. Directories stay writable, so that the copy can be
/// removed without chmod.
enum class CopyAccess { kReadOnly, kReadWrite };

/// Copies the files of `list` into the empty directory `to`, for this user
/// alone (0600 or 0400, programs 0700 or 0500); files and directories are on
/// the disk when it returns. Throws Error(kUsage) for a file that has changed
/// since it was listed, Error(kDamaged) for a stored one that has changed,
/// Error(kDiskFull) or Error(kStore) if it cannot be written.
ContextManifest CopyContext(const ContextList& list,
                            const std::filesystem::path& to, CopyAccess access);

/// Returns the paths of `list` whose names are usual for passwords and private
/// keys: .env, .netrc, .npmrc, .pypirc, .git-credentials,
/// .aws/credentials, kaggle.json, id_rsa and its like, *.pem, *.key, *.p12 and
/// *.pfx. Reads no file.
std::vector<std::string> LikelySecrets(const ContextList& list);

/// Source file in a context of the model `model_def:Trial`.
inline constexpr char kModelDefinition[] = "model_def.cpp";

/// True if an experiment needs the files in `directory` to run: its entrypoint
/// is a command, or a model of the module `model_def` and `directory` contains
/// model_def.cpp. All other models are built in.
bool NeedsContext(const ExperimentConfig& config,
                  const std::filesystem::path& directory);

}  // namespace dtrain
