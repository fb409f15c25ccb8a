// The data sets that `dtrain data fetch` knows: addresses, sizes and SHA-256 of
// their files; and finding and verifying them on disk.
//
// A set is found in one of the data directories: under its own directory there,
// or, if its files are published, in the directory itself. What belongs to it
// is what was published or, for archives, what the record of the fetch lists
// (fetch_set.cc). Locate looks at names and sizes only and is fast; VerifySet
// reads every file.

#include "engine/fetch/data_sets.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <system_error>

#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/data/data_directory.h"
#include "engine/fetch/fetch_files.h"
#include "engine/os/files.h"

namespace dtrain {
namespace {

using Address = std::string_view;

constexpr std::array<Address, 2> kMnistAddresses = {
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/"};
constexpr std::array<KnownFile, 4> kMnistFiles = {{
    {"train-images-idx3-ubyte.gz", 9'912'422,
     "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"},
    {"train-labels-idx1-ubyte.gz", 28'881,
     "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"},
    {"t10k-images-idx3-ubyte.gz", 1'648'877,
     "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"},
    {"t10k-labels-idx1-ubyte.gz", 4'542,
     "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"},
}};

constexpr std::array<Address, 2> kFashionAddresses = {
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/"
    "data/fashion/",
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"};
constexpr std::array<KnownFile, 4> kFashionFiles = {{
    {"train-images-idx3-ubyte.gz", 26'421'880,
     "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"},
    {"train-labels-idx1-ubyte.gz", 29'515,
     "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"},
    {"t10k-images-idx3-ubyte.gz", 4'422'102,
     "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"},
    {"t10k-labels-idx1-ubyte.gz", 5'148,
     "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"},
}};

constexpr std::array<Address, 1> kCifar10Addresses = {
    "https://www.cs.toronto.edu/~kriz/"};
constexpr std::array<KnownFile, 1> kCifar10Files = {{
    {"cifar-10-binary.tar.gz", 170'052'171,
     "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"},
}};
constexpr std::array<KnownFile, 6> kCifar10Contents = {{
    {"data_batch_1.bin", 30'730'000,
     "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"},
    {"data_batch_2.bin", 30'730'000,
     "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"},
    {"data_batch_3.bin", 30'730'000,
     "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"},
    {"data_batch_4.bin", 30'730'000,
     "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"},
    {"data_batch_5.bin", 30'730'000,
     "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"},
    {"test_batch.bin", 30'730'000,
     "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"},
}};

constexpr std::array<Address, 1> kHymenopteraAddresses = {
    "https://download.pytorch.org/tutorial/"};
constexpr std::array<KnownFile, 1> kHymenopteraFiles = {{
    {"hymenoptera_data.zip", 47'286'322,
     "fbc41b31d544714d18dd1230b1e2b455e1557766e13e67f9f5a7a23af7c02209"},
}};

// Weights that torchvision calls IMAGENET1K_V1. The file's name has the first
// digits of its SHA-256, with which torch.hub verifies it, too.
constexpr std::array<Address, 1> kWeightAddresses = {
    "https://download.pytorch.org/models/"};
constexpr std::array<KnownFile, 19> kWeights = {{
    {"alexnet-owt-7be5be79.pth", 244'410'000, "7be5be79"},
    {"resnet18-f37072fd.pth", 46'830'000, "f37072fd"},
    {"resnet34-b627a593.pth", 87'320'000, "b627a593"},
    {"resnet50-0676ba61.pth", 102'530'000, "0676ba61"},
    {"resnet101-63fe2227.pth", 178'790'000, "63fe2227"},
    {"resnet152-394f9c45.pth", 241'630'000, "394f9c45"},
    {"resnext50_32x4d-7cdf4587.pth", 100'440'000, "7cdf4587"},
    {"resnext101_32x8d-8ba56ff5.pth", 356'080'000, "8ba56ff5"},
    {"resnext101_64x4d-173b62eb.pth", 334'830'000, "173b62eb"},
    {"vgg11-8a719046.pth", 531'460'000, "8a719046"},
    {"vgg11_bn-6002323d.pth", 531'500'000, "6002323d"},
    {"vgg13-19584684.pth", 532'200'000, "19584684"},
    {"vgg13_bn-abd245e5.pth", 532'250'000, "abd245e5"},
    {"vgg16-397923af.pth", 553'430'000, "397923af"},
    {"vgg16_bn-6c64b313.pth", 553'510'000, "6c64b313"},
    {"vgg19-dcbb9e9d.pth", 574'670'000, "dcbb9e9d"},
    {"vgg19_bn-c79401a0.pth", 574'770'000, "c79401a0"},
    {"wide_resnet50_2-95faca4d.pth", 138'220'000, "95faca4d"},
    {"wide_resnet101_2-32ee1156.pth", 254'690'000, "32ee1156"},
}};

constexpr std::array<DataSet, 4> kImages = {{
    {.name = "mnist",
     .summary = "MNIST: 70,000 handwritten digits",
     .addresses = kMnistAddresses,
     .files = kMnistFiles,
     .directory = "mnist"},
    {.name = "fashion-mnist",
     .summary = "Fashion-MNIST: 70,000 clothes, in MNIST's format",
     .addresses = kFashionAddresses,
     .files = kFashionFiles,
     .directory = "fashion-mnist"},
    {.name = "cifar10",
     .summary = "CIFAR-10: 60,000 photographs of 10 classes",
     .addresses = kCifar10Addresses,
     .files = kCifar10Files,
     .directory = "cifar-10-batches-bin",
     .archive_root = "cifar-10-batches-bin",
     .unpacked_bytes = 184'400'000,
     .contents = kCifar10Contents},
    {.name = "hymenoptera",
     .summary = "ants and bees: 397 photographs in train/ and val/",
     .addresses = kHymenopteraAddresses,
     .files = kHymenopteraFiles,
     .directory = "hymenoptera",
     .archive_root = "hymenoptera_data",
     .unpacked_bytes = 48'000'000},
}};

}  // namespace

std::span<const DataSet> DataSets() {
  static const std::vector<DataSet> sets = [] {
    std::vector<DataSet> all(kImages.begin(), kImages.end());
    for (const KnownFile& file : kWeights) {
      all.push_back({.name = file.name.substr(0, file.name.find('-')),
                     .summary = "weights for 'pretrained: true'",
                     .addresses = kWeightAddresses,
                     .files = std::span(&file, 1),
                     .directory = "pretrained",
                     .approximate = true});
    }
    return all;
  }();
  return sets;
}

const DataSet& FindDataSet(const std::string& name) {
  std::vector<std::string> names;
  for (const DataSet& set : DataSets()) {
    if (set.name == name) return set;
    names.emplace_back(set.name);
  }
  const std::string guess = DidYouMean(name, names);
  throw Error(ErrorKind::kUsage,
              "unknown data set '" + EscapeForTerminal(name) + "'" +
                  (guess.empty() ? "; 'dtrain data list' prints all" : guess));
}

std::int64_t DownloadBytes(const DataSet& set) {
  std::int64_t bytes = 0;
  for (const KnownFile& file : set.files) bytes += file.bytes;
  return bytes;
}

std::string PlacedName(const DataSet& set, const KnownFile& file) {
  if (!set.approximate) return std::string(file.name);
  return std::string(set.name) + "-" + std::string(file.sha256) + ".pth";
}

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::int64_t kAnySize = -1;
constexpr char kFormat[] = "dtrain-data";

fs::path Hidden(const DataSet& set, const fs::path& place, const char* ending) {
  return place / ("." + std::string(set.name) + ending);
}

// Returns the record of a fetch into `place`; empty if it is missing or
// invalid.
std::vector<FileSum> ReadSetRecord(const DataSet& set, const fs::path& place) {
  const auto text = ReadFile(Hidden(set, place, ".fetched"));
  const json record = json::parse(text.value_or(""), nullptr,
                                  /*allow_exceptions=*/false);
  if (!record.is_object() || record.value("format", json()) != kFormat ||
      !record.contains("files") || !record["files"].is_array()) {
    return {};
  }
  std::vector<FileSum> files;
  for (const json& entry : record["files"]) {
    const bool sound = entry.is_object() && entry.contains("name") &&
                       entry["name"].is_string() && entry.contains("bytes") &&
                       entry["bytes"].is_number_integer() &&
                       entry.contains("sha256") && entry["sha256"].is_string();
    if (!sound) return {};
    files.push_back({entry["name"], entry["bytes"], entry["sha256"]});
  }
  return files;
}

// Returns the file that a trial would read for `name`: the plain one if both it
// and the gzipped one exist.
std::optional<fs::path> FileUsed(const fs::path& directory,
                                 const std::string& name) {
  const bool gzip = name.ends_with(".gz");
  return PlainOrGzip(directory /
                     (gzip ? name.substr(0, name.size() - 3) : name));
}

void Report(FoundSet& found, SetState state, const std::string& problem) {
  // Keeps the worst: damaged, then partial, then unchecked.
  const auto rank = [](SetState s) {
    return s == SetState::kDamaged     ? 3
           : s == SetState::kPartial   ? 2
           : s == SetState::kUnchecked ? 1
                                       : 0;
  };
  if (rank(state) <= rank(found.state)) return;
  found.state = state;
  found.problem = problem;
}

void InspectFile(const FileSum& file, FoundSet& found) {
  const auto used = FileUsed(found.directory, file.name);
  if (!used) {
    return Report(found, SetState::kPartial, "'" + file.name + "' is missing");
  }
  std::error_code error;
  const auto bytes = static_cast<std::int64_t>(fs::file_size(*used, error));
  if (!error) found.bytes += bytes;
  ++found.files;
  if (used->filename() != fs::path(file.name).filename()) {
    return Report(
        found, SetState::kUnchecked,
        "the checksum of '" + used->filename().string() + "' is not known");
  }
  if (file.bytes != kAnySize && bytes != file.bytes) {
    Report(found, SetState::kDamaged,
           "'" + file.name + "' has " + std::to_string(bytes) + " bytes, not " +
               std::to_string(file.bytes));
  }
}

// REQUIRES: `files` is not empty.
FoundSet InspectDirectory(const fs::path& directory,
                          const std::vector<FileSum>& files) {
  FoundSet found{.state = SetState::kThere, .directory = directory};
  for (const FileSum& file : files) InspectFile(file, found);
  if (found.files == 0) return {};
  return found;
}

struct Located {
  FoundSet found;
  std::vector<FileSum> files;  // that belong to the set
};

Located LocateIn(const DataSet& set, const fs::path& place) {
  const fs::path own = place / set.directory;
  std::vector<FileSum> published;  // the files that are known without a record
  for (const KnownFile& file : set.packed() ? set.contents : set.files) {
    published.push_back({.name = PlacedName(set, file),
                         .bytes = set.approximate ? kAnySize : file.bytes,
                         .sha256 = std::string(file.sha256)});
  }
  if (!published.empty()) {
    // Incomplete: these may be files of another set with the same names.
    FoundSet found = InspectDirectory(place, published);
    if (found.state == SetState::kThere) return {found, published};
  }
  auto files = ReadSetRecord(set, place);
  if (files.empty()) files = published;
  if (!files.empty()) return {InspectDirectory(own, files), files};
  std::error_code error;
  if (!fs::is_directory(own, error) || fs::is_empty(own, error)) return {};
  return {{.state = SetState::kUnchecked,
           .directory = own,
           .problem = "there is no record of the files that belong to it"},
          {}};
}

Located Locate(const DataSet& set, std::span<const fs::path> places) {
  Located best;
  for (const fs::path& place : places) {
    Located here = LocateIn(set, place);
    if (here.found.Complete()) return here;
    if (best.found.state == SetState::kMissing) best = std::move(here);
  }
  if (best.found.state != SetState::kMissing) return best;
  for (const fs::path& place : places) {
    std::error_code error;
    if (!fs::exists(PartialDirectory(set, place), error)) continue;
    best.found = FoundSet{.state = SetState::kPartial,
                          .problem = "a fetch was interrupted"};
  }
  return best;
}

}  // namespace

std::string_view StateName(SetState state) {
  switch (state) {
    case SetState::kMissing:
      return "missing";
    case SetState::kPartial:
      return "partial";
    case SetState::kThere:
      return "there";
    case SetState::kGood:
      return "good";
    case SetState::kUnchecked:
      return "unchecked";
    case SetState::kDamaged:
      return "damaged";
  }
  return "";
}

FoundSet LocateSet(const DataSet& set, std::span<const fs::path> places) {
  return Locate(set, places).found;
}

std::optional<FoundSet> VerifySet(const DataSet& set,
                                  std::span<const fs::path> places,
                                  const std::function<bool()>& stop) {
  auto [found, files] = Locate(set, places);
  if (found.directory.empty()) return found;
  for (const FileSum& file : files) {
    const auto used = FileUsed(found.directory, file.name);
    if (!used || used->filename() != fs::path(file.name).filename()) continue;
    const auto sha256 = FileSha256(*used, stop);
    if (!sha256) return std::nullopt;
    if (sha256->starts_with(file.sha256)) continue;
    Report(found, SetState::kDamaged,
           "'" + file.name + "' does not match its SHA-256");
  }
  if (found.state == SetState::kThere) found.state = SetState::kGood;
  return found;
}

void WriteSetRecord(const DataSet& set, const fs::path& place,
                    const std::vector<FileSum>& files) {
  json entries = json::array();
  for (const FileSum& file : files) {
    entries.push_back(
        {{"name", file.name}, {"bytes", file.bytes}, {"sha256", file.sha256}});
  }
  const json record = {{"format", kFormat},
                       {"version", 1},
                       {"set", set.name},
                       {"directory", set.directory},
                       {"files", std::move(entries)}};
  const std::string text = record.dump(1) + "\n";
  const fs::path path = Hidden(set, place, ".fetched");
  DurableFile file(path, /*mode=*/0666);
  if (!file || !file.Write(text) || !file.Commit()) FailWriting(path, errno);
}

fs::path PartialDirectory(const DataSet& set, const fs::path& place) {
  return Hidden(set, place, ".partial");
}

}  // namespace dtrain
