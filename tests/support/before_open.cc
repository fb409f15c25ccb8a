// A library that tests load before the C library: runs the shell's command
// $BEFORE_OPEN_COMMAND right before the process opens a file by the name
// $BEFORE_OPEN_NAME for the first time, with openat(2).

#include <cstdarg>
#include <cstdlib>
#include <string>

#include <dlfcn.h>
#include <fcntl.h>

namespace {

// Returns the value of a variable and removes it, or "" if it is not set.
std::string TakeVariable(const char* name) {
  const char* value = std::getenv(name);
  const std::string text = value == nullptr ? "" : value;
  ::unsetenv(name);
  return text;
}

void RunCommandBefore(const char* opened) {
  const char* name = std::getenv("BEFORE_OPEN_NAME");
  if (name == nullptr || std::string(name) != opened) return;
  // Removed, so that neither a second open nor the command's processes run it.
  TakeVariable("BEFORE_OPEN_NAME");
  const std::string command = TakeVariable("BEFORE_OPEN_COMMAND");
  if (std::system(command.c_str()) != 0) std::abort();
}

int Open(const char* function, int directory, const char* name, int flags,
         mode_t mode) {
  RunCommandBefore(name);
  using Function = int (*)(int, const char*, int, ...);
  const auto real = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, function));
  return real(directory, name, flags, mode);
}

}  // namespace

#define DTRAIN_OPENAT(name)                                         \
  extern "C" __attribute__((visibility("default"))) int name(       \
      int directory, const char* file, int flags, ...) {            \
    va_list rest;                                                   \
    va_start(rest, flags);                                          \
    const bool creates = (flags & (O_CREAT | __O_TMPFILE)) != 0;    \
    const mode_t mode = creates ? va_arg(rest, mode_t) : mode_t{0}; \
    va_end(rest);                                                   \
    return Open(#name, directory, file, flags, mode);               \
  }

DTRAIN_OPENAT(openat)
DTRAIN_OPENAT(openat64)
