// A program runs in a copy of the stored context, so that it may write there
// and no trial sees the files of another. The copies are not synced, since that
// would delay every start, so a power failure can truncate them. They have the
// times of their originals, by which Repair recognizes a truncated copy and
// makes it again when the trial resumes. After the trial, TidyWorkingTree
// removes the copies that are unchanged and leaves what the program wrote.
//
// A copy is made by the cheapest means that works: shared blocks (FICLONE, on
// Btrfs and XFS), a copy within the kernel (copy_file_range), or reads and
// writes. What a file system refuses once is not tried again. The tree is
// filled under another name and renamed, so that a tree with the right name is
// whole but for lost data.

#include "engine/context/working_tree.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/error.h"
#include "engine/context/context_links.h"
#include "engine/os/files.h"
#include "engine/os/sha256.h"
#include "engine/os/system_error.h"
#include "engine/os/unique_fd.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

// Suffix of a tree's name while it is being made.
constexpr char kNewSuffix[] = ".new";
constexpr std::size_t kTreePiece = 1 << 16;

ContextManifest ReadList(const fs::path& master) {
  const fs::path file = ContextListPath(master);
  const auto text = ReadFile(file);
  try {
    if (text) return ContextManifest::Parse(*text, file.string());
  } catch (const Error& error) {
    // kDamaged would be read as damage to the trial's checkpoint.
    throw Error(ErrorKind::kFailed, error.what());
  }
  throw Error(ErrorKind::kFailed,
              file.string() + ": cannot be read; restore it from a backup");
}

[[noreturn]] void CannotRead(const fs::path& file, int error) {
  throw Error(ErrorKind::kFailed, file.string() +
                                      ": cannot be read: " + ErrnoText(error) +
                                      "; restore it from a backup");
}

[[noreturn]] void IsCut(const fs::path& file) {
  throw Error(ErrorKind::kFailed,
              file.string() +
                  ": is shorter than it was stored; restore it from a backup");
}

bool IsPlainDirectory(const fs::path& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

// Returns the directory of the context's copy in a tree.
fs::path InTree(const fs::path& tree, const ContextOrigin& origin) {
  return origin.below.empty() ? tree : tree / origin.below;
}

// Opens directories of a tree. A program may have replaced any of them by a
// link, even by one to the stored context or to the original, and a process
// that survives its trial may do so at any time.
class OpenDirectories {
 public:
  explicit OpenDirectories(const fs::path& tree) : tree_(tree) {
    open_.push_back(
        {.path = "", .fd = UniqueFd(::open(tree.c_str(), kDirectoryFlags))});
  }

  // Returns a directory of the tree to which no link leads, for as long as no
  // other is opened; -1 if it is none. `make`: a missing one is made; throws as
  // CannotWrite.
  int Open(const fs::path& directory, bool make = false) {
    while (!IsInside(directory, open_.back().path)) open_.pop_back();
    auto part = std::next(
        directory.begin(),
        std::distance(open_.back().path.begin(), open_.back().path.end()));
    for (; part != directory.end() && open_.back().fd; ++part) {
      const int parent = open_.back().fd.get();
      const fs::path path = open_.back().path / *part;
      if (make && ::mkdirat(parent, part->c_str(), 0700) != 0 &&
          errno != EEXIST) {
        CannotWrite(tree_ / path, errno);
      }
      UniqueFd fd(::openat(parent, part->c_str(), kDirectoryFlags));
      if (fd) known_.insert(path);
      open_.push_back({.path = path, .fd = std::move(fd)});
    }
    return open_.back().fd.get();
  }

  // Those that were opened; what is below one comes after it.
  const std::set<fs::path>& known() const { return known_; }

 private:
  static constexpr int kDirectoryFlags =
      O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

  struct Directory {
    fs::path path;  // in the tree
    UniqueFd fd;
  };

  const fs::path tree_;
  // The tree, and directories below it, each opened in the one before: no link
  // leads to them, and none can later. The last is invalid if it is none.
  std::vector<Directory> open_;
  std::set<fs::path> known_;
};

// Copies files of a stored context, each with the time of its original. This
// distinguishes a copy that a power failure truncated from a file that the
// trial wrote: it has the original's time and another size.
class TreeCopy {
 public:
  TreeCopy(fs::path master, fs::path tree, const ContextOrigin& origin)
      : master_(std::move(master)), tree_(std::move(tree)), origin_(origin) {}

  void CopyAll(const ContextManifest& manifest) {
    MakeDirectory(tree_);
    MakeParents(origin_.below);
    for (const StoredFile& file : manifest.files) {
      const fs::path path = origin_.below / file.path;
      MakeParents(path.parent_path());
      CopyFile(file, tree_ / path);
    }
  }

  // Makes the links whose places are free. A program may have put something
  // else there.
  void MakeLinks() {
    OpenDirectories directories(tree_);
    for (const ContextLink& link : origin_.links) {
      const fs::path path = (origin_.below / link.path).lexically_normal();
      const int at = directories.Open(path.parent_path(), /*make=*/true);
      if (at >= 0 &&
          ::symlinkat(link.target.c_str(), at, path.filename().c_str()) != 0 &&
          errno != EEXIST) {
        CannotWrite(tree_ / path, errno);
      }
    }
  }

  void Repair(const ContextManifest& manifest) {
    for (const StoredFile& file : manifest.files) {
      struct stat copy {};
      struct stat original {};
      const fs::path path = tree_ / origin_.below / file.path;
      const bool cut = ::lstat(path.c_str(), &copy) == 0 &&
                       S_ISREG(copy.st_mode) && copy.st_size != file.bytes &&
                       ::lstat((master_ / file.path).c_str(), &original) == 0 &&
                       copy.st_mtim.tv_sec == original.st_mtim.tv_sec &&
                       copy.st_mtim.tv_nsec == original.st_mtim.tv_nsec;
      if (!cut) continue;
      fs::path whole = path;
      whole += kNewSuffix;
      ::unlink(whole.c_str());
      CopyFile(file, whole);
      if (::rename(whole.c_str(), path.c_str()) != 0) CannotWrite(path, errno);
    }
  }

 private:
  static void MakeDirectory(const fs::path& path) {
    if (::mkdir(path.c_str(), 0700) != 0) CannotWrite(path, errno);
  }

  void MakeParents(const fs::path& directory) {
    if (directory.empty() || !made_.insert(directory).second) return;
    MakeParents(directory.parent_path());
    MakeDirectory(tree_ / directory);
  }

  void CopyFile(const StoredFile& file, const fs::path& to) {
    const fs::path from = master_ / file.path;
    const UniqueFd in(
        ::open(from.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    struct stat status {};
    if (!in || ::fstat(in.get(), &status) != 0) CannotRead(from, errno);
    if (!S_ISREG(status.st_mode) || status.st_size != file.bytes) IsCut(from);
    const UniqueFd out(::open(to.c_str(),
                              O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                              file.executable ? 0700 : 0600));
    if (!out) CannotWrite(to, errno);
    if (!Clone(in.get(), out.get())) {
      CopyBytes(in.get(), from, out.get(), to, file.bytes);
    }
    const timespec times[] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT},
                              status.st_mtim};
    if (::futimens(out.get(), times) != 0) CannotWrite(to, errno);
  }

  bool Clone(int in, int out) {
    if (!clones_) return false;
    if (::ioctl(out, FICLONE, in) == 0) return true;
    // EINVAL: only this file cannot be cloned.
    clones_ = errno == EINVAL;
    return false;
  }

  void CopyBytes(int in, const fs::path& from, int out, const fs::path& to,
                 std::int64_t bytes) {
    while (bytes > 0 && ranges_) {
      const ssize_t count =
          ::copy_file_range(in, nullptr, out, nullptr,
                            static_cast<std::size_t>(bytes), /*flags=*/0);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && (errno == ENOSPC || errno == EDQUOT || errno == EIO)) {
        CannotWrite(to, errno);
      }
      // Not supported here or between these two files: some systems return 0.
      ranges_ = count > 0;
      if (count > 0) bytes -= count;
    }
    std::array<std::byte, kTreePiece> buffer;
    while (bytes > 0) {
      const ssize_t count = ::read(in, buffer.data(), buffer.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) CannotRead(from, errno);
      if (count == 0) IsCut(from);
      WriteBytes(out, std::span(buffer).first(static_cast<std::size_t>(count)),
                 to);
      bytes -= count;
    }
  }

  const fs::path master_;
  const fs::path tree_;
  const ContextOrigin& origin_;
  std::set<fs::path> made_;
  bool clones_ = true;  // until the file system refuses
  bool ranges_ = true;
};

// Fills `buffer` from `fd`; less at the end of the file.
std::size_t Fill(int fd, std::span<std::byte> buffer) {
  std::size_t filled = 0;
  while (filled < buffer.size()) {
    const ssize_t count =
        ::read(fd, buffer.data() + filled, buffer.size() - filled);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    filled += static_cast<std::size_t>(count);
  }
  return filled;
}

// `a` is relative to the open directory `at`.
bool HaveTheSameBytes(int at, const fs::path& a, const fs::path& b,
                      std::int64_t bytes) {
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  const UniqueFd first(::openat(at, a.c_str(), kFlags));
  const UniqueFd second(::open(b.c_str(), kFlags));
  struct stat original {};
  if (!first || !second || ::fstat(second.get(), &original) != 0 ||
      original.st_size != bytes) {
    return false;
  }
  std::array<std::byte, kTreePiece> left;
  std::array<std::byte, kTreePiece> right;
  for (std::int64_t done = 0; done < bytes;) {
    const std::size_t count = Fill(first.get(), left);
    if (count == 0 || Fill(second.get(), right) != count) return false;
    if (!std::equal(left.begin(), left.begin() + count, right.begin())) {
      return false;
    }
    done += static_cast<std::int64_t>(count);
  }
  return true;
}

// Tidies the tree of a trial that has ended.
class TreeTidying {
 public:
  TreeTidying(const fs::path& master, const fs::path& tree)
      : master_(master),
        tree_(tree),
        origin_(ReadContextOrigin(master)),
        directories_(tree) {}

  // Deletes a file only if it has the bytes of its original, a link only if it
  // leads to its target, and then the directories that have become empty, the
  // innermost first; rmdir(2) refuses those that have not.
  void Run() {
    if (directories_.Open("") < 0) return;
    directories_.Open(origin_.below);
    for (const StoredFile& file : ReadList(master_).files) {
      const fs::path path = origin_.below / file.path;
      const int at = directories_.Open(path.parent_path());
      const fs::path name = path.filename();
      struct stat status {};
      if (at >= 0 &&
          ::fstatat(at, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
          S_ISREG(status.st_mode) && status.st_size == file.bytes &&
          HaveTheSameBytes(at, name, master_ / file.path, file.bytes)) {
        ::unlinkat(at, name.c_str(), /*flags=*/0);
      }
    }
    for (const ContextLink& link : origin_.links) {
      const fs::path path = (origin_.below / link.path).lexically_normal();
      const int at = directories_.Open(path.parent_path());
      std::string target(link.target.native().size() + 1, '\0');
      if (at >= 0 &&
          ::readlinkat(at, path.filename().c_str(), target.data(),
                       target.size()) >= 0 &&
          target.c_str() == link.target.native()) {
        ::unlinkat(at, path.filename().c_str(), /*flags=*/0);
      }
    }
    const std::set<fs::path>& known = directories_.known();
    for (auto path = known.rbegin(); path != known.rend(); ++path) {
      const int at = directories_.Open(path->parent_path());
      if (at >= 0) ::unlinkat(at, path->filename().c_str(), AT_REMOVEDIR);
    }
    ::rmdir(tree_.c_str());
  }

 private:
  const fs::path& master_;
  const fs::path& tree_;
  const ContextOrigin origin_;
  OpenDirectories directories_;
};

}  // namespace

fs::path ContextListPath(const fs::path& master) {
  fs::path file = master;
  return file += ".list";
}

fs::path NewTree(const fs::path& tree) {
  fs::path path = tree;
  return path += kNewSuffix;
}

fs::path MakeWorkingTree(const fs::path& master, const fs::path& tree) {
  const ContextManifest manifest = ReadList(master);
  const ContextOrigin origin = ReadContextOrigin(master);
  if (IsPlainDirectory(tree)) {
    TreeCopy copy(master, tree, origin);
    copy.Repair(manifest);
    copy.MakeLinks();
    return InTree(tree, origin);
  }
  const fs::path made = NewTree(tree);
  std::error_code error;
  fs::remove_all(made, error);
  if (error) CannotWrite(made, error.value());
  try {
    TreeCopy copy(master, made, origin);
    copy.CopyAll(manifest);
    copy.MakeLinks();
  } catch (const Error&) {
    fs::remove_all(made, error);
    throw;
  }
  if (::rename(made.c_str(), tree.c_str()) != 0) CannotWrite(tree, errno);
  return InTree(tree, origin);
}

fs::path WorkingDirectory(const fs::path& master, const fs::path& tree) {
  return InTree(tree, ReadContextOrigin(master));
}

void TidyWorkingTree(const fs::path& master, const fs::path& tree) {
  std::error_code ignored;
  fs::remove_all(NewTree(tree), ignored);
  try {
    TreeTidying(master, tree).Run();
  } catch (const Error&) {
    // Without the list all files may be the trial's.
  }
}

std::vector<WrittenFile> ListWrittenFiles(const fs::path& master,
                                          const fs::path& tree) {
  std::vector<WrittenFile> written;
  if (!IsPlainDirectory(tree)) return written;
  ContextManifest manifest;
  fs::path directory = tree;
  try {
    directory = WorkingDirectory(master, tree);
    manifest = ReadList(master);
  } catch (const Error&) {
    // Without the list all files may be the trial's.
  }
  std::map<std::string, std::int64_t> stored;  // bytes by path
  for (const StoredFile& file : manifest.files) stored[file.path] = file.bytes;
  std::error_code error;
  fs::recursive_directory_iterator entry(
      directory, fs::directory_options::skip_permission_denied, error);
  for (; !error && entry != fs::recursive_directory_iterator();
       entry.increment(error)) {
    if (entry->path().filename() == "__pycache__") {
      entry.disable_recursion_pending();
      continue;
    }
    struct stat status {};
    if (::lstat(entry->path().c_str(), &status) != 0 ||
        !S_ISREG(status.st_mode)) {
      continue;
    }
    const std::string path =
        entry->path().lexically_relative(directory).string();
    const auto copy = stored.find(path);
    if (copy != stored.end() && status.st_size == copy->second &&
        HaveTheSameBytes(AT_FDCWD, entry->path(), master / path,
                         copy->second)) {
      continue;
    }
    written.push_back({.path = path,
                       .bytes = status.st_size,
                       .modified = ModificationTime(status)});
  }
  std::ranges::sort(written, {}, &WrittenFile::path);
  return written;
}

bool SharesBlocks(const fs::path& directory) {
  const auto open_nameless = [&] {
    return UniqueFd(
        ::open(directory.c_str(), O_RDWR | O_TMPFILE | O_CLOEXEC, 0600));
  };
  const UniqueFd from = open_nameless();
  const UniqueFd to = open_nameless();
  const std::array<std::byte, 4096> block{};
  return from && to &&
         ::write(from.get(), block.data(), block.size()) ==
             static_cast<ssize_t>(block.size()) &&
         ::ioctl(to.get(), FICLONE, from.get()) == 0;
}

namespace {

constexpr std::size_t kDigits = 64;  // of a SHA-256

std::optional<StoredFile> ParseFile(std::string_view line) {
  if (line.size() < kDigits + 6 || line[kDigits] != ' ' ||
      line[kDigits + 2] != ' ') {
    return std::nullopt;
  }
  StoredFile file{.executable = line[kDigits + 1] == 'x',
                  .sha256 = std::string(line.substr(0, kDigits))};
  line.remove_prefix(kDigits + 3);
  const char* end = line.data() + line.size();
  const auto [rest, error] = std::from_chars(line.data(), end, file.bytes);
  if (error != std::errc() || rest == end || *rest != ' ' || file.bytes < 0) {
    return std::nullopt;
  }
  file.path.assign(rest + 1, end);
  // Only a relative path that stays in the context.
  const fs::path path(file.path);
  const bool is_plain = !file.path.empty() && path.is_relative() &&
                        file.path.back() != '/' &&
                        path.lexically_normal().string() == file.path &&
                        *path.begin() != ".." && file.path != ".";
  if (!is_plain) return std::nullopt;
  return file;
}

}  // namespace

std::int64_t ContextManifest::bytes() const {
  std::int64_t sum = 0;
  for (const StoredFile& file : files) sum += file.bytes;
  return sum;
}

std::string ContextManifest::Text() const {
  std::string text;
  for (const StoredFile& file : files) {
    text += file.sha256 + (file.executable ? " x " : " - ") +
            std::to_string(file.bytes) + " " + file.path + '\0';
  }
  return text;
}

std::string ContextManifest::Hash() const {
  const std::string text = Text();
  return ComputeSha256(std::as_bytes(std::span(text)));
}

ContextManifest ContextManifest::Parse(std::string_view text,
                                       const std::string& where) {
  ContextManifest manifest;
  while (!text.empty()) {
    const std::size_t end = text.find('\0');
    auto file =
        end == text.npos ? std::nullopt : ParseFile(text.substr(0, end));
    if (!file) {
      throw Error(ErrorKind::kDamaged,
                  where +
                      ": is not a list of files; it is damaged: restore it "
                      "from a backup");
    }
    manifest.files.push_back(*std::move(file));
    text.remove_prefix(end + 1);
  }
  return manifest;
}

}  // namespace dtrain
