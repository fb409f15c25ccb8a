#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <zlib.h>

namespace dtrain {

/// Throws Error(kFailed): the data file `path` is not what it should be, `what`
/// is wrong with it, and it has to be fetched anew.
[[noreturn]] void FailDataFile(const std::filesystem::path& path,
                               const std::string& what);

/// A file to read from its beginning to its end, gzipped or not.
class GzipFile {
 public:
  /// Throws Error(kFailed) if it cannot be opened.
  explicit GzipFile(const std::filesystem::path& path);

  /// Reads up to `size` bytes, fewer only at the end of the file. Throws
  /// Error(kFailed) if it cannot be read or its gzip data is damaged.
  std::size_t Read(std::uint8_t* to, std::size_t size);

  /// Appends to `bytes` what comes next, up to `size` bytes, in steps: a lying
  /// size takes no memory. Returns how many there were.
  std::size_t Append(std::vector<std::uint8_t>& bytes, std::size_t size);

 private:
  struct Close {
    void operator()(gzFile file) const { gzclose(file); }
  };
  std::filesystem::path path_;
  std::unique_ptr<gzFile_s, Close> file_;
};

}  // namespace dtrain
