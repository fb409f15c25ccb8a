// A context is listed by a walk that looks at each entry once, in this order:
// names that are never stored, excluded and linked paths, ignore rules, the
// store itself, the default exclusions, links, files. A link is followed if its
// target is inside the context, and its target is then listed under the link's
// path; a link to a directory that contains it would never end, so it is left
// out, as are links to the outside. The copy checks that each file is still the
// one that was listed: a file that is written to while it is copied would give
// a context that never existed.
//
// Directories are compared by device and inode, not by path, since one
// directory may have several. `stack_` has those from the root to the present
// one: a link to one of these would be the endless loop. Rules of a directory
// are added on the way in and removed on the way out, so that they hold for
// what is below it only.

#include "engine/context/context_list.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <set>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <variant>

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/context/ignore_rules.h"
#include "engine/os/files.h"
#include "engine/os/sha256.h"
#include "engine/os/system_error.h"
#include "engine/os/unique_fd.h"
#include "engine/store/file_tree.h"
#include "engine/store/layout.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kLargestIgnoreFile = 1'000'000;
constexpr std::size_t kLargestShown = 3;
constexpr std::size_t kMaxIgnored = 100;
constexpr int kMaxExamined = 10'000;

std::string Shown(const fs::path& directory) {
  return directory.empty() ? "." : directory.string();
}

bool IsSame(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

bool IsIn(const std::vector<struct stat>& all, const struct stat& one) {
  return std::ranges::any_of(
      all, [&](const struct stat& other) { return IsSame(other, one); });
}

// True for a file that stdout or stderr of this process goes to.
bool IsOwnOutput(const struct stat& status) {
  return std::ranges::any_of(
      std::array{STDOUT_FILENO, STDERR_FILENO}, [&](int output) {
        struct stat own {};
        return ::fstat(output, &own) == 0 && IsSame(own, status);
      });
}

// Returns what an environment of packages is, or nullptr.
const char* NameEnvironment(const fs::path& directory) {
  std::error_code ignored;
  if (directory.filename() == "node_modules") return "packages of Node";
  if (fs::exists(directory / "pyvenv.cfg", ignored)) {
    return "a Python environment";
  }
  return fs::exists(directory / "conda-meta", ignored) ? "a conda environment"
                                                       : nullptr;
}

// Returns what a directory holds that no trial needs unless a rule says so, or
// nullptr.
const char* NameUnneeded(const fs::path& directory) {
  constexpr std::array<std::string_view, 3> kRecords = {"wandb", "mlruns",
                                                        "lightning_logs"};
  if (const char* const kind = NameEnvironment(directory)) return kind;
  std::error_code ignored;
  if (fs::exists(directory / "dtrain-export.json", ignored)) {
    return "an export of dtrain";
  }
  const std::string name = directory.filename().string();
  return std::ranges::find(kRecords, name) != kRecords.end() &&
                 !HasPython(directory)
             ? "records of other runs"
             : nullptr;
}

// Returns which of dtrain's own outputs a file is, by its beginning, or
// nullptr.
const char* NameOutput(const fs::path& file, std::int64_t bytes) {
  constexpr std::int64_t kSmallest = 16 << 10;  // of these
  // Bytes 68 to 71 of an SQLite database identify the application.
  constexpr std::string_view kPage =
      "<meta name=\"generator\" content=\"dtrain\">";
  constexpr std::string_view kDatabase = "SQLite format 3";
  if (bytes < kSmallest) return nullptr;
  const std::string head = ReadFile(file, 512).value_or("");
  if (head.starts_with("<!DOCTYPE html>") && head.find(kPage) != head.npos) {
    return "a report of dtrain";
  }
  return head.starts_with(kDatabase) && head.size() > 72 &&
                 head.substr(68, 4) == "DTRN"
             ? "a backup of a store"
             : nullptr;
}

class Walk {
 public:
  Walk(const fs::path& directory, const std::vector<fs::path>& excluded,
       const ContextLimits& limits, const std::vector<ContextLink>& links = {});

  ContextList Run();
  // Implements FindExclusion for a path that is inside the context by its text.
  std::optional<std::string> Explain(const fs::path& path);

 private:
  // Lists a directory and those below it.
  void Enter(const fs::path& real, const std::string& prefix,
             const struct stat& status);
  void Visit(const fs::path& directory, const std::string& prefix,
             const std::string& name);
  void Follow(const fs::path& link, const std::string& path);
  void Add(const fs::path& source, const std::string& path,
           const struct stat& status);
  std::vector<std::string> Names(const fs::path& directory);
  void AddRules(const fs::path& directory, const char* name,
                const std::string& prefix);
  std::string FindDefault(const fs::path& source, const std::string& path,
                          const struct stat& status) const;
  void Ignore(const std::string& what);
  void LeaveOut(const std::string& path, const std::string& why);
  [[noreturn]] void Fail(const std::string& path, int error) const;
  void Exceed(const std::string& what);
  std::string Largest() const;

  fs::path given_;
  fs::path root_;  // with links resolved
  bool root_is_store_ = false;
  const ContextLimits& limits_;
  std::vector<struct stat> excluded_;
  std::set<std::string> links_;  // paths, see ContextLink
  std::vector<struct stat> stack_;
  IgnoreRules rules_;
  std::int64_t entries_ = 0;
  ContextList list_;
};

Walk::Walk(const fs::path& directory, const std::vector<fs::path>& excluded,
           const ContextLimits& limits, const std::vector<ContextLink>& links)
    : given_(Shown(directory)), limits_(limits) {
  std::error_code error;
  root_ = fs::canonical(given_, error);
  if (error) Fail("", error.value());
  root_is_store_ = IsStore(root_);
  for (const fs::path& path : excluded) {
    struct stat status {};
    if (::stat(path.c_str(), &status) == 0) excluded_.push_back(status);
  }
  for (const ContextLink& link : links) links_.insert(link.path);
}

ContextList Walk::Run() {
  struct stat status {};
  if (::stat(root_.c_str(), &status) != 0) Fail("", errno);
  list_.directory = given_;
  list_.origin.directory = root_;
  Enter(root_, "", status);
  std::ranges::sort(list_.files, {}, &ContextFile::path);
  return std::move(list_);
}

void Walk::Enter(const fs::path& real, const std::string& prefix,
                 const struct stat& status) {
  const std::size_t rules = rules_.size();
  stack_.push_back(status);
  AddRules(real, ".gitignore", prefix);
  if (prefix.empty()) AddRules(real, ".detignore", prefix);
  for (const std::string& name : Names(real)) {
    if (!list_.too_large.empty()) break;
    Visit(real, prefix, name);
  }
  stack_.pop_back();
  rules_.Truncate(rules);
}

void Walk::Visit(const fs::path& directory, const std::string& prefix,
                 const std::string& name) {
  const std::string path = prefix + name;
  const fs::path source = directory / name;
  struct stat link {};
  if (::lstat(source.c_str(), &link) != 0) Fail(path, errno);
  struct stat status = link;
  const bool dangles =
      S_ISLNK(link.st_mode) && ::stat(source.c_str(), &status) != 0;
  const bool is_directory = !dangles && S_ISDIR(status.st_mode);
  // From here on, the order is that of the comment at the top.
  if (IsNeverStored(name)) return;
  if (!dangles && IsIn(excluded_, status)) return;
  if (links_.contains(path)) return;
  if (const std::string rule = rules_.FindRule(path, is_directory);
      !rule.empty()) {
    const bool is_told = is_directory && !name.starts_with('.') &&
                         !name.ends_with(".egg-info") &&
                         NameEnvironment(source) == nullptr;
    if (is_told) Ignore(path + "/ by " + rule);
    return;
  }
  const StoreLayout layout("");
  const bool is_of_store = name.starts_with(layout.Database().string()) ||
                           name == layout.Experiments() ||
                           name == layout.Reserve();
  if (root_is_store_ && prefix.empty() && is_of_store) return;
  if (dangles) return LeaveOut(path, "a broken link");
  if (const auto kind = FindDefault(source, path, status); !kind.empty()) {
    return Ignore(kind);
  }
  if (S_ISLNK(link.st_mode)) return Follow(source, path);
  if (is_directory && IsStore(source)) return;
  if (is_directory) return Enter(source, path + "/", status);
  if (S_ISREG(status.st_mode)) return Add(source, path, status);
  LeaveOut(path, "not a regular file");
}

void Walk::Follow(const fs::path& link, const std::string& path) {
  std::error_code error;
  const fs::path real = fs::canonical(link, error);
  struct stat status {};
  if (error || ::stat(real.c_str(), &status) != 0) {
    return LeaveOut(path, "a broken link");
  }
  if (!IsInside(real, root_)) {
    return LeaveOut(path, "a link that leads out of the directory");
  }
  if (S_ISREG(status.st_mode)) return Add(real, path, status);
  if (!S_ISDIR(status.st_mode)) return LeaveOut(path, "not a regular file");
  if (const std::string linked = real.lexically_relative(root_).string();
      links_.contains(linked)) {
    return LeaveOut(path, "a link to '" + linked +
                              "', which trials have as a link (--link " +
                              QuoteForShell(path) + " links this one, too)");
  }
  if (IsStore(real)) return;
  if (IsIn(stack_, status)) {
    return LeaveOut(path, "a link to a directory that contains it");
  }
  Enter(real, path + "/", status);
}

void Walk::Add(const fs::path& source, const std::string& path,
               const struct stat& status) {
  list_.files.push_back({.path = path,
                         .source = source,
                         .bytes = status.st_size,
                         .executable = (status.st_mode & S_IXUSR) != 0,
                         .status = status});
  // The limits are checked while the walk goes on: a context of a home
  // directory must end in a message, not after an hour.
  list_.bytes += status.st_size;
  if (list_.bytes > limits_.bytes) Exceed(FormatBytes(limits_.bytes));
  if (std::ssize(list_.files) > limits_.files) {
    Exceed(std::to_string(limits_.files) + " files");
  }
}

std::vector<std::string> Walk::Names(const fs::path& directory) {
  const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(directory.c_str()),
                                                 ::closedir);
  const std::string path = directory.lexically_relative(root_).string();
  if (!open) Fail(path, errno);
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(open.get())) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (++entries_ > limits_.entries) {
      Exceed(std::to_string(limits_.entries) +
             " files and directories, ignored ones included, the last in " +
             path);
      return {};
    }
    names.push_back(name);
  }
  if (errno != 0) Fail(path, errno);
  std::ranges::sort(names);
  return names;
}

void Walk::AddRules(const fs::path& directory, const char* name,
                    const std::string& prefix) {
  const fs::path file = directory / name;
  struct stat status {};
  // Git does not follow a link here either.
  if (::lstat(file.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return;
  if (status.st_size > kLargestIgnoreFile) Fail(prefix + name, EFBIG);
  const auto text = ReadFile(file);
  if (!text) Fail(prefix + name, errno);
  rules_.Add(*text, prefix, name);
}

// Goes down one path with Visit's checks of names, rules and links, and
// describes the first that leaves it out.
std::optional<std::string> Walk::Explain(const fs::path& path) {
  fs::path real = root_;
  std::string prefix;
  for (const fs::path& part : path) {
    const std::string name = part.string();
    if (name.empty()) continue;
    AddRules(real, ".gitignore", prefix);
    if (prefix.empty()) AddRules(real, ".detignore", prefix);
    std::error_code error;
    const fs::path next = fs::canonical(real / name, error);
    if (error) return std::nullopt;
    const std::string shown = prefix + name;
    if (IsNeverStored(name)) return "a directory of this name is not stored";
    const std::string rule =
        rules_.FindRule(shown, fs::is_directory(next, error));
    if (!rule.empty()) return rule + " leaves it out";
    struct stat status {};
    if (::stat(next.c_str(), &status) == 0) {
      const std::string kind = FindDefault(next, shown, status);
      if (!kind.empty()) return kind + " is not stored by default";
    }
    if (!IsInside(next, root_)) {
      return "'" + shown + "' is a link that leads out of the directory";
    }
    real = next;
    prefix = shown + "/";
  }
  return std::nullopt;
}

// Returns what is left out although no rule names it: "venv/ (a Python
// environment)"; empty if it is stored.
std::string Walk::FindDefault(const fs::path& source, const std::string& path,
                              const struct stat& status) const {
  const bool is_directory = S_ISDIR(status.st_mode);
  const char* const kind = is_directory               ? NameUnneeded(source)
                           : !S_ISREG(status.st_mode) ? nullptr
                           : IsOwnOutput(status)
                               ? "the output of this command"
                               : NameOutput(source, status.st_size);
  if (kind == nullptr || rules_.IsRestored(path, is_directory)) return "";
  return path + (is_directory ? "/ (" : " (") + kind + ")";
}

void Walk::Ignore(const std::string& what) {
  if (list_.ignored.size() < kMaxIgnored) list_.ignored.push_back(what);
}

void Walk::LeaveOut(const std::string& path, const std::string& why) {
  list_.left_out.push_back("'" + path + "' is " + why);
}

void Walk::Fail(const std::string& path, int error) const {
  throw Error(ErrorKind::kUsage,
              "context " + given_.string() + ": " +
                  (path.empty() ? "" : "'" + path + "' ") +
                  "cannot be read: " + ErrnoText(error) +
                  "; fix its permissions, or list it in .detignore");
}

void Walk::Exceed(const std::string& what) {
  list_.too_large = "context " + given_.string() + ": has more than " + what +
                    Largest() + "; list files that no trial needs in " +
                    (given_ / ".detignore").string() +
                    ", and link directories of data: --link DIR";
}

// Returns " (the largest: data/ 1.2 GB, data/train.bin 1.2 GB)", of the files
// listed so far.
std::string Walk::Largest() const {
  std::map<std::string, std::int64_t> sizes;
  for (const ContextFile& file : list_.files) {
    sizes[file.path] = file.bytes;
    const std::size_t slash = file.path.find('/');
    if (slash != file.path.npos) {
      sizes[file.path.substr(0, slash + 1)] += file.bytes;
    }
  }
  std::vector<std::pair<std::int64_t, std::string>> order;
  for (const auto& [path, bytes] : sizes) order.emplace_back(-bytes, path);
  std::ranges::sort(order);
  if (order.size() > kLargestShown) order.resize(kLargestShown);
  std::vector<std::string> parts;
  for (const auto& [bytes, path] : order) {
    parts.push_back(path + " " + FormatBytes(-bytes));
  }
  return parts.empty() ? "" : " (the largest: " + Join(parts, ", ") + ")";
}

bool IsLikelySecret(const fs::path& path) {
  constexpr std::array<std::string_view, 5> kNames = {
      ".netrc", ".npmrc", ".pypirc", ".git-credentials", "kaggle.json"};
  constexpr std::array<std::string_view, 4> kKeys = {"id_rsa", "id_dsa",
                                                     "id_ecdsa", "id_ed25519"};
  constexpr std::array<std::string_view, 4> kKinds = {".pem", ".key", ".p12",
                                                      ".pfx"};
  const std::string name = path.filename().string();
  const auto begins = [&](std::string_view key) {
    return name.starts_with(key);
  };
  const auto ends = [&](std::string_view kind) { return name.ends_with(kind); };
  const bool aws =
      name == "credentials" && path.parent_path().filename() == ".aws";
  // .env.production, but not .env.example, which is a template.
  constexpr std::array<std::string_view, 4> kTemplates = {
      ".env.example", ".env.sample", ".env.template", ".env.dist"};
  const bool is_environment =
      name == ".env" ||
      (name.starts_with(".env.") &&
       std::ranges::find(kTemplates, name) == kTemplates.end());
  return aws || is_environment ||
         std::ranges::find(kNames, name) != kNames.end() ||
         std::ranges::any_of(kKinds, ends) ||
         (std::ranges::any_of(kKeys, begins) && !name.ends_with(".pub"));
}

}  // namespace

bool IsStore(const fs::path& directory) {
  const StoreLayout layout(directory);
  std::error_code ignored;
  return fs::is_regular_file(layout.Database(), ignored) &&
         fs::is_directory(layout.Experiments(), ignored);
}

bool HasPython(const fs::path& directory) {
  std::error_code error;
  fs::recursive_directory_iterator entry(directory, error);
  for (int seen = 0; !error && entry != fs::recursive_directory_iterator() &&
                     seen < kMaxExamined;
       entry.increment(error), ++seen) {
    if (entry->path().extension() == ".py") return true;
  }
  return false;
}

bool IsNeverStored(const std::string& name) {
  return name == ".git" || name == ".dtrain" || name == "__pycache__";
}

ContextList ListContext(const fs::path& directory,
                        const std::vector<fs::path>& excluded,
                        const ContextLimits& limits) {
  ContextList list = ListLinkedContext(directory, {}, excluded, limits);
  if (list.too_large.empty()) return list;
  throw Error(ErrorKind::kUsage, list.too_large);
}

ContextList ListLinkedContext(const fs::path& directory,
                              const ContextOrigin& origin,
                              const std::vector<fs::path>& excluded,
                              const ContextLimits& limits) {
  ContextList list = Walk(directory, excluded, limits, origin.links).Run();
  list.origin.links = origin.links;
  list.origin.below = origin.below;
  return list;
}

std::optional<std::string> FindExclusion(const fs::path& directory,
                                         const std::string& path) try {
  const fs::path normal = fs::path(path).lexically_normal();
  std::error_code ignored;
  if (path.empty() || normal.is_absolute() || normal == "." ||
      !fs::exists(Shown(directory) / normal, ignored)) {
    return std::nullopt;
  }
  if (*normal.begin() == "..") return "it is outside of that directory";
  return Walk(directory, {}, {}).Explain(normal);
} catch (const Error&) {
  return std::nullopt;  // cannot be read any more
}

namespace {

constexpr std::size_t kCopyPiece = 1 << 16;

class Copy {
 public:
  Copy(const ContextList& list, fs::path to, CopyAccess access)
      : list_(list),
        to_(std::move(to)),
        writable_(access == CopyAccess::kReadWrite ? S_IWUSR : 0) {}

  ContextManifest Run() {
    ContextManifest manifest;
    directories_.insert(to_);
    for (const ContextFile& file : list_.files) {
      manifest.files.push_back(CopyFile(file));
    }
    for (const fs::path& path : directories_) SyncDirectory(path);
    return manifest;
  }

 private:
  StoredFile CopyFile(const ContextFile& file) {
    const UniqueFd in(
        ::open(file.source.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!in) Refuse(file, errno);
    CheckUnchanged(in.get(), file);
    const fs::path path = to_ / file.path;
    MakeParents(path.parent_path());
    const UniqueFd out(::open(path.c_str(),
                              O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                              (file.executable ? 0500 : 0400) | writable_));
    if (!out) CannotWrite(path, errno);
    std::string sha256 = CopyBytes(file, in.get(), out.get(), path);
    CheckUnchanged(in.get(), file);
    SyncFile(out.get(), path);
    return {file.path, file.bytes, file.executable, std::move(sha256)};
  }

  std::string CopyBytes(const ContextFile& file, int in, int out,
                        const fs::path& path) const {
    Sha256 sha;
    std::int64_t bytes = 0;
    std::array<std::byte, kCopyPiece> buffer;
    // A file that keeps growing must not fill the disk.
    while (bytes <= file.bytes) {
      const ssize_t got = ::read(in, buffer.data(), buffer.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) Refuse(file, errno);
      if (got == 0) break;
      bytes += got;
      const std::span piece(buffer.data(), static_cast<std::size_t>(got));
      sha.Update(piece);
      WriteBytes(out, piece, path);
    }
    std::string sha256 = sha.Finish();
    const bool same = file.sha256.empty() || file.sha256 == sha256;
    if (bytes != file.bytes || !same) RefuseChanged(file);
    return sha256;
  }

  void CheckUnchanged(int fd, const ContextFile& file) const {
    // A stored file is checked by its SHA-256, not by its time.
    if (!file.sha256.empty()) return;
    struct stat now {};
    const struct stat& then = file.status;
    const bool is_as_listed = ::fstat(fd, &now) == 0 && S_ISREG(now.st_mode) &&
                              now.st_dev == then.st_dev &&
                              now.st_ino == then.st_ino &&
                              now.st_size == then.st_size &&
                              now.st_mtim.tv_sec == then.st_mtim.tv_sec &&
                              now.st_mtim.tv_nsec == then.st_mtim.tv_nsec;
    if (!is_as_listed) RefuseChanged(file);
  }

  void MakeParents(const fs::path& directory) {
    if (!directories_.insert(directory).second) return;
    MakeParents(directory.parent_path());
    MakePrivateDirectories(directory);
  }

  [[noreturn]] void Refuse(const ContextFile& file, int error) const {
    if (error == ENOENT || error == ELOOP) RefuseChanged(file);
    throw Error(ErrorKind::kUsage,
                "context " + list_.directory.string() + ": '" + file.path +
                    "' cannot be read: " + ErrnoText(error) +
                    "; fix its permissions, or list it in .detignore");
  }

  [[noreturn]] void RefuseChanged(const ContextFile& file) const {
    const std::string name =
        "context " + list_.directory.string() + ": '" + file.path + "' ";
    if (!file.sha256.empty()) {
      throw Error(ErrorKind::kDamaged,
                  name +
                      "is missing or has changed since it was stored; restore "
                      "it from a backup");
    }
    throw Error(
        ErrorKind::kUsage,
        name +
            "changed or vanished while it was copied; try again when nothing "
            "writes to it, or list it in .detignore");
  }

  const ContextList& list_;
  const fs::path to_;
  const mode_t writable_;
  std::set<fs::path> directories_;
};

}  // namespace

ContextManifest CopyContext(const ContextList& list, const fs::path& to,
                            CopyAccess access) {
  return Copy(list, to, access).Run();
}

std::vector<std::string> LikelySecrets(const ContextList& list) {
  std::vector<std::string> secrets;
  for (const ContextFile& file : list.files) {
    if (IsLikelySecret(file.path)) secrets.push_back(file.path);
  }
  return secrets;
}

bool NeedsContext(const ExperimentConfig& config,
                  const std::filesystem::path& directory) {
  const auto* name = std::get_if<std::string>(&config.entrypoint);
  if (name == nullptr) return true;
  std::error_code ignored;
  return name->starts_with("model_def:") &&
         std::filesystem::is_regular_file(directory / kModelDefinition,
                                          ignored);
}

}  // namespace dtrain
