#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace dtrain {

/// A file of known contents.
struct KnownFile {
  std::string_view name;
  std::int64_t bytes = 0;
  std::string_view sha256;  // in hex; of published weights only its beginning
};

/// A file of a set as it was fetched, by its path within the set's directory.
struct FileSum {
  std::string name;
  std::int64_t bytes = 0;
  std::string sha256;
};

/// Something that `dtrain data fetch` gets from a public address.
struct DataSet {
  std::string_view name;
  std::string_view summary;
  // Directories, each with "/" at its end, that have all of `files`.
  std::span<const std::string_view> addresses;
  std::span<const KnownFile> files;  // as they are downloaded
  std::string_view directory;        // of the set in the data directory
  // The directory in the archive which becomes `directory`; empty: `files` are
  // no archives and are put there as they are.
  std::string_view archive_root;
  std::int64_t unpacked_bytes = 0;      // of an archive, about
  std::span<const KnownFile> contents;  // of an archive, as far as known
  bool approximate = false;             // `bytes` are known to a hundredth only

  bool packed() const { return !archive_root.empty(); }
};

/// All there are, in the order in which they are listed.
std::span<const DataSet> DataSets();

/// The set of this name. Throws Error(kUsage) with a suggestion if there is
/// none.
const DataSet& FindDataSet(const std::string& name);

/// What has to be downloaded for it.
std::int64_t DownloadBytes(const DataSet& set);

/// The name under which `file` is put: torchvision's "ARCH-HASH.pth", from
/// which models/imagenet_files.h tells the network, also where it is
/// published under another.
std::string PlacedName(const DataSet& set, const KnownFile& file);

}  // namespace dtrain
