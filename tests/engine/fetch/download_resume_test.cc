// A download that did not come in one piece.

#include <atomic>

#include "engine/fetch/download.h"
#include "tests/engine/fetch/download_fixture.h"

namespace dtrain {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::IsEmpty;

using DownloadResumeTest = DownloadTest;

TEST_F(DownloadResumeTest, GoesOnWhereTheServerBrokeOff) {
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

TEST_F(DownloadResumeTest, GoesOnWhereAServerThatNamesNoLengthEnds) {
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

TEST_F(DownloadResumeTest, GoesOnWithWhatAnEarlierCallLeft) {
  WriteText(part_, body_.substr(0, 123'456));
  const HttpServer server(
      [&](const HttpRequest& request) { return Serve(body_, request); });
  ExpectWhole(Get(server));
  ASSERT_EQ(server.Requests().size(), 1);
  EXPECT_EQ(server.Requests()[0].from, 123'456);
}

TEST_F(DownloadResumeTest, AsksForNothingOfAFileThatIsWhole) {
  WriteText(part_, body_);
  const HttpServer server(
      [](const HttpRequest&) { return HttpAnswer{.status = "404 No"}; });
  ExpectWhole(Get(server));
  EXPECT_THAT(server.Requests(), IsEmpty());
}

TEST_F(DownloadResumeTest, BeginsAnewWhereTheServerIgnoresTheRange) {
  WriteText(part_, "something else");
  const HttpServer server(
      [&](const HttpRequest&) { return HttpAnswer{.body = body_}; });
  ExpectWhole(Get(server));
  EXPECT_EQ(server.Requests().size(), 1);
}

TEST_F(DownloadResumeTest, BeginsAnewWhereTheServerSendsAnotherRange) {
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

TEST_F(DownloadResumeTest, BeginsAnewWhereWhatWasThereIsWrong) {
  WriteText(part_, std::string(1000, '?'));
  const HttpServer server(
      [&](const HttpRequest& request) { return Serve(body_, request); });
  ExpectWhole(Get(server));
  ASSERT_EQ(server.Requests().size(), 2);
  EXPECT_EQ(server.Requests()[1].from, -1);
  EXPECT_THAT(said_, HasSubstr("from scratch"));
}

TEST_F(DownloadResumeTest, KnowsAWholeFileOfApproximateSize) {
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
