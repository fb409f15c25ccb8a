// A fetch never leaves half a set under the set's name. In the data directory
// PLACE, for the set NAME:
//
//   PLACE/.NAME.lock            locked during a fetch
//   PLACE/.NAME.partial/F.part  each file while it is downloaded
//   PLACE/.NAME.partial/whole   the complete, verified directory
//   PLACE/.NAME.fetched         the record of its files and their SHA-256
//   PLACE/DIRECTORY             the set
//
// The record is written before `whole` is renamed to DIRECTORY. A crash at any
// point leaves .NAME.partial, from which the next fetch resumes.

#include "engine/fetch/fetch_set.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <span>
#include <system_error>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/fetch/download.h"
#include "engine/fetch/fetch_files.h"
#include "engine/fetch/unpack.h"
#include "engine/os/file_lock.h"
#include "engine/os/system_error.h"

namespace dtrain {
namespace {

// A lock for one set and directory: an exclusive flock, which the kernel
// releases when its holder dies.
class FetchLock {
 public:
  // Throws Error(kFailed) if `path` cannot be opened.
  explicit FetchLock(std::filesystem::path path);

  enum class Got { kAtOnce, kAfterWaiting, kNot };
  // Waits while another process holds it, and reports that. Returns kNot if the
  // listener stopped the wait.
  [[nodiscard]] Got Acquire(const FetchListener& listener);

 private:
  bool Try();

  std::filesystem::path path_;
  FileLock file_;
};

FetchLock::FetchLock(std::filesystem::path path)
    : path_(std::move(path)), file_(FileLock::Open(path_, /*mode=*/0666)) {
  if (!file_) FailWriting(path_, errno);
}

bool FetchLock::Try() {
  if (file_.TryLock()) return true;
  if (errno == EWOULDBLOCK) return false;
  throw Error(ErrorKind::kFailed,
              EscapeForTerminal(path_.string()) +
                  ": cannot be locked: " + ErrnoText() +
                  "; fetch into a directory of another file system with --to");
}

FetchLock::Got FetchLock::Acquire(const FetchListener& listener) {
  if (Try()) return Got::kAtOnce;
  if (listener.say) {
    listener.say("another dtrain is fetching it; waiting");
  }
  while (!Try()) {
    if (listener.Stops()) return Got::kNot;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return Got::kAfterWaiting;
}

namespace fs = std::filesystem;

class Fetcher {
 public:
  Fetcher(const DataSet& set, const FetchOptions& options)
      : set_(set),
        options_(options),
        place_(options.places.front()),
        partial_(PartialDirectory(set, place_)),
        whole_(partial_ / "whole") {}

  FetchResult Run();

 private:
  // Returns the set that is present; nothing if it has to be fetched.
  std::optional<FetchResult> FindPresent();
  FetchResult Fetch();
  void Prepare();
  bool DownloadAll();
  bool Assemble();
  void TidyUp() const;
  std::vector<std::string> Addresses(const KnownFile& file) const;
  fs::path LockFile() const {
    return place_ / ("." + std::string(set_.name) + ".lock");
  }
  fs::path Part(const KnownFile& file) const {
    return partial_ / (std::string(file.name) + ".part");
  }
  void Report(const std::string& text) const {
    if (options_.say) options_.say(std::string(set_.name) + ": " + text);
  }

  const DataSet& set_;
  const FetchOptions& options_;
  fs::path place_;
  fs::path partial_;
  fs::path whole_;  // becomes the set's directory
  std::vector<FileSum> files_;
};

std::optional<FetchResult> Fetcher::FindPresent() {
  const auto found = VerifySet(set_, options_.places, options_.stop);
  if (!found) return FetchResult{.end = FetchResult::End::kStopped};
  if (found->Complete())
    return FetchResult{.end = FetchResult::End::kThere, .found = *found};
  if (!found->directory.empty()) {
    Report(found->directory.string() + ": " + found->problem +
           "; fetching it again");
  }
  return std::nullopt;
}

std::vector<std::string> Fetcher::Addresses(const KnownFile& file) const {
  const std::string name(file.name);
  std::vector<std::string> addresses;
  if (options_.from.empty()) {
    for (const std::string_view directory : set_.addresses) {
      addresses.push_back(std::string(directory) + name);
    }
  } else if (options_.from.ends_with("/" + name)) {
    addresses.push_back(options_.from);
  } else {
    addresses.push_back(options_.from + "/" + name);
    addresses.push_back(options_.from + "/" + std::string(set_.directory) +
                        "/" + name);
  }
  return addresses;
}

// Moves files that the last fetch had verified but not placed back to its
// downloads.
void Fetcher::Prepare() {
  MakeOwnDirectory(partial_);
  std::error_code ignored;
  for (const KnownFile& file : set_.files) {
    if (!set_.packed()) {
      fs::rename(whole_ / PlacedName(set_, file), Part(file), ignored);
    }
  }
  fs::remove_all(whole_, ignored);
  std::int64_t bytes = set_.unpacked_bytes;
  for (const KnownFile& file : set_.files) {
    std::error_code error;
    const auto there = fs::file_size(Part(file), error);
    bytes += std::max<std::int64_t>(
        0, file.bytes - (error ? 0 : static_cast<std::int64_t>(there)));
  }
  RequireSpace(place_, bytes);
}

bool Fetcher::DownloadAll() {
  for (const KnownFile& file : set_.files) {
    const FetchListener listener{
        .progress =
            [&](std::int64_t bytes) {
              if (!options_.progress) return;
              options_.progress({file.name, bytes, file.bytes});
            },
        .say = [&](const std::string& text) { Report(text); },
        .stop = options_.stop};
    try {
      const std::string sha256 = Download({.addresses = Addresses(file),
                                           .part = Part(file),
                                           .bytes = file.bytes,
                                           .approximate = set_.approximate,
                                           .sha256 = std::string(file.sha256),
                                           .patience = options_.patience},
                                          listener);
      if (sha256.empty()) return false;
      const auto bytes = static_cast<std::int64_t>(fs::file_size(Part(file)));
      files_.push_back({PlacedName(set_, file), bytes, sha256});
      if (options_.progress) options_.progress({file.name, bytes, bytes});
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kFailed) throw;
      throw Error(error.kind(), std::string(set_.name) + ": " +
                                    std::string(file.name) + ": " +
                                    error.what());
    }
  }
  return true;
}

bool Fetcher::Assemble() {
  if (!set_.packed()) {
    MakeOwnDirectory(whole_);
    for (const KnownFile& file : set_.files) {
      fs::rename(Part(file), whole_ / PlacedName(set_, file));
    }
    return true;
  }
  auto files = Unpack({.archive = Part(set_.files.front()),
                       .root = std::string(set_.archive_root),
                       .to = whole_,
                       .max_bytes = 2 * set_.unpacked_bytes,
                       .stop = options_.stop});
  if (!files) return false;
  files_ = *std::move(files);
  for (const KnownFile& known : set_.contents) {
    const auto found = std::ranges::find(files_, known.name, &FileSum::name);
    if (found != files_.end() && found->sha256 == known.sha256) continue;
    throw Error(ErrorKind::kFailed,
                std::string(set_.name) + ": the archive has no '" +
                    std::string(known.name) +
                    "' with the published SHA-256; fetch it from elsewhere "
                    "with --from");
  }
  return true;
}

// Removes the directory if nothing in it can be resumed.
void Fetcher::TidyUp() const {
  std::error_code ignored;
  for (const KnownFile& file : set_.files) {
    if (fs::file_size(Part(file), ignored) == 0)
      fs::remove(Part(file), ignored);
  }
  fs::remove(partial_, ignored);
}

FetchResult Fetcher::Fetch() {
  Prepare();
  if (!DownloadAll() || !Assemble()) return {.end = FetchResult::End::kStopped};
  SyncFileSystem(partial_);
  // The record comes first: without it, half a set could not be told from a
  // complete one.
  WriteSetRecord(set_, place_, files_);
  const fs::path directory = place_ / set_.directory;
  Place(whole_, directory);
  std::error_code ignored;
  fs::remove_all(partial_, ignored);
  FoundSet found{.state = SetState::kGood,
                 .directory = directory,
                 .files = static_cast<std::int64_t>(files_.size())};
  for (const FileSum& file : files_) found.bytes += file.bytes;
  return {.end = FetchResult::End::kFetched, .found = std::move(found)};
}

FetchResult Fetcher::Run() {
  if (!options_.force) {
    if (auto result = FindPresent()) {
      // A fetch that was killed just after placing the set leaves its
      // directory.
      if (result->end == FetchResult::End::kThere &&
          ::access(partial_.c_str(), W_OK) == 0) {
        FetchLock lock(LockFile());
        const FetchListener impatient{.stop = [] { return true; }};
        std::error_code ignored;
        if (lock.Acquire(impatient) != FetchLock::Got::kNot) {
          fs::remove_all(partial_, ignored);
        }
      }
      return *std::move(result);
    }
  }
  MakeDirectories(place_);
  FetchLock lock(LockFile());
  switch (lock.Acquire({.say = [&](const std::string& text) { Report(text); },
                        .stop = options_.stop})) {
    case FetchLock::Got::kNot:
      return {.end = FetchResult::End::kStopped};
    case FetchLock::Got::kAfterWaiting:
      if (auto result = FindPresent()) return *std::move(result);
      break;
    case FetchLock::Got::kAtOnce:
      break;
  }
  try {
    FetchResult result = Fetch();
    if (result.end == FetchResult::End::kStopped) TidyUp();
    return result;
  } catch (...) {
    TidyUp();
    throw;
  }
}

}  // namespace

FetchResult FetchSet(const DataSet& set, const FetchOptions& options) {
  return Fetcher(set, options).Run();
}

}  // namespace dtrain
