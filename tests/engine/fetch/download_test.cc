#include "engine/fetch/download.h"

#include <atomic>
#include <filesystem>
#include <iterator>
#include <stdexcept>

#include "engine/base/error.h"
#include "engine/fetch/address.h"
#include "tests/engine/fetch/fetch_support.h"
#include "tests/support/http_server.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::ThrowsMessage;

// Downloads one file, `body_`, into `part_`.
class DownloadTest : public testing::Test {
 protected:
  DownloadRequest Request(const std::string& address) const {
    return {.addresses = {address},
            .part = part_,
            .bytes = static_cast<std::int64_t>(body_.size()),
            .sha256 = Sha256OfText(body_),
            .patience = kShortPatience};
  }
  std::string Get(const DownloadRequest& request) {
    return Download(request, {.say = [this](const std::string& text) {
                      said_ += text + "\n";
                    }});
  }
  std::string Get(const HttpServer& server) {
    return Get(Request(server.address() + "/file"));
  }
  void ExpectWhole(const std::string& sha256) {
    EXPECT_EQ(sha256, Sha256OfText(body_));
    EXPECT_EQ(ReadText(part_), body_);
  }

  const TemporaryDirectory directory_;
  const std::filesystem::path part_ = directory_.path() / "file.part";
  const std::string body_ = SomeText(200'000);
  std::string said_;
};

// A download that does not arrive in one piece.
using DownloadResumeTest = DownloadTest;

TEST(CertificatesTest, AreFoundWhereDistributionsHaveThem) {
  const TemporaryDirectory system;
  const auto bundle = system.path() / "etc/pki/tls/certs/ca-bundle.crt";
  EXPECT_EQ(FindCertificates("", "/no/such/file", system.path()), "");
  WriteText(bundle, "certificates");
  EXPECT_EQ(FindCertificates("", "/no/such/file", system.path()),
            bundle.string());
  EXPECT_EQ(FindCertificates("", "", system.path()), bundle.string());
  WriteText(system.path() / "built_in", "certificates");
  const std::string built_in = system.path() / "built_in";
  EXPECT_EQ(FindCertificates("", built_in, system.path()), built_in);
  EXPECT_EQ(FindCertificates("/mine.pem", built_in, system.path()),
            "/mine.pem");
}

TEST_F(DownloadTest, ReportsAFileThatTheServerLacks) {
  const HttpServer server(
      [](const HttpRequest&) { return HttpAnswer{.status = "404 Not Found"}; });
  EXPECT_THAT([&] { Get(server); },
              ThrowsMessage<Error>(AllOf(
                  HasSubstr(server.address() + "/file: the server answers 404"),
                  HasSubstr("--from"))));
  EXPECT_EQ(server.Requests().size(), 1);
}

TEST_F(DownloadTest, ReportsARefusedConnection) {
  std::string address;
  {
    const HttpServer gone([](const HttpRequest&) { return HttpAnswer{}; });
    address = gone.address();
  }
  EXPECT_THAT([&] { Get(Request(address + "/file")); },
              ThrowsMessage<Error>(AllOf(HasSubstr("Failed to connect"),
                                         HasSubstr("check the network"))));
  EXPECT_THAT(said_, IsEmpty());
}

TEST_F(DownloadTest, ReportsAnUnknownHost) {
  EXPECT_THAT([&] { Get(Request("http://no-such-host.invalid/file")); },
              ThrowsMessage<Error>(HasSubstr("no-such-host.invalid")));
}

TEST_F(DownloadTest, KeepsPasswordsOutOfMessages) {
  EXPECT_THAT([&] { Get(Request("http://me:secret@127.0.0.1:1/file")); },
              ThrowsMessage<Error>(AllOf(HasSubstr("http://127.0.0.1:1/file"),
                                         Not(HasSubstr("secret")))));
}

TEST_F(DownloadTest, RefusesWrongBytes) {
  std::string wrong = body_;
  wrong[777] ^= 1;
  const HttpServer server(
      [&](const HttpRequest& request) { return Serve(wrong, request); });
  EXPECT_THAT([&] { Get(server); },
              ThrowsMessage<Error>(HasSubstr("a different file: the SHA-256 "
                                             "begins with")));
  EXPECT_EQ(ReadText(part_), "");
  EXPECT_EQ(server.Requests().size(), 1);
}

TEST_F(DownloadTest, RefusesAFileOfAnotherSizeBeforeItIsSent) {
  const HttpServer server([&](const HttpRequest& request) {
    return Serve(body_ + "more", request);
  });
  EXPECT_THAT([&] { Get(server); },
              ThrowsMessage<Error>(HasSubstr("of 200004 bytes, not 200000")));
  EXPECT_EQ(ReadText(part_), "");
}

TEST_F(DownloadTest, RefusesALengthThatIsTooShort) {
  const HttpServer server([&](const HttpRequest&) {
    return HttpAnswer{.body = body_, .length = 500};
  });
  EXPECT_THAT([&] { Get(server); },
              ThrowsMessage<Error>(HasSubstr("of 500 bytes, not 200000")));
}

TEST_F(DownloadTest, StopsAnEndlessBodyAtTheCap) {
  const HttpServer server([&](const HttpRequest&) {
    return HttpAnswer{.body = body_, .length = -2, .endless = true};
  });
  EXPECT_THAT(
      [&] { Get(server); },
      ThrowsMessage<Error>(HasSubstr("sends more than the 200000 bytes")));
  EXPECT_LE(std::filesystem::file_size(part_), body_.size());
}

TEST_F(DownloadTest, StopsAnEndlessBodyOfApproximateSize) {
  const HttpServer server([&](const HttpRequest&) {
    return HttpAnswer{.body = body_, .length = -2, .endless = true};
  });
  DownloadRequest request = Request(server.address() + "/file");
  request.approximate = true;
  EXPECT_THAT([&] { Get(request); },
              ThrowsMessage<Error>(HasSubstr("sends more than the 202000")));
}

TEST_F(DownloadTest, TimesOutIfTheServerStalls) {
  const HttpServer server([&](const HttpRequest&) {
    return HttpAnswer{.body = body_,
                      .length = static_cast<std::int64_t>(body_.size()),
                      .send = 10,
                      .stall = std::chrono::minutes(5)};
  });
  DownloadRequest request = Request(server.address() + "/file");
  request.patience.stall = std::chrono::seconds(1);
  request.patience.attempts = 1;
  EXPECT_THAT([&] { Get(request); },
              ThrowsMessage<Error>(HasSubstr("too slow")));
  EXPECT_EQ(ReadText(part_), body_.substr(0, 10));
}

TEST_F(DownloadTest, FollowsNoRedirectToAFile) {
  WriteText(directory_.path() / "secret", body_);
  const HttpServer server([&](const HttpRequest&) {
    return HttpAnswer{
        .status = "302 Found",
        .headers = {"Location: " + FileAddress(directory_.path() / "secret")}};
  });
  EXPECT_THAT([&] { Get(server); },
              ThrowsMessage<Error>(HasSubstr("\"file\" not supported")));
  EXPECT_EQ(ReadText(part_), "");
}

TEST_F(DownloadTest, FollowsFiveRedirectsAndNoMore) {
  const HttpServer server([&](const HttpRequest& request) {
    const std::string next = request.path + "x";
    if (request.path == "/filexxxxx") return Serve(body_, request);
    return HttpAnswer{.status = "301 Moved", .headers = {"Location: " + next}};
  });
  ExpectWhole(Get(server));
  std::filesystem::remove(part_);
  EXPECT_THAT([&] { Get(Request(server.address() + "/fil")); },
              ThrowsMessage<Error>(HasSubstr("redirects")));
}

TEST_F(DownloadTest, DownloadsAWholeFile) {
  const HttpServer server(
      [&](const HttpRequest& request) { return Serve(body_, request); });
  ExpectWhole(Get(server));
  EXPECT_EQ(server.Requests().size(), 1);
  EXPECT_EQ(server.Requests()[0].from, -1);
}

TEST_F(DownloadTest, ReadsAFileOfThisMachine) {
  WriteText(directory_.path() / "here", body_);
  WriteText(part_, body_.substr(0, 50));
  ExpectWhole(Get(Request(FileAddress(directory_.path() / "here"))));
}

TEST_F(DownloadTest, RetriesAfterAServerError) {
  std::atomic<int> calls{0};
  const HttpServer server([&](const HttpRequest& request) {
    if (calls++ < 2) return HttpAnswer{.status = "503 Later"};
    return Serve(body_, request);
  });
  ExpectWhole(Get(server));
  EXPECT_THAT(said_, HasSubstr("the server answers 503; trying again"));
}

TEST_F(DownloadTest, RetriesOnlyUpToTheLimit) {
  const HttpServer server(
      [](const HttpRequest&) { return HttpAnswer{.status = "500 Oh"}; });
  EXPECT_THAT([&] { Get(server); },
              ThrowsMessage<Error>(HasSubstr("the server answers 500")));
  EXPECT_EQ(server.Requests().size(), kShortPatience.attempts);
}

TEST_F(DownloadTest, TriesTheNextAddressAndNamesAllFailures) {
  const HttpServer server([&](const HttpRequest& request) {
    if (request.path == "/c") return Serve(body_, request);
    return HttpAnswer{.status = request.path == "/a" ? "404 No" : "403 No"};
  });
  DownloadRequest request = Request(server.address() + "/a");
  request.addresses.push_back(server.address() + "/b");
  EXPECT_THAT(
      [&] { Get(request); },
      ThrowsMessage<Error>(AllOf(HasSubstr("/a: the server answers 404; "),
                                 HasSubstr("/b: the server answers 403"))));
  request.addresses.push_back(server.address() + "/c");
  ExpectWhole(Get(request));
}

TEST_F(DownloadTest, StopsOnRequest) {
  const HttpServer server([&](const HttpRequest& request) {
    HttpAnswer answer = Serve(body_, request);
    answer.trickle = milliseconds(20);
    return answer;
  });
  std::atomic<std::int64_t> came{0};
  const std::string sha256 =
      Download(Request(server.address() + "/file"),
               {.progress = [&](std::int64_t bytes) { came = bytes; },
                .stop = [&] { return came > 0; }});
  EXPECT_EQ(sha256, "");
  EXPECT_GT(ReadText(part_).size(), 0);
  EXPECT_LT(ReadText(part_).size(), body_.size());
}

TEST_F(DownloadTest, PassesOnWhatAListenerThrows) {
  const auto descriptors = [] {
    const std::filesystem::directory_iterator open("/proc/self/fd");
    return std::distance(begin(open), end(open));
  };
  WriteText(directory_.path() / "here", body_);
  const auto request = Request(FileAddress(directory_.path() / "here"));
  ExpectWhole(Get(request));
  std::filesystem::remove(part_);
  const auto before = descriptors();
  EXPECT_THROW(Download(request, {.progress =
                                      [](std::int64_t) {
                                        throw std::out_of_range("a listener's");
                                      }}),
               std::out_of_range);
  EXPECT_EQ(descriptors(), before) << "libcurl could not clean up";
}

TEST_F(DownloadTest, DoesNotFollowALinkInPlaceOfThePart) {
  WriteText(directory_.path() / "precious", "mine");
  std::filesystem::create_symlink(directory_.path() / "precious", part_);
  const HttpServer server(
      [&](const HttpRequest& request) { return Serve(body_, request); });
  EXPECT_THAT([&] { Get(server); },
              ThrowsMessage<Error>(HasSubstr("cannot be written")));
  EXPECT_EQ(ReadText(directory_.path() / "precious"), "mine");
}

TEST_F(DownloadResumeTest, ResumesAnInterruptedDownload) {
  std::atomic<int> calls{0};
  const HttpServer server([&](const HttpRequest& request) {
    HttpAnswer answer = Serve(body_, request);
    if (calls++ < 2) {
      answer.send = 30'000;
      answer.reset = calls == 2;
      answer.stall = milliseconds(50);
    }
    return answer;
  });
  ExpectWhole(Get(server));
  ASSERT_EQ(server.Requests().size(), 3);
  EXPECT_EQ(server.Requests()[1].from, 30'000);
  EXPECT_THAT(said_, HasSubstr("trying again"));
}

TEST_F(DownloadResumeTest, ResumesIfAServerWithoutALengthStops) {
  const HttpServer server([&](const HttpRequest& request) {
    HttpAnswer answer = Serve(body_, request);
    answer.length = -2;
    if (request.from < 0) answer.send = 1000;
    return answer;
  });
  ExpectWhole(Get(server));
  ASSERT_EQ(server.Requests().size(), 2);
  EXPECT_EQ(server.Requests()[1].from, 1000);
  EXPECT_THAT(said_, HasSubstr("ends after 1000 of 200000 bytes"));
}

TEST_F(DownloadResumeTest, ResumesAnEarlierDownload) {
  WriteText(part_, body_.substr(0, 123'456));
  const HttpServer server(
      [&](const HttpRequest& request) { return Serve(body_, request); });
  ExpectWhole(Get(server));
  ASSERT_EQ(server.Requests().size(), 1);
  EXPECT_EQ(server.Requests()[0].from, 123'456);
}

TEST_F(DownloadResumeTest, RequestsNothingForACompleteFile) {
  WriteText(part_, body_);
  const HttpServer server(
      [](const HttpRequest&) { return HttpAnswer{.status = "404 No"}; });
  ExpectWhole(Get(server));
  EXPECT_THAT(server.Requests(), IsEmpty());
}

TEST_F(DownloadResumeTest, RestartsIfTheServerIgnoresTheRange) {
  WriteText(part_, "something else");
  const HttpServer server(
      [&](const HttpRequest&) { return HttpAnswer{.body = body_}; });
  ExpectWhole(Get(server));
  EXPECT_EQ(server.Requests().size(), 1);
}

TEST_F(DownloadResumeTest, RestartsIfTheServerSendsAnotherRange) {
  WriteText(part_, body_.substr(0, 1000));
  const HttpServer server([&](const HttpRequest& request) {
    HttpAnswer answer = Serve(body_, request);
    if (request.from > 0)
      answer.headers = {"Content-Range: bytes 7-199999/200000"};
    return answer;
  });
  ExpectWhole(Get(server));
  EXPECT_EQ(server.Requests().size(), 2);
}

TEST_F(DownloadResumeTest, RestartsIfTheFileWasWrong) {
  WriteText(part_, std::string(1000, '?'));
  const HttpServer server(
      [&](const HttpRequest& request) { return Serve(body_, request); });
  ExpectWhole(Get(server));
  ASSERT_EQ(server.Requests().size(), 2);
  EXPECT_EQ(server.Requests()[1].from, -1);
  EXPECT_THAT(said_, HasSubstr("from scratch"));
}

TEST_F(DownloadResumeTest, RecognizesACompleteFileOfApproximateSize) {
  WriteText(part_, body_);
  const HttpServer server(
      [&](const HttpRequest& request) { return Serve(body_, request); });
  DownloadRequest request = Request(server.address() + "/file");
  request.approximate = true;
  request.bytes += 500;
  request.sha256.resize(8);
  ExpectWhole(Get(request));
  EXPECT_EQ(server.Requests().size(), 1);
}

}  // namespace
}  // namespace dtrain
