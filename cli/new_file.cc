#include "cli/new_file.h"

#include <cerrno>
#include <system_error>
#include <utility>

#include <sys/stat.h>

#include "engine/base/error.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void RefuseExisting(const fs::path& path) {
  throw Error(ErrorKind::kUsage,
              "--out: '" + path.string() +
                  "' already exists; choose another file, or use --force");
}

}  // namespace

NewFile::NewFile(fs::path path, bool replace)
    : path_(std::move(path)), replace_(replace) {
  RequireAbsent();
  file_.emplace(path_, /*mode=*/0666);
  if (!*file_) Fail(errno);
}

void NewFile::Fail(int error) const {
  const char* remedy = error == ENOSPC || error == EDQUOT
                           ? "free some space there, or choose another file"
                           : "choose a file in a writable directory";
  throw Error(ErrorKind::kFailed,
              "--out: cannot write '" + path_.string() + "': " +
                  std::generic_category().message(error) + "; " + remedy);
}

void NewFile::RequireAbsent() const {
  struct stat status {};
  if (::lstat(path_.c_str(), &status) != 0) return;
  if (!replace_) RefuseExisting(path_);
  if (S_ISREG(status.st_mode)) return;
  throw Error(
      ErrorKind::kUsage,
      "--out: '" + path_.string() +
          "' is not a regular file, so it is not replaced; choose another");
}

void NewFile::Write(std::span<const std::byte> bytes) {
  if (!file_->Write(bytes)) Fail(errno);
  bytes_ += static_cast<std::int64_t>(bytes.size());
}

void NewFile::Keep() {
  using Existing = DurableFile::Existing;
  if (file_->Commit(replace_ ? Existing::kReplace : Existing::kKeep)) return;
  if (errno == EEXIST && !replace_) RefuseExisting(path_);
  Fail(errno);
}

}  // namespace dtrain
