#include "models/fault_process.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <stdexcept>
#include <string_view>
#include <thread>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/os/line_reader.h"

namespace dtrain {
namespace {

// Straight to the descriptor, so that nothing waits in a buffer when the
// process crashes. Where nobody reads any more, there is nobody to annoy.
void WriteOut(std::string_view text) { (void)WriteAll(STDOUT_FILENO, text); }

}  // namespace

void ExitNow(int code) { ::_exit(code); }

void Hang() {
  while (true) ::pause();
}

void IgnoreTerm() { ::signal(SIGTERM, SIG_IGN); }

void SleepMilliseconds(double milliseconds) {
  std::this_thread::sleep_for(
      std::chrono::duration<double, std::milli>(milliseconds));
}

std::vector<std::uint8_t> HoldMemory(std::int64_t mebibytes) {
  // Not zeros: those the kernel could share.
  return std::vector<std::uint8_t>(static_cast<std::size_t>(mebibytes) << 20,
                                   std::uint8_t{0x5A});
}

void FloodLog(std::int64_t bytes, std::int64_t line) {
  constexpr std::int64_t kChunk = 1 << 16;
  // As many whole lines as fit in a chunk, and at least one.
  std::string text(static_cast<std::size_t>(std::max(line, kChunk)), 'x');
  if (line > 0) {
    text.resize(text.size() / line * line);
    for (auto end = line; end <= std::ssize(text); end += line) {
      text[static_cast<std::size_t>(end - 1)] = '\n';
    }
  }
  while (bytes > 0) {
    const auto count = std::min<std::int64_t>(bytes, std::ssize(text));
    WriteOut(std::string_view(text).substr(0, static_cast<std::size_t>(count)));
    bytes -= count;
  }
}

void WriteHex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    unsigned char byte = 0;
    const char* end = hex.data() + std::min(i + 2, hex.size());
    const auto [rest, error] = std::from_chars(hex.data() + i, end, byte, 16);
    if (error != std::errc() || rest != hex.data() + i + 2) {
      throw std::invalid_argument("'" + hex + "' is not pairs of hex digits");
    }
    bytes += static_cast<char>(byte);
  }
  WriteOut(bytes);
}

void SpawnDaemon() {
  const pid_t child = ::fork();
  if (child == 0) {
    ::setsid();
    if (::fork() == 0) {
      ::execl("/bin/sleep", "sleep", "600", static_cast<char*>(nullptr));
    }
    ::_exit(0);
  }
  if (child > 0) ::waitpid(child, nullptr, 0);
}

}  // namespace dtrain
