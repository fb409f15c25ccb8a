// Stores that are damaged, of others, newer, or not to be written to.

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

}  // namespace
}  // namespace dtrain
