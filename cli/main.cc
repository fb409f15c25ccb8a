// The process: signals, standard streams and exit codes around the command.
//
// Exceptions become exit codes here. Error has a kind that determines the code;
// any other exception is a bug of dtrain. bad_alloc and SIGBUS are reported by
// functions that allocate nothing, and OnSigbus uses only async-signal-safe
// calls.
//
// SIGPIPE on stdout ends the process as usual, so that `dtrain logs | head`
// ends. stderr is replaced by a buffer that ignores a closed pipe: a command
// continues without its messages.

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <iostream>
#include <new>
#include <streambuf>
#include <string_view>

#include <fcntl.h>
#include <unistd.h>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "engine/base/error.h"

namespace dtrain {
namespace {

// Opens closed standard streams. Otherwise the next opened file would get the
// number of a closed one, and messages would be written into that file. They
// are opened for reading only, so that writing to a closed stdout remains an
// error.
void OpenStandardStreams() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (fcntl(fd, F_GETFD) < 0) {
      [[maybe_unused]] const int opened = open("/dev/null", O_RDONLY);
    }
  }
}

// Writes one line to stderr without allocating memory; async-signal-safe. Shows
// the cursor, which the live display may have hidden.
void WriteLastWords(std::string_view where, std::string_view what) {
  std::array<char, 1500> text{};
  std::size_t size = 0;
  const auto add = [&](std::string_view part) {
    for (const char c : part) {
      const bool plain = (c >= ' ' && c <= '~') || c == '\n' || c == '\x1b';
      if (size < text.size()) text[size++] = plain ? c : '?';
    }
  };
  if (isatty(STDERR_FILENO) != 0) add("\x1b[?25h");
  add("dtrain: error: ");
  add(where.substr(0, 1000));
  add(what);
  add("\n");
  [[maybe_unused]] const auto written = write(STDERR_FILENO, text.data(), size);
}

int ReportOutOfMemory() {
  WriteLastWords("", kOutOfMemory);
  return kExitResources;
}

// Handles exceptions thrown in another thread, or where nothing can catch them.
[[noreturn]] void Terminate() {
  if (const std::exception_ptr thrown = std::current_exception()) {
    try {
      std::rethrow_exception(thrown);
    } catch (const std::bad_alloc&) {
      _exit(ReportOutOfMemory());
    } catch (...) {
    }
  }
  std::abort();
}

// Returns the path of the file mapped at `address`, from /proc/self/maps; empty
// if there is none. Async-signal-safe.
std::string_view FileMappedAt(const void* address) {
  static std::array<char, 8192> text;
  const int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (maps < 0) return {};
  std::size_t size = 0;
  while (true) {
    const ssize_t got = read(maps, text.data() + size, text.size() - size);
    if (got <= 0) break;
    size += static_cast<std::size_t>(got);
    std::string_view rest(text.data(), size);
    for (auto end = rest.find('\n'); end != rest.npos; end = rest.find('\n')) {
      // "7f31a000-7f31b000 rw-s 00000000 fe:01 4711   /path"
      const std::string_view line = rest.substr(0, end);
      rest.remove_prefix(end + 1);
      std::uintptr_t begin = 0, last = 0;
      const char* const stop = line.data() + line.size();
      const auto dash = std::from_chars(line.data(), stop, begin, 16).ptr;
      std::from_chars(dash == stop ? dash : dash + 1, stop, last, 16);
      const auto at = reinterpret_cast<std::uintptr_t>(address);
      if (at < begin || at >= last) continue;
      close(maps);
      const std::size_t path = line.find('/');
      return path == line.npos ? std::string_view() : line.substr(path);
    }
    std::memmove(text.data(), rest.data(), rest.size());
    size = rest.size();
    if (size == text.size()) size = 0;  // no line of ours is that long
  }
  close(maps);
  return {};
}

// The index of SQLite's write-ahead log is a mapped file. If another program
// truncates it, reading it raises SIGBUS.
void OnSigbus(int signal, siginfo_t* info, void*) {
  constexpr std::string_view kIndex = "-shm";
  if (info->si_code > 0) {
    std::string_view path = FileMappedAt(info->si_addr);
    constexpr std::string_view kGone = " (deleted)";
    if (path.ends_with(kGone)) path.remove_suffix(kGone.size());
    if (path.ends_with(kIndex)) {
      WriteLastWords(
          path,
          ": was truncated by another program while SQLite was using it; let "
          "no other program change the files of the store, then try again; "
          "resume an experiment that was running with `dtrain resume`");
      _exit(kExitStore);
    }
  }
  // Restore the default action.
  std::signal(signal, SIG_DFL);
  if (info->si_code <= 0) raise(signal);
}

void HandleSigbus() {
  struct sigaction action {};
  action.sa_sigaction = OnSigbus;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, nullptr);
}

// Standard error, whose reader may have gone: a message that nobody reads must
// not end the command, as SIGPIPE would.
class StandardError final : public std::streambuf {
 protected:
  int_type overflow(int_type c) override {
    const char byte = traits_type::to_char_type(c);
    if (!traits_type::eq_int_type(c, traits_type::eof())) xsputn(&byte, 1);
    return traits_type::not_eof(c);
  }
  std::streamsize xsputn(const char* text, std::streamsize size) override {
    sigset_t pipe, before;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, &before);
    std::string_view left(text, static_cast<std::size_t>(size));
    while (!left.empty()) {
      const ssize_t count = write(STDERR_FILENO, left.data(), left.size());
      if (count > 0) left.remove_prefix(static_cast<std::size_t>(count));
      if (count < 0 && errno != EINTR) break;
    }
    if (!left.empty() && errno == EPIPE && sigismember(&before, SIGPIPE) == 0) {
      constexpr timespec kNow{};
      sigtimedwait(&pipe, nullptr, &kNow);
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return size;
  }
};

// std::cerr is tied to std::cout, so both keep their order on a terminal.
void WriteToStderr(const std::string& text) { std::cerr << text; }

int Complain(const std::string& text, int code, const Invocation& invocation) {
  PrintError(invocation.globals, text);
  return code;
}

int Main(int argc, char** argv) {
  OpenStandardStreams();
  // The parent may ignore these. `dtrain logs | head` must end quietly, and the
  // ends of children must be known.
  std::signal(SIGPIPE, SIG_DFL);
  std::signal(SIGCHLD, SIG_DFL);
  // A limit on file sizes must be a write error, not the end of the process.
  std::signal(SIGXFSZ, SIG_IGN);
  HandleSigbus();
  std::set_terminate(Terminate);
  std::ios::sync_with_stdio(false);
  std::cerr.rdbuf(new StandardError);  // used to the end of the process
  Invocation invocation{.globals =
                            GlobalOptions{.write_notice = WriteToStderr}};
  try {
    ParseCommandLine(argc, argv, invocation);
    const int code = invocation.run();
    FinishOutput();
    return code;
  } catch (const Error& error) {
    return Complain(error.what(), ToExitCode(error.kind()), invocation);
  } catch (const std::bad_alloc&) {
    return ReportOutOfMemory();
  } catch (const std::exception& error) {
    return Complain(std::string("unexpected: ") + error.what() +
                        "; this is a bug of dtrain, please report it",
                    kExitFailed, invocation);
  }
}

}  // namespace
}  // namespace dtrain

int main(int argc, char** argv) { return dtrain::Main(argc, argv); }
