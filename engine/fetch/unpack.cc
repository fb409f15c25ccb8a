// Archives come from the internet, and nothing in them is trusted: the path of
// each entry is checked before its file is created; links are refused, because
// a later entry could be written through one; a file that exists is never
// replaced; bytes and entries are counted while they are unpacked, since the
// sizes in headers may be wrong.

#include "engine/fetch/unpack.h"

#include <array>
#include <cerrno>
#include <memory>
#include <string_view>
#include <system_error>

#include <archive.h>
#include <archive_entry.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/fetch/fetch_files.h"
#include "engine/os/sha256.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBlock = std::size_t{1} << 16;
constexpr std::size_t kMaxEntries = 1'000'000;

struct FreeArchive {
  void operator()(archive* handle) const { ::archive_read_free(handle); }
};

// Unpacks entry by entry. Every path is checked before anything is written, and
// every file is hashed while it is written.
class Unpacker {
 public:
  explicit Unpacker(const UnpackRequest& request)
      : request_(request), archive_(::archive_read_new()) {}

  std::optional<std::vector<FileSum>> Run();

 private:
  [[noreturn]] void Fail(const std::string& what) const;
  void Check(int code) const;
  void Open();
  // Returns the entry's path below the root; empty if it lies elsewhere.
  fs::path Place(const std::string& name) const;
  bool UnpackEntry(archive_entry* entry);
  bool UnpackFile(const fs::path& path);

  const UnpackRequest& request_;
  std::unique_ptr<archive, FreeArchive> archive_;
  std::vector<FileSum> files_;
  std::int64_t bytes_ = 0;
};

void Unpacker::Fail(const std::string& what) const {
  throw Error(ErrorKind::kFailed, EscapeForTerminal(request_.archive.string()) +
                                      ": " + EscapeForTerminal(what) +
                                      "; nothing from it was used; fetch it "
                                      "again, or from elsewhere with --from");
}

void Unpacker::Check(int code) const {
  if (code == ARCHIVE_OK || code == ARCHIVE_WARN) return;
  const char* words = ::archive_error_string(archive_.get());
  Fail(std::string("damaged archive (") +
       (words == nullptr ? "unknown" : words) + ")");
}

void Unpacker::Open() {
  if (!archive_) Fail("libarchive cannot be started; free some memory");
  Check(::archive_read_support_filter_all(archive_.get()));
  Check(::archive_read_support_format_tar(archive_.get()));
  Check(::archive_read_support_format_zip(archive_.get()));
  Check(::archive_read_open_filename(archive_.get(), request_.archive.c_str(),
                                     kBlock));
}

// Entries outside of `root` are skipped, unsafe ones end the unpacking: an
// archive that has one is not the expected one.
fs::path Unpacker::Place(const std::string& name) const {
  if (name.empty() || name.front() == '/' || EscapeForTerminal(name) != name) {
    Fail("holds the unsafe path '" + name + "'");
  }
  std::vector<std::string> parts;
  for (std::string& part : Split(name, '/')) {
    if (part == "..") Fail("holds the unsafe path '" + name + "'");
    if (!part.empty() && part != ".") parts.push_back(std::move(part));
  }
  if (parts.size() < 2 || parts.front() != request_.root) return {};
  parts.erase(parts.begin());
  return Join(parts, "/");
}

bool Unpacker::UnpackFile(const fs::path& path) {
  const fs::path to = request_.to / path;
  std::error_code error;
  fs::create_directories(to.parent_path(), error);
  if (error) FailWriting(to.parent_path(), error.value());
  if (fs::exists(fs::symlink_status(to, error))) {
    Fail("holds '" + path.string() + "' twice");
  }
  PartFile file(to);
  Sha256 sha;
  std::array<std::byte, kBlock> block;
  while (true) {
    if (request_.stop && request_.stop()) return false;
    const la_ssize_t count =
        ::archive_read_data(archive_.get(), block.data(), block.size());
    if (count < 0) Check(static_cast<int>(count));
    if (count <= 0) break;
    const auto bytes = std::span(block).first(static_cast<std::size_t>(count));
    bytes_ += count;
    if (bytes_ > request_.max_bytes) {
      Fail("holds more than the " + FormatBytes(request_.max_bytes) +
           " expected");
    }
    if (const int failed = file.Append(bytes)) FailWriting(to, failed);
    sha.Update(bytes);
  }
  files_.push_back({path.string(), file.size(), sha.Finish()});
  return true;
}

// Returns false if the caller asked to stop.
bool Unpacker::UnpackEntry(archive_entry* entry) {
  const char* name = ::archive_entry_pathname(entry);
  const fs::path path = Place(name == nullptr ? "" : name);
  const auto type = ::archive_entry_filetype(entry);
  const bool link = ::archive_entry_hardlink(entry) != nullptr;
  if (link || (type != AE_IFREG && type != AE_IFDIR)) {
    Fail("holds '" + std::string(name) +
         "', which is neither file nor directory");
  }
  if (path.empty() || type == AE_IFDIR) return true;
  return UnpackFile(path);
}

std::optional<std::vector<FileSum>> Unpacker::Run() {
  Open();
  std::error_code error;
  fs::create_directory(request_.to, error);
  if (error) FailWriting(request_.to, error.value());
  archive_entry* entry = nullptr;
  for (std::size_t entries = 0;; ++entries) {
    const int code = ::archive_read_next_header(archive_.get(), &entry);
    if (code == ARCHIVE_EOF) break;
    Check(code);
    if (entries == kMaxEntries)
      Fail("holds more than " + std::to_string(kMaxEntries) + " entries");
    if (!UnpackEntry(entry)) return std::nullopt;
  }
  if (files_.empty()) Fail("holds no directory '" + request_.root + "'");
  return std::move(files_);
}

}  // namespace

std::optional<std::vector<FileSum>> Unpack(const UnpackRequest& request) {
  return Unpacker(request).Run();
}

}  // namespace dtrain
