#include "tests/fuzz/fuzz_target.h"

#include <cstdio>
#include <cstdlib>

#include <sys/mman.h>
#include <unistd.h>

#include "engine/base/text.h"

namespace dtrain {
namespace {

// Longer than any message with a path in it, and too short to quote a whole
// large input.
constexpr std::size_t kMaxErrorLength = 1000;

}  // namespace

void Require(bool holds, std::string_view requirement) {
  if (holds) return;
  std::fprintf(stderr, "requirement violated: %.*s\n",
               static_cast<int>(requirement.size()), requirement.data());
  std::abort();
}

void RequireOneLine(const Error& error) {
  const std::string text = error.what();
  Require(!text.empty(), "an error has a message");
  Require(text.size() <= kMaxErrorLength, "an error's message is short");
  Require(EscapeForTerminal(text) == text,
          "an error is one line without control characters");
}

ByteFile::ByteFile(std::string_view bytes)
    : fd_(::memfd_create("fuzz", MFD_CLOEXEC)) {
  Require(static_cast<bool>(fd_), "an in-memory file can be created");
  const auto size = static_cast<ssize_t>(bytes.size());
  Require(::write(fd_.get(), bytes.data(), bytes.size()) == size,
          "an in-memory file can be written");
  ::lseek(fd_.get(), 0, SEEK_SET);
}

std::string ByteFile::path() const {
  return "/proc/self/fd/" + std::to_string(fd_.get());
}

}  // namespace dtrain
