#include "engine/command/program_socket.h"

#include <cstring>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "engine/os/system_error.h"

namespace dtrain {
namespace {

constexpr int kMostWaiting = 16;

sockaddr_un Address(const std::string& path) {
  sockaddr_un address{.sun_family = AF_UNIX};
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

}  // namespace

ProgramSocket::ProgramSocket(const std::filesystem::path& directory)
    : path_(directory / "socket"),
      fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
  if (path_.size() >= sizeof(sockaddr_un::sun_path)) {
    path_ = elsewhere_.emplace().path() / "socket";
  }
  // That of a process that was killed.
  ::unlink(path_.c_str());
  const sockaddr_un address = Address(path_);
  if (!fd_ ||
      ::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address),
             sizeof address) != 0 ||
      ::listen(fd_.get(), kMostWaiting) != 0) {
    ThrowSystemError("listen on " + path_);
  }
}

ProgramSocket::~ProgramSocket() { ::unlink(path_.c_str()); }

UniqueFd ProgramSocket::Accept() {
  return UniqueFd(
      ::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

}  // namespace dtrain
