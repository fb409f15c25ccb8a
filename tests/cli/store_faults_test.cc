// Stores that are damaged, of others, newer, read-only or on a network.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/store/layout.h"
#include "tests/support/cli_runner.h"
#include "tests/support/mounting.h"
#include "tests/support/sample_store.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

struct Damage {
  const char* name;
  const char* script;  // what is done to dtrain.db
};

void PrintTo(const Damage& damage, std::ostream* out) { *out << damage.name; }

class UnwritableStoreTest : public testing::Test {
 protected:
  UnwritableStoreTest() {
    FillSampleStore(dtrain_.store());
    dtrain_.Write("a.yaml",
                  "entrypoint: builtin:FaultTrial\n"
                  "searcher: {name: single, metric: loss, max_length: 10}\n");
  }
  CliResult Shell(const std::string& script) const {
    return dtrain_.RunProgram({"bash", "-c", script});
  }
  // The main file, and the log of it that has to be played back.
  std::string Bytes() const {
    std::ostringstream bytes;
    for (const char* suffix : {"", "-wal"}) {
      std::ifstream file(layout_.Database().string() + suffix);
      bytes << file.rdbuf();
    }
    return bytes.str();
  }

  CliRunner dtrain_;
  StoreLayout layout_{dtrain_.store()};
};

class DamagedStoreTest : public UnwritableStoreTest,
                         public testing::WithParamInterface<Damage> {};

TEST_P(DamagedStoreTest, IsRefusedUnchangedByEveryCommand) {
  const CliResult damaged =
      Shell(std::string("cd store && ") + GetParam().script);
  ASSERT_EQ(damaged.code, 0) << damaged.err;
  const std::string before = Bytes();

  const CliResult result = Shell(
      "for c in list 'describe 1' 'trials 1' 'metrics 1' 'create a.yaml' "
      "'note 1 x' 'resume 1' 'cancel 2' 'delete 1 --yes' 'gc' 'backup copy.db' "
      "doctor; do dtrain $c >/dev/null 2>err; [ $? = 5 ] || echo \"$c: $?\"; "
      "[ \"$c\" = doctor ] || [ $(wc -l <err) = 1 ] || cat err; done");

  EXPECT_EQ(result.out, "") << result.err;
  EXPECT_EQ(Bytes(), before);
  EXPECT_FALSE(fs::exists(dtrain_.directory() / "copy.db"));
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, DamagedStoreTest,
    testing::Values(
        Damage{"Text", "echo 'this is no database at all' >dtrain.db"},
        Damage{"Truncated", "truncate -s 6000 dtrain.db"},
        Damage{"HeaderZeroed",
               "dd if=/dev/zero of=dtrain.db bs=100 count=1 conv=notrunc "
               "status=none"},
        Damage{"PagesOverwritten",
               "dd if=/dev/urandom of=dtrain.db bs=4096 seek=1 "
               "count=$(($(stat -c %s dtrain.db) / 4096 - 1)) conv=notrunc "
               "status=none"},
        Damage{"NewerSchema", "sqlite3 dtrain.db 'PRAGMA user_version = 999'"},
        Damage{"AnotherApplication",
               "sqlite3 dtrain.db 'PRAGMA application_id = 7'"},
        Damage{"Directory", "rm dtrain.db*; mkdir dtrain.db"}),
    [](const auto& info) { return info.param.name; });

struct LateError {
  const char* name;
  const char* script;   // is run in the directory of the store
  const char* command;  // fails after much of its record has been read
  int code;
  const char* message;
};

void PrintTo(const LateError& error, std::ostream* out) { *out << error.name; }

constexpr const char* kOpenSecret =
    "sqlite3 dtrain.db \"UPDATE experiments SET state = 'PAUSED' WHERE id = 4; "
    "UPDATE experiment_details SET config = json_set(config, "
    "'$.resources.listen', '[0000:0:0:0:0:0:0:1]:45671') WHERE experiment = "
    "4\" && echo 0123456789abcdef0123456789abcdef >secret && chmod 644 secret";

class LateErrorTest : public UnwritableStoreTest,
                      public testing::WithParamInterface<LateError> {};

// GCC 12 frees the text in a nested initializer without a type twice if a later
// initializer throws.
TEST_P(LateErrorTest, EndsWithOneLine) {
  dtrain_.Write("b.yaml",
                "name: b\nentrypoint: 'false'\nmax_restarts: 0\n"
                "searcher: {name: single, metric: loss, max_length: 10}\n");
  ASSERT_EQ(dtrain_.Run({"create", "b.yaml", "-q"}).code, 1);
  const CliResult damaged =
      Shell(std::string("cd store && ") + GetParam().script);
  ASSERT_EQ(damaged.code, 0) << damaged.err;

  const CliResult result = Shell(std::string("dtrain ") + GetParam().command);

  EXPECT_EQ(result.code, GetParam().code) << result.err;
  EXPECT_THAT(result.err, HasSubstr(GetParam().message));
  EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
}

INSTANTIATE_TEST_SUITE_P(
    Commands, LateErrorTest,
    testing::Values(
        LateError{"CompareOfADamagedConfiguration",
                  "sqlite3 dtrain.db \"UPDATE experiment_details SET config = "
                  "'{}' WHERE experiment = 1\"",
                  "compare 1 3", 5, "damaged"},
        LateError{"ResumeWithALongHost", kOpenSecret, "resume 4", 2,
                  "chmod 600"},
        LateError{"CreateWithALongHost", kOpenSecret,
                  "create b.yaml --set "
                  "'resources.listen=\"[0000:0:0:0:0:0:0:1]:45671\"'",
                  2, "chmod 600"}),
    [](const auto& info) { return info.param.name; });

class UnreadableConfigurationTest
    : public UnwritableStoreTest,
      public testing::WithParamInterface<const char*> {};

// Commands that need nothing of a configuration but the unit of its lengths.
TEST_P(UnreadableConfigurationTest, HidesNothingElse) {
  const CliResult damaged = Shell(
      "sqlite3 store/dtrain.db \"UPDATE experiment_details SET config = '{}' "
      "WHERE experiment = 1\"");
  ASSERT_EQ(damaged.code, 0) << damaged.err;

  const CliResult result = Shell(
      "id=$(sqlite3 store/dtrain.db 'SELECT c.uuid FROM checkpoints c "
      "JOIN trials t ON t.id = c.trial WHERE t.experiment = 1'); dtrain " +
      std::string(GetParam()) + " --json");

  EXPECT_THAT(result.err, Not(HasSubstr("configuration")));
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("\"length\": "), HasSubstr("\"unit\": null")));
}

INSTANTIATE_TEST_SUITE_P(
    Commands, UnreadableConfigurationTest,
    testing::Values("list", "wait 1", "checkpoint verify",
                    "checkpoint show ${id%%[[:space:]]*}"));

// The copy of the old database, and the new one, are longer than the limit.
TEST_F(UnwritableStoreTest, ALimitOnFileSizesIsAnErrorOfAMigration) {
  const CliResult result = Shell(
      "mkdir -m 700 old; sqlite3 old/dtrain.db <" DTRAIN_GOLDEN_DIR
      "/store_version1.sql >/dev/null; export DTRAIN_STORE=$PWD/old; sum() { "
      "dtrain list --csv | sha256sum; }; before=$(sum); (ulimit -f 8; dtrain "
      "note 1 x); echo $?; [ \"$before\" = \"$(sum)\" ] && dtrain note 1 x; "
      "echo $?");
  EXPECT_EQ(result.out, "5\n0\n") << result.err;
  EXPECT_THAT(result.err, Not(HasSubstr("bug of dtrain")));
}

TEST_F(UnwritableStoreTest, IgnoresGarbageInPlaceOfTheLog) {
  std::ofstream(layout_.Database().string() + "-wal") << std::string(9000, 'x');
  EXPECT_EQ(dtrain_.Run({"list", "--json"}).Json().at("experiments").size(), 3);
  EXPECT_EQ(dtrain_.Run({"note", "1", "x"}).code, 0);
  EXPECT_THAT(dtrain_.Run({"doctor"}).out, HasSubstr("passes integrity_check"));
}

TEST_F(UnwritableStoreTest, ReadsAnotherUsersStoreIfPermitted) {
  if (geteuid() != 0) GTEST_SKIP() << "only root may become another user";
  const CliResult result = Shell(
      "nobody() { setpriv --reuid=65534 --regid=65534 --clear-groups dtrain "
      "\"$@\"; }; chmod 755 .; nobody list 2>err; echo closed $?; cat err; "
      "chmod -R a+rX store; rm -f store/*-shm; nobody list --csv; echo open "
      "$?; nobody note 1 x; echo write $?; nobody create a.yaml; echo create "
      "$?; nobody logs 1; echo logs $?");
  EXPECT_THAT(result.out, HasSubstr("closed 5\n"));
  EXPECT_THAT(result.out, HasSubstr("check its permissions"));
  EXPECT_THAT(result.out, HasSubstr("1,alpha,COMPLETED"));
  EXPECT_THAT(result.out, HasSubstr("open 0\n"));
  EXPECT_THAT(result.out, HasSubstr("write 5\n"));
  EXPECT_THAT(result.out, HasSubstr("create 5\n"));
  EXPECT_THAT(result.out, HasSubstr("logs 0\n"));
}

// The copy that is kept of the old database finds no room.
TEST_F(UnwritableStoreTest, ReadsAnOlderStoreOnAFullDiskWithoutMigration) {
  SKIP_WHERE_MOUNTING_IS_FORBIDDEN(dtrain_);
  const std::string disk = (dtrain_.directory() / "disk").string();
  const std::string script =
      "mkdir disk; mount -t tmpfs -o size=300k tmpfs disk; mkdir -m 700 "
      "disk/store; sqlite3 disk/store/dtrain.db "
      "<" DTRAIN_GOLDEN_DIR
      "/store_version1.sql >/dev/null; cat /dev/zero "
      ">disk/ballast 2>/dev/null; export DTRAIN_STORE=" +
      disk +
      "/store; sum=$(sha256sum <disk/store/dtrain.db); dtrain list --csv; echo "
      "list $?; dtrain note 1 x; echo note $?; [ \"$sum\" = \"$(sha256sum "
      "<disk/store/dtrain.db)\" ] && echo same; rm disk/ballast; ls "
      "disk/store";
  const CliResult result = RunInOwnMounts(dtrain_, script);
  EXPECT_THAT(result.out, HasSubstr("list 0\n"));
  EXPECT_THAT(result.out, HasSubstr("note 5\n"));
  EXPECT_THAT(result.err, HasSubstr("free some space"));
  EXPECT_THAT(result.out, HasSubstr("same\n"));
  EXPECT_THAT(result.out, Not(HasSubstr(".tmp")));
}

// Stores on network file systems, made up by a statfs that lies.

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
  std::string ReadNote() const {
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
  EXPECT_NE(ReadNote(), "a new one");
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
  EXPECT_EQ(ReadNote(), "A");
  EXPECT_EQ(
      RunOn(kNfs, {"note", "1", "B"}, {{"DTRAIN_ALLOW_NETWORK_FS", "1"}}).code,
      0);
  EXPECT_EQ(ReadNote(), "B");
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
