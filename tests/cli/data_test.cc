// data fetch, list and verify; what a fetch itself does, fetch_test says.

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cli_runner.h"
#include "tests/support/http_server.h"
#include "tests/support/mounting.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class DataTest : public testing::Test {
 protected:
  // Default directory.
  fs::path Cache() const { return dtrain_.directory() / "cache/dtrain/data"; }
  void Touch(const fs::path& file, const std::string& text) const {
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  // Writes files of the real sizes with other contents.
  void FakeMnist() const {
    const fs::path mnist = Cache() / "mnist";
    Touch(mnist / "train-images-idx3-ubyte.gz", std::string(9'912'422, 'x'));
    Touch(mnist / "train-labels-idx1-ubyte.gz", std::string(28'881, 'x'));
    Touch(mnist / "t10k-images-idx3-ubyte.gz", std::string(1'648'877, 'x'));
    Touch(mnist / "t10k-labels-idx1-ubyte.gz", std::string(4'542, 'x'));
  }
  json Row(const std::string& name) const {
    const json document = dtrain_.Run({"data", "list", "--json"}).Json();
    for (const json& row : document["sets"]) {
      if (row["name"] == name) return row;
    }
    return nullptr;
  }

  const CliRunner dtrain_;
};

// Fetches that succeed, from a mirror on this machine. Weights are recognised
// by the first 8 digits of their SHA-256, so a small file can have the digits
// of ResNet-50's: the number at its end was searched for.
class DataMirrorTest : public DataTest {
 protected:
  CliResult Fetch(const HttpServer& mirror) const {
    return dtrain_.Run(
        {"data", "fetch", "resnet50", "--from", mirror.address()});
  }
  HttpServer::Handler Honest() const {
    return [this](const HttpRequest& request) {
      if (request.path == "/resnet50-0676ba61.pth")
        return Serve(weights_, request);
      return HttpAnswer{.status = "404 Not Found"};
    };
  }
  std::string Placed() const {
    std::ifstream file(file_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const std::string weights_ = std::string(4032, 'w') + "0078511997";
  const fs::path directory_ = Cache() / "pretrained";
  const fs::path file_ = directory_ / "resnet50-0676ba61.pth";
};

struct DataMisuse {
  std::vector<std::string> arguments;
  std::string message;
};

class DataMisuseTest : public testing::TestWithParam<DataMisuse> {};

TEST_P(DataMisuseTest, IsRefusedInOneLine) {
  const CliRunner dtrain;
  const CliResult result = dtrain.Run(GetParam().arguments);
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr(GetParam().message));
  EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
  EXPECT_FALSE(fs::exists(dtrain.directory() / "cache"));
}

INSTANTIATE_TEST_SUITE_P(
    Words, DataMisuseTest,
    testing::Values(
        DataMisuse{{"data"}, "fetch, list or verify"},
        DataMisuse{{"data", "get"}, "available: fetch, list, verify"},
        DataMisuse{{"data", "fetch"}, "data fetch: NAME is required"},
        DataMisuse{{"data", "fetch", "mnsit"}, "did you mean 'mnist'?"},
        DataMisuse{{"data", "fetch", "mnist", "svhn"},
                   "unknown data set 'svhn'"},
        DataMisuse{{"data", "verify", "cifar-10"}, "did you mean 'cifar10'?"},
        DataMisuse{{"data", "fetch", "mnist", "--from", "no/such"},
                   "--from: 'no/such' does not exist"},
        DataMisuse{{"data", "fetch", "mnist", "--from", "ftp://host/x"},
                   "give http, https or file"},
        DataMisuse{{"data", "fetch", "mnist", "--from", "http://"},
                   "is not a valid address"}));

TEST_F(DataTest, ReportsThatThereIsNoDataDirectory) {
  const CliResult result = dtrain_.RunProgram(
      {"env", "-u", "HOME", "-u", "XDG_CACHE_HOME", "dtrain", "data", "list"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("neither DTRAIN_DATA nor HOME is set"));
}

TEST_F(DataTest, NamesTheFailedAddressAndAlternatives) {
  const CliResult result = dtrain_.Run(
      {"data", "fetch", "mnist", "--from", "http://127.0.0.1:1/mirror"});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(
      result.err,
      AllOf(HasSubstr("http://127.0.0.1:1/mirror/train-images-idx3-ubyte.gz: "
                      "Failed to connect"),
            HasSubstr("--from")));
}

TEST_F(DataTest, NamesTheUnwritableDirectory) {
  dtrain_.Write("file", "in the way");
  const CliResult result = dtrain_.Run(
      {"data", "fetch", "mnist", "--to", "file/data", "--from", "."});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("file/data: cannot be written: "),
                                HasSubstr("--to")));
}

TEST_F(DataTest, RefusesAMirrorWithOtherFiles) {
  Touch(dtrain_.directory() / "mirror/train-images-idx3-ubyte.gz", "short");
  const CliResult result =
      dtrain_.Run({"data", "fetch", "mnist", "--from", "mirror"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("of 5 bytes, not 9912422"));
  EXPECT_FALSE(fs::exists(Cache() / "mnist"));
}

TEST_F(DataTest, DownloadsNothingWithoutEnoughSpace) {
  SKIP_WHERE_MOUNTING_IS_FORBIDDEN(dtrain_);
  const CliResult result = RunInOwnMounts(
      dtrain_,
      "mkdir disk && mount -t tmpfs -o size=4m tmpfs disk\n"
      "dtrain data fetch mnist --to disk --from .; echo \"code $?\"; ls disk");
  EXPECT_EQ(result.out, "code 5\n");
  EXPECT_THAT(result.err, AllOf(HasSubstr("disk: needs 11.6 MB, only 4."),
                                HasSubstr("free some space")));
}

// Until the server's failure is waited for: then it is told to stop.
TEST_F(DataTest, KeepsThePartialDownloadOnCtrlC) {
  const HttpServer server([](const HttpRequest&) {
    return HttpAnswer{
        .body = std::string(50'000, 'w'), .length = 46'830'000, .send = 50'000};
  });
  const CliResult result =
      dtrain_.Run({"data", "fetch", "resnet18", "--from", server.address()},
                  {.signal_when = "trying again"});
  EXPECT_EQ(result.code, 130) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err,
              HasSubstr("resnet18: interrupted; the partial download is kept, "
                        "run the same command again to resume\n"));
  EXPECT_EQ(
      fs::file_size(Cache() / ".resnet18.partial/resnet18-f37072fd.pth.part"),
      50'000);
  EXPECT_EQ(Row("resnet18")["state"], "partial");
}

TEST_F(DataTest, PrintsNoProgressWithQuiet) {
  std::atomic<int> calls{0};
  const HttpServer server([&](const HttpRequest&) {
    return HttpAnswer{.status = calls++ == 0 ? "503 Later" : "404 No"};
  });
  const CliResult result = dtrain_.Run(
      {"-q", "data", "fetch", "resnet18", "--from", server.address()});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, StartsWith("dtrain: error: resnet18: "));
  EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
}

TEST_F(DataTest, ListsDataSets) {
  EXPECT_EQ(Row("cifar10"),
            json({{"name", "cifar10"},
                  {"summary", "CIFAR-10: 60,000 photographs of 10 classes"},
                  {"bytes", 170'052'171},
                  {"state", "missing"},
                  {"directory", nullptr}}));
  const CliResult text = dtrain_.Run({"data", "list"});
  EXPECT_EQ(text.code, 0);
  EXPECT_THAT(text.out, AllOf(HasSubstr("mnist"), HasSubstr("11.6 MB"),
                              HasSubstr("resnet18")));
  EXPECT_FALSE(fs::exists(Cache()));
}

TEST_F(DataTest, ListsTheDirectoryOfASet) {
  FakeMnist();
  EXPECT_EQ(Row("mnist")["state"], "there");
  EXPECT_EQ(Row("mnist")["directory"], (Cache() / "mnist").string());
  const json elsewhere =
      dtrain_.Run({"data", "list", "--to", "~/other", "--json"}).Json();
  EXPECT_EQ(elsewhere["sets"][0]["state"], "missing");
}

TEST_F(DataTest, VerifiesAnEmptyDirectory) {
  const CliResult all = dtrain_.Run({"data", "verify", "--json"});
  EXPECT_EQ(all.code, 0);
  EXPECT_EQ(all.Json()["sets"], json::array());
  const CliResult named = dtrain_.Run({"data", "verify", "mnist"});
  EXPECT_EQ(named.code, 3);
  EXPECT_THAT(named.err, HasSubstr("'dtrain data fetch mnist' downloads it"));
}

TEST_F(DataTest, VerifyFindsDamageOnlyByReading) {
  FakeMnist();
  const CliResult result = dtrain_.Run({"data", "verify", "--json"});
  EXPECT_EQ(result.code, 1);
  const json row = result.Json()["sets"][0];
  EXPECT_EQ(row["state"], "damaged");
  EXPECT_EQ(row["files"], 4);
  EXPECT_THAT(row["problem"].get<std::string>(),
              HasSubstr("does not match its SHA-256"));
  EXPECT_THAT(result.err,
              HasSubstr("1 of 1 sets are damaged or incomplete; 'dtrain data "
                        "fetch mnist' repairs the first"));
}

TEST_F(DataMirrorTest, FetchesVerifiesAndKeepsValidFiles) {
  const HttpServer mirror(Honest());
  const CliResult first = Fetch(mirror);
  EXPECT_EQ(first.code, 0);
  EXPECT_EQ(first.out, "resnet50: downloaded to " + directory_.string() +
                           " (1 file, 4.0 kB)\n");
  EXPECT_EQ(first.err, "");
  EXPECT_EQ(Placed(), weights_);
  EXPECT_FALSE(fs::exists(Cache() / ".resnet50.partial"));
  EXPECT_EQ(mirror.Requests().size(), 1);

  const CliResult second = Fetch(mirror);
  EXPECT_EQ(second.code, 0);
  EXPECT_EQ(second.out, "resnet50: already present in " + directory_.string() +
                            " (1 file, 4.0 kB)\n");
  EXPECT_EQ(mirror.Requests().size(), 1);

  const CliResult verified =
      dtrain_.Run({"data", "verify", "resnet50", "--json"});
  EXPECT_EQ(verified.code, 0);
  EXPECT_EQ(verified.Json()["sets"][0]["state"], "good");
}

TEST_F(DataMirrorTest, PrintsJson) {
  const HttpServer mirror(Honest());
  const CliResult result = dtrain_.Run(
      {"data", "fetch", "resnet50", "--from", mirror.address(), "--json"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.Json()["sets"], json({{{"name", "resnet50"},
                                          {"directory", directory_.string()},
                                          {"fetched", true},
                                          {"files", 1},
                                          {"bytes", 4042}}}));
}

TEST_F(DataMirrorTest, ResumesAnInterruptedDownload) {
  const HttpServer mirror([this](const HttpRequest& request) {
    HttpAnswer answer = Serve(weights_, request);
    if (request.from < 0) answer.send = 1000;
    return answer;
  });
  const CliResult result = Fetch(mirror);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("; trying again\n"));
  EXPECT_EQ(Placed(), weights_);
  ASSERT_EQ(mirror.Requests().size(), 2);
  EXPECT_EQ(mirror.Requests()[1].from, 1000);
}

TEST_F(DataMirrorTest, ResumesAfterCtrlC) {
  const HttpServer broken([this](const HttpRequest&) {
    return HttpAnswer{.body = weights_, .send = 1000};
  });
  const CliResult stopped =
      dtrain_.Run({"data", "fetch", "resnet50", "--from", broken.address()},
                  {.signal_when = "trying again"});
  EXPECT_EQ(stopped.code, 130) << stopped.err;

  const HttpServer mirror(Honest());
  EXPECT_EQ(Fetch(mirror).code, 0);
  EXPECT_EQ(Placed(), weights_);
  ASSERT_EQ(mirror.Requests().size(), 1);
  EXPECT_EQ(mirror.Requests()[0].from, 1000);
}

TEST_F(DataMirrorTest, RefusesAFileWithAnotherChecksum) {
  const HttpServer mirror([this](const HttpRequest& request) {
    std::string other = weights_;
    other.back() = '8';
    return Serve(other, request);
  });
  const CliResult result = Fetch(mirror);
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err,
              AllOf(StartsWith("dtrain: error: resnet50: "),
                    HasSubstr(mirror.address() +
                              "/resnet50-0676ba61.pth: it has a different "
                              "file: the SHA-256 begins with "),
                    HasSubstr(", not with 0676ba61"), HasSubstr("--from")));
  EXPECT_FALSE(fs::exists(directory_));
  EXPECT_EQ(Row("resnet50")["state"], "missing");
}

TEST_F(DataMirrorTest, ReplacesADamagedFile) {
  const HttpServer mirror(Honest());
  EXPECT_EQ(Fetch(mirror).code, 0);
  Touch(file_, std::string(4042, 'x'));
  const CliResult mended = Fetch(mirror);
  EXPECT_EQ(mended.code, 0);
  EXPECT_THAT(mended.err, HasSubstr("fetching it again"));
  EXPECT_THAT(mended.out, StartsWith("resnet50: downloaded to "));
  EXPECT_EQ(Placed(), weights_);
}

// With the real files: in $DTRAIN_DATA of who runs the tests.
TEST_F(DataTest, FetchesVerifiesAndRepairsMnist) {
  const char* data = std::getenv("DTRAIN_DATA");
  if (data == nullptr || !fs::exists(fs::path(data) / "mnist")) {
    GTEST_SKIP() << "no mnist in DTRAIN_DATA";
  }
  const std::vector<std::string> fetch = {"data", "fetch", "mnist", "--from",
                                          data};
  const CliResult first = dtrain_.Run(fetch);
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(first.out, "mnist: downloaded to " + (Cache() / "mnist").string() +
                           " (4 files, 11.6 MB)\n");
  EXPECT_EQ(first.err, "");
  EXPECT_THAT(dtrain_.Run(fetch).out, StartsWith("mnist: already present"));
  EXPECT_EQ(dtrain_.Run({"data", "verify", "mnist"}).code, 0);
  FakeMnist();
  const CliResult mended = dtrain_.Run(fetch);
  EXPECT_THAT(mended.err, HasSubstr("fetching it again"));
  EXPECT_THAT(mended.out, StartsWith("mnist: downloaded to "));
  EXPECT_EQ(dtrain_.Run({"data", "verify"}).code, 0);
}

}  // namespace
}  // namespace dtrain
