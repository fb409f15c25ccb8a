// Stores on network file systems, made up by a statfs that lies.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cli_runner.h"
#include "tests/support/sample_store.h"

namespace dtrain {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr char kNfs[] = "0x6969";
constexpr char kFuse[] = "0x65735546";

class NetworkStoreTest : public testing::Test {
 protected:
  NetworkStoreTest() { FillSampleStore(dtrain_.store()); }

  CliResult RunOn(const std::string& type,
                  const std::vector<std::string>& arguments,
                  std::map<std::string, std::string> environment = {}) const {
    environment["LD_PRELOAD"] = DTRAIN_PRELOAD;
    environment["FAKE_STATFS_DIR"] = dtrain_.directory().string();
    environment["FAKE_STATFS_TYPE"] = type;
    // Or the address sanitizer wants to be the first library itself.
    environment["ASAN_OPTIONS"] = "verify_asan_link_order=0";
    return dtrain_.Run(arguments, {.environment = environment});
  }
  std::string Note() const {
    return dtrain_.Run({"describe", "1", "--json"}).Json().at("note");
  }

  CliRunner dtrain_;
};

struct Network {
  const char* type;  // as in linux/magic.h and the file systems' own headers
  const char* name;
};

class NetworkTypeTest : public NetworkStoreTest,
                        public testing::WithParamInterface<Network> {};

TEST_P(NetworkTypeTest, IsRefusedByName) {
  const CliResult result = RunOn(GetParam().type, {"note", "1", "a new one"});
  EXPECT_EQ(result.code, 5);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("is on " + std::string(GetParam().name) + ","),
                    HasSubstr("--allow-network-fs")));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1);
  EXPECT_NE(Note(), "a new one");
}

INSTANTIATE_TEST_SUITE_P(
    Types, NetworkTypeTest,
    testing::Values(
        Network{"0x6969", "NFS"}, Network{"0x517b", "SMB"},
        Network{"0xff534d42", "CIFS"}, Network{"0xfe534d42", "SMB2"},
        Network{"0x0bd00bd0", "Lustre"}, Network{"0x47504653", "GPFS"},
        Network{"0x19830326", "BeeGFS"}, Network{"0x00c36400", "CephFS"},
        Network{"0x5346414f", "AFS"}, Network{"0x6b414653", "AFS"},
        Network{"0x01021997", "9p"}),
    [](const auto& info) {
      return std::string(info.param.name) + std::string(info.param.type);
    });

TEST_F(NetworkStoreTest, IsNotCreated) {
  dtrain_.Write("a.yaml",
                "entrypoint: builtin:FaultTrial\n"
                "searcher: {name: single, metric: loss, max_length: 10}\n");
  const auto store = dtrain_.directory() / "new";
  const CliResult result = RunOn(kNfs, {"--store", store, "create", "a.yaml"});
  EXPECT_EQ(result.code, 5) << result.err;
  EXPECT_FALSE(std::filesystem::exists(store));
}

TEST_F(NetworkStoreTest, IsRead) {
  const CliResult list = RunOn(kNfs, {"list", "--json"});
  EXPECT_EQ(list.code, 0) << list.err;
  EXPECT_EQ(list.Json().at("experiments").size(), 3);
  EXPECT_EQ(list.err, "");
  EXPECT_EQ(RunOn(kNfs, {"logs", "1"}).code, 0);
}

TEST_F(NetworkStoreTest, IsWrittenIfAllowed) {
  EXPECT_EQ(RunOn(kNfs, {"--allow-network-fs", "note", "1", "A"}).code, 0);
  EXPECT_EQ(Note(), "A");
  EXPECT_EQ(
      RunOn(kNfs, {"note", "1", "B"}, {{"DTRAIN_ALLOW_NETWORK_FS", "1"}}).code,
      0);
  EXPECT_EQ(Note(), "B");
  EXPECT_EQ(
      RunOn(kNfs, {"note", "1", "C"}, {{"DTRAIN_ALLOW_NETWORK_FS", "0"}}).code,
      5);
}

TEST_F(NetworkStoreTest, WarnsOfFuse) {
  const CliResult result = RunOn(kFuse, {"-q", "note", "1", "A"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(RunOn(kFuse, {"note", "1", "A"}).err,
              HasSubstr("is on FUSE; if that is a network"));
  EXPECT_THAT(RunOn(kFuse, {"--allow-network-fs", "note", "1", "A"}).err,
              Not(HasSubstr("FUSE")));
  EXPECT_EQ(RunOn(kFuse, {"list"}).err, "");
}

class LocalTypeTest : public NetworkStoreTest,
                      public testing::WithParamInterface<const char*> {};

TEST_P(LocalTypeTest, IsAccepted) {
  const CliResult result = RunOn(GetParam(), {"label", "1", "--add", "A"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.err, "");
}

// overlayfs, tmpfs, ext4, btrfs
INSTANTIATE_TEST_SUITE_P(Types, LocalTypeTest,
                         testing::Values("0x794c7630", "0x01021994", "0xef53",
                                         "0x9123683e"));

TEST_F(NetworkStoreTest, DoctorReportsIt) {
  const CliResult result = RunOn(kNfs, {"doctor"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, HasSubstr("is on NFS, where writers on two machines"
                                    " damage a database"));
  EXPECT_THAT(RunOn(kFuse, {"doctor"}).out, HasSubstr("is on FUSE"));
  EXPECT_THAT(RunOn("0xef53", {"doctor"}).out, Not(HasSubstr("store: is on")));
}

}  // namespace
}  // namespace dtrain
