#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <dlfcn.h>

#include <pthread.h>

namespace dtrain::power {

/// Kind of a change; the same as Kind in disk.py.
enum class Op : std::uint32_t {
  kCreate = 1,  // file `b`, with mode `c`, as `name` in directory `a`
  kMkdir,       // the same of a directory
  kSymlink,     // the same of a link to `data`
  kLink,        // node `b` as `name` in directory `a`
  kRename,      // `name` in directory `a` to `name2` in `b`; `c`: exchange
  kUnlink,      // `name` in directory `a`
  kRmdir,       // the same
  kWrite,       // `data` at offset `b` of file `a`
  kTruncate,    // file `a` to `b` bytes
  kSync,        // file or directory `a`; `b`: 1 for fdatasync
  kChmod,       // node `a` to mode `b`
  kTime,        // node `a` to its time
};

/// Header of a record, followed by name, name2 and the data.
struct Header {
  std::uint32_t magic = 0x52575044;
  Op op{};
  std::uint32_t process = 0;
  std::uint32_t name_bytes = 0;
  std::uint32_t name2_bytes = 0;
  std::uint32_t padding = 0;
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  std::uint64_t c = 0;
  std::uint64_t time = 0;  // time of the node's last change, in ns
  std::uint64_t data_bytes = 0;
};

/// Returns libc's own function for a name that recorder.cc replaces.
template <typename Function>
Function* Real(Function*, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}
// NOLINTNEXTLINE(bugprone-macro-parentheses)
#define REAL(name) \
  ::dtrain::power::Real(static_cast<decltype(::name)*>(nullptr), #name)

/// Prints `what` and errno and aborts the process.
[[noreturn]] void Die(const char* what);

/// The log that all processes share, in mapped memory, since some processes
/// close all unknown files. Thread-safe.
class Log {
 public:
  static Log& Get();

  /// True if DTRAIN_POWER_ROOT and DTRAIN_POWER_LOG are set.
  bool on() const { return shared_ != nullptr; }
  /// True if an absolute path is the recorded directory or below it.
  bool IsBelow(const std::string& path) const;

  /// Held while a call is made and recorded.
  void Lock();
  void Unlock();
  /// Appends a record. REQUIRES: the lock is held.
  void Append(Header header, const std::string& name = "",
              const std::string& name2 = "", const void* data = nullptr,
              std::size_t bytes = 0);

 private:
  // The beginning of the file.
  struct Shared {
    std::uint64_t used;  // bytes of the log, including this header; 0 if new
    pthread_mutex_t mutex;
  };

  Log();
  void Begin();

  std::string root_;
  Shared* shared_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace dtrain::power
