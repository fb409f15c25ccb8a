// A library that tests load before the C library: whoever opens /proc/cpuinfo
// opens the file $LYING_CPUINFO.

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <dlfcn.h>

namespace {

std::FILE* Open(const char* function, const char* path, const char* mode) {
  using Function = std::FILE* (*)(const char*, const char*);
  const auto real = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, function));
  const char* instead = std::getenv("LYING_CPUINFO");
  const bool lies =
      instead != nullptr && std::strcmp(path, "/proc/cpuinfo") == 0;
  return real(lies ? instead : path, mode);
}

}  // namespace

#define DTRAIN_VISIBLE extern "C" __attribute__((visibility("default")))

DTRAIN_VISIBLE std::FILE* fopen(const char* path, const char* mode) {
  return Open("fopen", path, mode);
}

DTRAIN_VISIBLE std::FILE* fopen64(const char* path, const char* mode) {
  return Open("fopen64", path, mode);
}
