#include "engine/serve/web_server.h"

#include <fstream>
#include <functional>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/os/spawn.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

using testing::HasSubstr;

class WebServerTest : public testing::Test {
 protected:
  // Connects to the server and sends it a request.
  UniqueFd Ask() const {
    UniqueFd client(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{.sun_family = AF_UNIX};
    path_.string().copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(
        ::connect(client.get(), reinterpret_cast<const sockaddr*>(&address),
                  sizeof address),
        0);
    const std::string request =
        "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    EXPECT_EQ(::write(client.get(), request.data(), request.size()),
              static_cast<ssize_t>(request.size()));
    return client;
  }

  // Serves until `done`.
  void Serve(const std::function<bool()>& done) {
    while (!done()) server_.RunOnce();
  }

  TemporaryDirectory directory_;
  std::filesystem::path path_ = directory_.path() / "socket";
  std::function<WebReply()> reply_ = [this] {
    ++answered_;
    return WebReply{.body = "hello"};
  };
  WebServer server_{ListenOnSocket(path_),
                    [this](std::uint64_t, const WebRequest&) {
                      return std::optional(reply_());
                    }};
  int answered_ = 0;
};

TEST_F(WebServerTest, Answers) {
  const UniqueFd client = Ask();
  Serve([&] { return answered_ > 0; });
  server_.RunOnce();
  const auto text = ReadUntil(
      client.get(), Clock::System().monotonic() + std::chrono::minutes(5));
  EXPECT_THAT(text.value_or(""), HasSubstr("hello"));
}

// Exceptions pass around the C frames of libevent.
TEST_F(WebServerTest, ThrowsWhatTheHandlerThrows) {
  const UniqueFd client = Ask();
  reply_ = []() -> WebReply { throw Error(ErrorKind::kFailed, "no"); };
  EXPECT_THROW(Serve([] { return false; }), Error);

  const UniqueFd second = Ask();
  reply_ = []() -> WebReply { throw std::bad_alloc(); };
  EXPECT_THROW(Serve([] { return false; }), std::bad_alloc);

  const UniqueFd third = Ask();
  reply_ = []() -> WebReply { throw 7; };
  EXPECT_THROW(Serve([] { return false; }), int);
}

TEST_F(WebServerTest, ThrowsWhatAWatchThrowsAndGoesOn) {
  const Pipe pipe = MakePipe();
  ASSERT_EQ(::write(pipe.writing.get(), "x", 1), 1);
  server_.WhenReadable(pipe.reading.get(),
                       [] { throw std::runtime_error("no"); });
  EXPECT_THROW(Serve([] { return false; }), std::runtime_error);

  const UniqueFd client = Ask();
  Serve([&] { return answered_ > 0; });
}

// Commands of the page inherit the mask of the process.
TEST(ListenOnSocketTest, SocketIsPrivateAndTheMaskStays) {
  const TemporaryDirectory directory;
  const mode_t before = ::umask(0022);
  const UniqueFd listener = ListenOnSocket(directory.path() / "socket");
  const mode_t after = ::umask(before);
  EXPECT_EQ(after, mode_t{0022});
  struct stat status {};
  ASSERT_EQ(::stat((directory.path() / "socket").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, mode_t{0600});
  EXPECT_NE(::fcntl(listener.get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(ListenOnSocketTest, TheMaskStaysIfThereIsNoSuchDirectory) {
  const TemporaryDirectory directory;
  const mode_t before = ::umask(0027);
  EXPECT_THROW(ListenOnSocket(directory.path() / "no/socket"), Error);
  EXPECT_EQ(::umask(before), mode_t{0027});
}

TEST(ListenOnSocketTest, ReplacesOnlyTheSocketOfAServerThatHasEnded) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "socket";
  const auto kind_of_error = [&](const std::filesystem::path& at) {
    try {
      static_cast<void>(ListenOnSocket(at));
      return std::optional<ErrorKind>();
    } catch (const Error& error) {
      return std::optional(error.kind());
    }
  };
  std::optional<UniqueFd> first = ListenOnSocket(path);
  EXPECT_EQ(kind_of_error(path), ErrorKind::kResources);
  first.reset();  // as if it was killed: the file stays
  EXPECT_TRUE(std::filesystem::exists(path));
  EXPECT_EQ(kind_of_error(path), std::nullopt);

  std::ofstream(directory.path() / "file") << "mine";
  EXPECT_EQ(kind_of_error(directory.path() / "file"), ErrorKind::kUsage);
  EXPECT_TRUE(std::filesystem::exists(directory.path() / "file"));
  EXPECT_EQ(kind_of_error(directory.path() / std::string(100, 'x')),
            ErrorKind::kUsage);
}

}  // namespace
}  // namespace dtrain
