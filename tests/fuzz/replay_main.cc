// Feeds files to a fuzz target, once each, where no libFuzzer drives it: the
// corpus, or a single finding. Arguments are files and directories.

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "tests/fuzz/fuzz_checks.h"

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> FilesOf(const fs::path& path) {
  if (!fs::is_directory(path)) return {path};
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(path)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// In memory of exactly its size, so that a sanitizer sees a byte too far.
bool Feed(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  if (!file.is_open() || file.bad()) return false;
  // Said before, so that a crash is known by its last line.
  std::fprintf(stderr, "%s (%zu bytes)\n", path.c_str(), bytes.size());
  const std::vector<char> exact(bytes.begin(), bytes.end());
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(exact.data()),
                         exact.size());
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t fed = 0;
  for (int i = 1; i < argc; ++i) {
    for (const fs::path& path : FilesOf(argv[i])) {
      if (!Feed(path)) {
        std::fprintf(stderr, "%s cannot be read\n", path.c_str());
        return 1;
      }
      ++fed;
    }
  }
  std::fprintf(stderr, "%zu inputs\n", fed);
  return fed > 0 ? 0 : 1;
}
