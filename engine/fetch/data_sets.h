#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain {

/// A file of known contents.
struct KnownFile {
  std::string_view name;
  std::int64_t bytes = 0;
  std::string_view
      sha256;  // in hex; of published weights only the first digits
};

/// A data set or a file of weights that `dtrain data fetch` downloads.
struct DataSet {
  std::string_view name;
  std::string_view summary;
  // Directories, each with "/" at its end, that have all of `files`.
  std::span<const std::string_view> addresses;
  std::span<const KnownFile> files;  // as they are downloaded
  std::string_view directory;        // of the set in the data directory
  // Directory in the archive that becomes `directory`; empty if `files` are not
  // archives and are placed as they are.
  std::string_view archive_root;
  std::int64_t unpacked_bytes = 0;      // of an archive, approximately
  std::span<const KnownFile> contents;  // of an archive, those that are known
  bool approximate = false;             // `bytes` are known to 1 % only

  bool packed() const { return !archive_root.empty(); }
};

/// Returns all sets in the order in which they are listed.
std::span<const DataSet> DataSets();

/// Returns the set of this name. Throws Error(kUsage) with a suggestion if it
/// is unknown.
const DataSet& FindDataSet(const std::string& name);

/// Returns the size of its download.
std::int64_t DownloadBytes(const DataSet& set);

/// Returns the name that `file` is stored under: torchvision's "ARCH-HASH.pth",
/// from which models/data_files.h identifies the network, even if it is
/// published under another name.
std::string PlacedName(const DataSet& set, const KnownFile& file);

/// State of a set on this machine.
enum class SetState {
  kMissing,
  kPartial,    // a fetch was interrupted, or files are missing
  kThere,      // complete, judging by names and sizes
  kGood,       // and every file has its checksum
  kUnchecked,  // complete, but the checksum of some file is not known
  kDamaged
};

/// Returns "missing", "partial", "there", "good", "unchecked" or "damaged".
std::string_view StateName(SetState state);

/// A set as it was found.
struct FoundSet {
  SetState state = SetState::kMissing;
  std::filesystem::path directory;  // of its files; empty if there are none
  std::int64_t files = 0;
  std::int64_t bytes = 0;
  std::string problem;  // for kPartial, kUnchecked and kDamaged

  bool Complete() const {
    return state == SetState::kThere || state == SetState::kGood ||
           state == SetState::kUnchecked;
  }
};

/// A file of a set as it was fetched, by its path within the set's directory.
struct FileSum {
  std::string name;
  std::int64_t bytes = 0;
  std::string sha256;
};

/// Looks for `set` where trials do: in each of the data directories `places`,
/// and in the set's own directory there. Compares names and sizes only.
FoundSet LocateSet(const DataSet& set,
                   std::span<const std::filesystem::path> places);

/// LocateSet, and compares the SHA-256 of every file with the one that was
/// recorded when it was fetched, or else with the published one. Returns
/// nothing if `stop` returned true. Throws Error(kFailed) if a file cannot be
/// read.
std::optional<FoundSet> VerifySet(const DataSet& set,
                                  std::span<const std::filesystem::path> places,
                                  const std::function<bool()>& stop);

/// Records the files that were fetched of `set` into the data directory
/// `place`. Throws Error(kFailed) or Error(kDiskFull) if it cannot be written.
void WriteSetRecord(const DataSet& set, const std::filesystem::path& place,
                    const std::vector<FileSum>& files);

/// Returns the directory of incomplete files of a fetch into `place`.
std::filesystem::path PartialDirectory(const DataSet& set,
                                       const std::filesystem::path& place);

}  // namespace dtrain
