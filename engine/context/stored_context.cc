// The code that an experiment stored is executed again when it resumes. Two
// things are checked before. Its files are as they were stored: each has the
// SHA-256 in the list, whose own hash is in the database. And no other user can
// change them after that: the context and the store's directories above it
// belong to root, this user or the store's owner, and only their owner may
// write to them. Without the second check the first would hold for a moment
// only.

#include "engine/context/stored_context.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <set>
#include <span>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/context/staged_files.h"
#include "engine/os/sha256.h"
#include "engine/os/system_error.h"
#include "engine/os/unique_fd.h"
#include "engine/store/file_tree.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kHashPiece = 1 << 16;

// The user trusts the owner of the store: a store found by default must be the
// user's own, and that of another user must be named.
class Trust {
 public:
  explicit Trust(const fs::path& root) : owners_{0, ::geteuid()} {
    struct stat status {};
    if (::stat(root.c_str(), &status) == 0) owners_.insert(status.st_uid);
  }

  // Returns why nothing of `path` may be executed, or empty. A missing file is
  // harmless.
  std::string Problem(const fs::path& path) const {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) return "";
    if (!owners_.contains(status.st_uid)) {
      return path.string() + ": belongs to another user (uid " +
             std::to_string(status.st_uid) +
             "), who could change the code in it, so nothing of it is run; "
             "chown it to you, or use another store (--store)";
    }
    if ((status.st_mode & (S_IWGRP | S_IWOTH)) == 0) return "";
    std::array<char, 8> mode{};
    std::snprintf(mode.data(), mode.size(), "%04o", status.st_mode & 07777U);
    return path.string() + ": others may write to it (mode " + mode.data() +
           ") and change the code in it, so nothing of it is run; check that "
           "all files in it are yours, then: chmod go-w " +
           QuotePathForShell(path.string());
  }

 private:
  std::set<uid_t> owners_;
};

// Returns the SHA-256 of the file `fd`; empty if it does not have exactly
// `bytes` bytes.
std::string HashFile(int fd, std::int64_t bytes) {
  Sha256 sha;
  std::array<std::byte, kHashPiece> buffer;
  std::int64_t done = 0;
  while (done <= bytes) {
    const ssize_t count = ::read(fd, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return "";
    if (count == 0) break;
    sha.Update(std::span(buffer).first(static_cast<std::size_t>(count)));
    done += count;
  }
  std::string hash = sha.Finish();
  return done == bytes ? hash : "";
}

std::string Problem(const ContextFile& file, const Trust& trust) {
  const std::string name = file.source.string() + ": ";
  const UniqueFd fd(::open(file.source.c_str(),
                           O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  const auto restore = [](const std::string& problem) {
    return problem + "; restore it from a backup";
  };
  if (!fd && errno == ENOENT) return restore(name + "is missing");
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) != 0) {
    return restore(name + (errno == ELOOP
                               ? "is a link, but was stored as a file"
                               : "cannot be read: " + ErrnoText()));
  }
  if (!S_ISREG(status.st_mode)) {
    return restore(name + "is no longer a regular file");
  }
  if (HashFile(fd.get(), file.bytes) != file.sha256) {
    return restore(name + "has changed since it was stored");
  }
  return trust.Problem(file.source);
}

// Returns the first entry below `directory`, a part of the context at `root`,
// that is not in `listed_paths`.
std::string FirstStray(const fs::path& root, const fs::path& directory,
                       const std::set<fs::path>& listed_paths) {
  for (const std::string& name : NamesIn(root / directory)) {
    const fs::path path = directory / name;
    if (!listed_paths.contains(path)) return (root / path).string();
    std::string stray = FirstStray(root, path, listed_paths);
    if (!stray.empty()) return stray;
  }
  return "";
}

}  // namespace

std::optional<std::string> ContextProblem(const StoreLayout& layout,
                                          std::int64_t experiment,
                                          const nlohmann::json& provenance,
                                          StrayFiles strays) try {
  const auto hash = provenance.find(kContextHash);
  if (hash == provenance.end() || !hash->is_string()) return std::nullopt;
  const Trust trust(layout.root());
  const ContextList list =
      ListStoredContext(layout, experiment, hash->get<std::string>());
  // The directories must not be writable for others either.
  std::set<fs::path> listed_paths;
  for (const ContextFile& file : list.files) {
    std::string problem = Problem(file, trust);
    if (!problem.empty()) return problem;
    for (fs::path path = file.path;
         !path.empty() && listed_paths.insert(path).second;) {
      path = path.parent_path();
      problem = trust.Problem(list.directory / path);
      if (!problem.empty()) return problem;
    }
  }
  if (strays == StrayFiles::kAllowed) return std::nullopt;
  const std::string stray = FirstStray(list.directory, "", listed_paths);
  if (stray.empty()) return std::nullopt;
  return stray + ": is not one of the stored files; remove it";
} catch (const Error& damage) {
  return damage.what();
}

void RequireOwnFiles(const StoreLayout& layout,
                     std::optional<std::int64_t> experiment) {
  const Trust trust(layout.root());
  std::vector<fs::path> paths = {layout.Experiments()};
  if (experiment) {
    paths.push_back(layout.Experiment(*experiment));
    paths.push_back(layout.Context(*experiment));
    paths.push_back(layout.ContextListFile(*experiment));
    paths.push_back(ContextOriginPath(layout.Context(*experiment)));
    paths.push_back(layout.Trials(*experiment));
    for (const std::string& name : NamesIn(paths.back())) {
      paths.push_back(layout.Trials(*experiment) / name);
      // This is StoreLayout::WorkingTree.
      paths.push_back(paths.back() / layout.WorkingTree({}).filename());
    }
  }
  for (const fs::path& path : paths) {
    const std::string problem = trust.Problem(path);
    if (!problem.empty()) throw Error(ErrorKind::kStore, problem);
  }
}

void RequireStoredContext(const StoreLayout& layout, std::int64_t experiment,
                          const nlohmann::json& provenance, StrayFiles strays) {
  RequireOwnFiles(layout, experiment);
  const auto problem = ContextProblem(layout, experiment, provenance, strays);
  if (!problem) return;
  throw Error(ErrorKind::kStore,
              *problem + "; nothing was started ('dtrain config " +
                  std::to_string(experiment) +
                  "' and your files create the experiment again)");
}

}  // namespace dtrain
