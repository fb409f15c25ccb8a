// Runs a fuzz target without libFuzzer: passes each file of the arguments,
// which are files and directories, to the target once.

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "tests/fuzz/fuzz_target.h"

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> ListFiles(const fs::path& path) {
  if (!fs::is_directory(path)) return {path};
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(path)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// Passes a file's bytes to the target in a buffer of exactly their size, so
// that a sanitizer reports a read past their end. Returns false if it is
// unreadable.
bool Replay(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  if (!file.is_open() || file.bad()) return false;
  // Printed before the call, so that the last line names the input of a crash.
  std::fprintf(stderr, "%s (%zu bytes)\n", path.c_str(), bytes.size());
  const std::vector<char> exact(bytes.begin(), bytes.end());
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(exact.data()),
                         exact.size());
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t replayed = 0;
  for (int i = 1; i < argc; ++i) {
    for (const fs::path& path : ListFiles(argv[i])) {
      if (!Replay(path)) {
        std::fprintf(stderr, "%s cannot be read\n", path.c_str());
        return 1;
      }
      ++replayed;
    }
  }
  std::fprintf(stderr, "%zu inputs\n", replayed);
  return replayed > 0 ? 0 : 1;
}
