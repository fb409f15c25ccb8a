#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <sys/stat.h>

#include "engine/config/experiment_config.h"

namespace dtrain {

/// A file of a context, still where it comes from.
struct ContextFile {
  std::string path;              // within the context: "a/b.txt"
  std::filesystem::path source;  // where it is read, links resolved
  std::int64_t bytes = 0;
  bool executable = false;
  struct stat status {};  // as it was listed: it must not change meanwhile
  std::string sha256;     // of one that was stored before; else empty
};

/// The files of a context by path.
struct ContextList {
  std::filesystem::path directory;
  std::vector<ContextFile> files;
  std::int64_t bytes = 0;
  std::vector<std::string> left_out;  // each with why, for the user
};

/// How much a context may have. That of bytes is Determined's.
struct ContextLimits {
  std::int64_t bytes = 95'000'000;
  std::int64_t files = 20'000;
  std::int64_t entries = 200'000;  // ignored ones and directories too
};

/// The files in `directory` that an experiment needs to run: all but what its
/// .gitignore files and the .detignore at its root name, version control, a
/// store, Python's caches, what is in `excluded`, and what is no file. Links
/// are followed where they stay inside, and left out with a word where they do
/// not. Looks no further once there is too much. Throws Error(kUsage) that
/// says what takes the room, or what cannot be read.
ContextList ListContext(const std::filesystem::path& directory,
                        const std::vector<std::filesystem::path>& excluded = {},
                        const ContextLimits& limits = {});

/// The paths of `list` that have names under which people keep passwords and
/// private keys: .env, .netrc, .npmrc, .pypirc, .git-credentials,
/// .aws/credentials, kaggle.json, id_rsa and its like, *.pem, *.key, *.p12 and
/// *.pfx. Looks at no content.
std::vector<std::string> LikelySecrets(const ContextList& list);

/// The file of a context that `model_def:Trial` is compiled from.
inline constexpr char kModelDefinition[] = "model_def.cpp";

/// Whether an experiment needs the files in `directory` to run: where its
/// entrypoint is a command, or a trial of the module `model_def` and
/// model_def.cpp is there. Whatever else runs is in this program.
bool NeedsContext(const ExperimentConfig& config,
                  const std::filesystem::path& directory);

}  // namespace dtrain
