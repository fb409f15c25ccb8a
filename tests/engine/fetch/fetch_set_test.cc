#include "engine/fetch/fetch_set.h"

#include <array>
#include <atomic>
#include <csignal>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/error.h"
#include "engine/fetch/address.h"
#include "tests/engine/fetch/fetch_support.h"
#include "tests/support/archive_file.h"
#include "tests/support/http_server.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

class FetchSetTest : public testing::Test {
 protected:
  FetchOptions Options(const std::string& from) {
    return {.places = {place_},
            .from = from,
            .patience = kShortPatience,
            .say = [this](const std::string& text) { said_ += text + "\n"; }};
  }
  HttpAnswer Answer(const HttpRequest& request) const {
    if (request.path == "/images.gz") return Serve(made_up_.images, request);
    if (request.path == "/labels.gz") return Serve(made_up_.labels, request);
    return {.status = "404 Not Found"};
  }
  HttpServer::Handler Honest() const {
    return [this](const HttpRequest& request) { return Answer(request); };
  }
  void ExpectWhole() const {
    EXPECT_EQ(ReadText(place_ / "made/images.gz"), made_up_.images);
    EXPECT_EQ(ReadText(place_ / "made/labels.gz"), made_up_.labels);
    EXPECT_FALSE(fs::exists(partial_));
    EXPECT_EQ(VerifySet(made_up_.set, {{place_}}, nullptr)->state,
              SetState::kGood);
  }

  const TemporaryDirectory directory_;
  const fs::path place_ = directory_.path() / "data";
  const fs::path partial_ = place_ / ".made-up.partial";
  const MadeUpSet made_up_;
  std::string said_;
};

TEST_F(FetchSetTest, NamesSetFileAndAddressOfAFailure) {
  const HttpServer server(
      [](const HttpRequest&) { return HttpAnswer{.status = "403 No"}; });
  EXPECT_THAT(
      [&] { FetchSet(made_up_.set, Options(server.address())); },
      ThrowsMessage<Error>(
          AllOf(HasSubstr("made-up: images.gz: cannot be downloaded: "),
                HasSubstr(server.address() + "/images.gz: the server"),
                HasSubstr(server.address() + "/made/images.gz: the server"))));
  EXPECT_FALSE(fs::exists(place_ / "made"));
  EXPECT_FALSE(fs::exists(partial_));
}

TEST_F(FetchSetTest, UsesThePublicAddressesByDefault) {
  EXPECT_THAT([&] { FetchSet(made_up_.set, Options("")); },
              ThrowsMessage<Error>(HasSubstr("http://127.0.0.1:1/images.gz")));
}

TEST_F(FetchSetTest, PlacesNothingUntilAllFilesAreComplete) {
  const HttpServer server([this](const HttpRequest& request) {
    if (request.path != "/images.gz") return HttpAnswer{.status = "404 No"};
    return Answer(request);
  });
  EXPECT_THROW(FetchSet(made_up_.set, Options(server.address())), Error);
  EXPECT_FALSE(fs::exists(place_ / "made"));
  const HttpServer other(Honest());
  FetchSet(made_up_.set, Options(other.address()));
  ExpectWhole();
  // The first file is not requested again.
  ASSERT_EQ(other.Requests().size(), 1);
  EXPECT_EQ(other.Requests()[0].path, "/labels.gz");
}

TEST_F(FetchSetTest, Fetches) {
  const HttpServer server(Honest());
  const FetchResult result = FetchSet(made_up_.set, Options(server.address()));
  EXPECT_EQ(result.end, FetchResult::End::kFetched);
  EXPECT_EQ(result.found.directory, place_ / "made");
  EXPECT_EQ(result.found.bytes, 150'010);
  ExpectWhole();
}

TEST_F(FetchSetTest, FetchesFromADirectoryOrItsChild) {
  const fs::path mirror = directory_.path() / "mirror";
  WriteText(mirror / "made/images.gz", made_up_.images);
  WriteText(mirror / "labels.gz", made_up_.labels);
  FetchSet(made_up_.set, Options(FileAddress(mirror)));
  ExpectWhole();
}

TEST_F(FetchSetTest, KeepsExistingFiles) {
  const HttpServer server(Honest());
  FetchSet(made_up_.set, Options(server.address()));
  const FetchResult again = FetchSet(made_up_.set, Options(server.address()));
  EXPECT_EQ(again.end, FetchResult::End::kThere);
  EXPECT_EQ(again.found.directory, place_ / "made");
  EXPECT_EQ(server.Requests().size(), 2);
  FetchOptions options = Options(server.address());
  options.force = true;
  EXPECT_EQ(FetchSet(made_up_.set, options).end, FetchResult::End::kFetched);
  EXPECT_EQ(server.Requests().size(), 4);
  ExpectWhole();
}

TEST_F(FetchSetTest, ReplacesDamagedFilesAndKeepsForeignOnes) {
  WriteText(place_ / "made/images.gz", made_up_.images);
  WriteText(place_ / "made/labels.gz", "9999999999");
  WriteText(place_ / "made/notes.txt", "mine");
  const HttpServer server(Honest());
  FetchSet(made_up_.set, Options(server.address()));
  ExpectWhole();
  EXPECT_EQ(ReadText(place_ / "made/notes.txt"), "mine");
  EXPECT_THAT(said_,
              HasSubstr("does not match its SHA-256; fetching it again"));
}

TEST_F(FetchSetTest, StopsAndResumes) {
  {
    const HttpServer slow([this](const HttpRequest& request) {
      HttpAnswer answer = Answer(request);
      answer.trickle = milliseconds(20);
      return answer;
    });
    std::atomic<bool> came{false};
    FetchOptions options = Options(slow.address());
    options.progress = [&](const FetchProgress& progress) {
      came = progress.bytes > 0;
    };
    options.stop = [&] { return came.load(); };
    EXPECT_EQ(FetchSet(made_up_.set, options).end, FetchResult::End::kStopped);
  }
  EXPECT_EQ(LocateSet(made_up_.set, {{place_}}).state, SetState::kPartial);
  const HttpServer server(Honest());
  FetchSet(made_up_.set, Options(server.address()));
  ExpectWhole();
  EXPECT_GT(server.Requests()[0].from, 0);
}

TEST_F(FetchSetTest, ConcurrentFetchesDownloadOnce) {
  // The first is not answered before the second waits for it.
  std::atomic<bool> waits{false};
  const HttpServer server([&](const HttpRequest& request) {
    for (int i = 0; i < 60'000 && !waits; ++i) {
      std::this_thread::sleep_for(milliseconds(1));
    }
    return Answer(request);
  });
  std::array<FetchResult::End, 2> ends{};
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < 2; ++i) {
      threads.emplace_back([&, i] {
        FetchOptions options = Options(server.address());
        options.say = [&](const std::string& text) {
          if (text.find("another dtrain is fetching it") != text.npos)
            waits = true;
        };
        ends[i] = FetchSet(made_up_.set, options).end;
      });
    }
  }
  std::ranges::sort(ends);
  EXPECT_EQ(ends[0], FetchResult::End::kFetched);
  EXPECT_EQ(ends[1], FetchResult::End::kThere);
  EXPECT_TRUE(waits);
  EXPECT_EQ(server.Requests().size(), 2);
  ExpectWhole();
}

// The child is forked before the server starts threads; a pipe passes the
// server's address.
TEST_F(FetchSetTest, ResumesAfterItWasKilled) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    std::array<char, 100> address{};
    if (::read(ends[0], address.data(), address.size() - 1) <= 0) ::_exit(1);
    FetchSet(made_up_.set, Options(address.data()));
    ::_exit(0);
  }
  const HttpServer server([this](const HttpRequest& request) {
    HttpAnswer answer = Answer(request);
    if (request.from < 0) answer.trickle = milliseconds(200);
    return answer;
  });
  const std::string address = server.address();
  ASSERT_GT(::write(ends[1], address.data(), address.size()), 0);
  std::error_code none;
  const fs::path part = partial_ / "images.gz.part";
  while (!fs::exists(part) || fs::file_size(part, none) < 5000) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(fs::exists(place_ / "made"));
  FetchSet(made_up_.set, Options(address));
  ExpectWhole();
  EXPECT_THAT(server.Requests()[1].from, testing::Ge(5000));
}

TEST_F(FetchSetTest, ResumesFilesThatWereNotPlaced) {
  WriteText(partial_ / "whole/images.gz", made_up_.images);
  WriteText(partial_ / "whole/labels.gz", made_up_.labels);
  const HttpServer server(Honest());
  FetchSet(made_up_.set, Options(server.address()));
  ExpectWhole();
  EXPECT_THAT(server.Requests(), IsEmpty());
}

TEST_F(FetchSetTest, RemovesLeftoversOfAKilledFetch) {
  const HttpServer server(Honest());
  FetchSet(made_up_.set, Options(server.address()));
  WriteText(partial_ / "images.gz.part", made_up_.images);
  EXPECT_EQ(FetchSet(made_up_.set, Options(server.address())).end,
            FetchResult::End::kThere);
  ExpectWhole();
}

TEST_F(FetchSetTest, NamesTheUnwritableDirectory) {
  WriteText(place_, "a file in the way");
  EXPECT_THAT([&] { FetchSet(made_up_.set, Options("")); },
              ThrowsMessage<Error>(
                  AllOf(HasSubstr(place_.string()), HasSubstr("--to"))));
}

class FetchArchiveTest : public testing::Test {
 protected:
  void Make(const std::vector<ArchiveEntry>& entries) {
    WriteArchive(mirror_ / "set.tar.gz", entries);
    archive_ = ReadText(mirror_ / "set.tar.gz");
    sha256_ = Sha256OfText(archive_);
    files_[0].bytes = static_cast<std::int64_t>(archive_.size());
    files_[0].sha256 = sha256_;
  }
  FetchResult Fetch(std::span<const KnownFile> contents = {}) const {
    const DataSet set = {.name = "packed",
                         .files = files_,
                         .directory = "unpacked",
                         .archive_root = "root",
                         .unpacked_bytes = 1000,
                         .contents = contents};
    return FetchSet(set, {.places = {place_}, .from = FileAddress(mirror_)});
  }

  const TemporaryDirectory directory_;
  const fs::path mirror_ = directory_.path();
  const fs::path place_ = directory_.path() / "data";
  std::string archive_;
  std::string sha256_;
  std::array<KnownFile, 1> files_ = {{{.name = "set.tar.gz"}}};
};

TEST_F(FetchArchiveTest, PlacesNothingOfABadArchive) {
  Make({{"root/a", "1"}, {"root/../b", "2"}});
  EXPECT_THAT([&] { Fetch(); }, ThrowsMessage<Error>(HasSubstr("unsafe path")));
  EXPECT_FALSE(fs::exists(place_ / "unpacked"));
}

TEST_F(FetchArchiveTest, RefusesAnArchiveWithoutTheExpectedFiles) {
  Make({{"root/a", "1"}});
  const std::string sum = Sha256OfText("2");
  EXPECT_THAT(
      [&] {
        Fetch({{{"a", 1, sum}}});
      },
      ThrowsMessage<Error>(HasSubstr("the archive has no 'a'")));
  EXPECT_FALSE(fs::exists(place_ / "unpacked"));
}

TEST_F(FetchArchiveTest, UnpacksUnderTheSetsOwnName) {
  Make({{"root/train/x", "1"}, {"root/val/y", "2"}});
  const FetchResult result = Fetch();
  EXPECT_EQ(result.found.files, 2);
  EXPECT_EQ(ReadText(place_ / "unpacked/train/x"), "1");
  EXPECT_EQ(Fetch().end, FetchResult::End::kThere);
  // The record lists the missing file.
  fs::remove(place_ / "unpacked/val/y");
  EXPECT_EQ(Fetch().end, FetchResult::End::kFetched);
  EXPECT_EQ(ReadText(place_ / "unpacked/val/y"), "2");
}

}  // namespace
}  // namespace dtrain
