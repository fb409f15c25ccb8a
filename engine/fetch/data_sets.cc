#include "engine/fetch/data_sets.h"

#include <algorithm>
#include <array>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/text.h"

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

// The weights that torchvision calls IMAGENET1K_V1. What stands in a file's
// name is the beginning of its SHA-256, by which torch.hub checks it, too.
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

std::vector<DataSet> MakeDataSets() {
  std::vector<DataSet> sets(kImages.begin(), kImages.end());
  for (const KnownFile& file : kWeights) {
    sets.push_back({.name = file.name.substr(0, file.name.find('-')),
                    .summary = "weights for 'pretrained: true'",
                    .addresses = kWeightAddresses,
                    .files = std::span(&file, 1),
                    .directory = "pretrained",
                    .approximate = true});
  }
  return sets;
}

}  // namespace

std::span<const DataSet> DataSets() {
  static const std::vector<DataSet> sets = MakeDataSets();
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
              "no data set '" + EscapeForTerminal(name) + "' is known" +
                  (guess.empty() ? "; 'dtrain data list' shows those that are"
                                 : guess));
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

}  // namespace dtrain
