#include "engine/train/checkpoint_reader.h"

#include <cerrno>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/base/unique_fd.h"
#include "engine/train/checkpoint_writer.h"
#include "engine/train/sha256.h"

namespace dtrain {

namespace {

using nlohmann::json;

constexpr std::int64_t kMaxManifest = 1 << 20;

[[noreturn]] void Damaged(const std::string& path, const std::string& what) {
  throw Error(ErrorKind::kFailed,
              "checkpoint " + path + ": " + what +
                  "; it is damaged: go on from another one");
}

// The manifest's entry for one file.
struct Entry {
  std::int64_t bytes = 0;
  std::string sha256;
};

// Reads the file `name` of `directory`: at most `max` bytes, exactly `exact` if
// that is given.
std::vector<std::byte> ReadFile(const std::string& path, int directory,
                                const std::string& name, std::int64_t max,
                                std::optional<std::int64_t> exact) {
  const auto fail = [&](int error) {
    Damaged(path, "'" + name + "' cannot be read: " +
                      std::generic_category().message(error));
  };
  const UniqueFd file(::openat(directory, name.c_str(),
                               O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file) fail(errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail(errno);
  if (!S_ISREG(status.st_mode)) Damaged(path, "'" + name + "' is no file");
  if (status.st_size > max || (exact && status.st_size != *exact)) {
    Damaged(path, "'" + name + "' has " + std::to_string(status.st_size) +
                      " bytes, not " + std::to_string(exact.value_or(max)));
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(status.st_size));
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count =
        ::read(file.get(), bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(errno);
    if (count == 0) Damaged(path, "'" + name + "' got shorter");
    done += static_cast<std::size_t>(count);
  }
  return bytes;
}

std::map<std::string, Entry> ParseManifest(const std::string& path,
                                           std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()),
                              bytes.size());
  const json manifest = json::parse(text, nullptr, false);
  // The text is compared as well, so that no bit of it can be wrong unseen.
  if (manifest.is_discarded() || manifest.dump() != text) {
    Damaged(path, std::string("'") + kManifestName + "' is garbled");
  }
  std::map<std::string, Entry> entries;
  try {
    if (manifest.at("format") != "dtrain-checkpoint" ||
        manifest.at("version") != 1 || manifest.size() != 3) {
      Damaged(path, std::string("'") + kManifestName +
                        "' is of no format that this dtrain reads");
    }
    for (const auto& [name, entry] : manifest.at("files").items()) {
      entries[name] = {.bytes = entry.at("bytes").get<std::int64_t>(),
                       .sha256 = entry.at("sha256").get<std::string>()};
    }
  } catch (const json::exception&) {
    Damaged(path, std::string("'") + kManifestName + "' is garbled");
  }
  return entries;
}

}  // namespace

CheckpointFiles CheckpointFiles::Read(const std::string& path) {
  const UniqueFd directory(
      ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!directory) {
    throw Error(ErrorKind::kFailed, "checkpoint " + path + ": " +
                                        std::generic_category().message(errno) +
                                        "; go on from another one");
  }
  const auto manifest = ReadFile(path, directory.get(), kManifestName,
                                 kMaxManifest, std::nullopt);
  const auto entries = ParseManifest(path, manifest);
  CheckpointFiles checkpoint;
  checkpoint.path_ = path;
  for (const auto& [name, entry] : entries) {
    if (name.find('/') != std::string::npos) {
      Damaged(path, std::string("'") + kManifestName + "' is garbled");
    }
    auto bytes =
        ReadFile(path, directory.get(), name, entry.bytes, entry.bytes);
    if (Sha256Of(bytes) != entry.sha256) {
      Damaged(path, "'" + name + "' does not match its checksum");
    }
    checkpoint.files_.emplace(name, std::move(bytes));
  }
  return checkpoint;
}

std::span<const std::byte> CheckpointFiles::operator[](
    const std::string& name) const {
  const auto found = files_.find(name);
  if (found == files_.end()) return {};
  return found->second;
}

}  // namespace dtrain
