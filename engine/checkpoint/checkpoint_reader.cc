#include "engine/checkpoint/checkpoint_reader.h"

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
#include "engine/base/json_depth.h"
#include "engine/base/text.h"
#include "engine/base/unique_fd.h"
#include "engine/checkpoint/checkpoint_writer.h"
#include "engine/checkpoint/sha256.h"

namespace dtrain {

namespace {

using nlohmann::json;

constexpr std::int64_t kMaxManifest = 1 << 20;

[[noreturn]] void Damaged(const std::string& path, const std::string& what) {
  throw Error(ErrorKind::kDamaged, "checkpoint " + path + ": " +
                                       Truncate(EscapeForTerminal(what), 200) +
                                       "; the checkpoint is damaged");
}

// Something there cannot be read. That may be for want of rights or of memory,
// which says nothing of the bytes.
[[noreturn]] void Unreadable(const std::string& path, const std::string& what,
                             int error) {
  const std::string text = what + std::generic_category().message(error);
  switch (error) {
    case EACCES:
    case EPERM:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      throw Error(ErrorKind::kFailed,
                  "checkpoint " + path + ": " + text +
                      "; see to that, then go on with `dtrain resume`");
    default:
      Damaged(path, text);
  }
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
    Unreadable(path, "'" + name + "' cannot be read: ", error);
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

[[noreturn]] void Garbled(const std::string& path) {
  Damaged(path, std::string("'") + kManifestName + "' is garbled");
}

std::map<std::string, Entry> ParseManifest(const std::string& path,
                                           std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()),
                              bytes.size());
  const json manifest = json::parse(text, nullptr, false);
  if (manifest.is_discarded() || NestsDeeperThan(manifest)) Garbled(path);
  std::map<std::string, Entry> entries;
  try {
    if (manifest.at("format") != "dtrain-checkpoint" ||
        manifest.at("version") != 1 || manifest.size() != 3) {
      Damaged(path, std::string("'") + kManifestName +
                        "' is of no format that this dtrain reads");
    }
    for (const auto& [name, entry] : manifest.at("files").items()) {
      if (!entry.at("bytes").is_number_integer()) Garbled(path);
      entries[name] = {.bytes = entry.at("bytes").get<std::int64_t>(),
                       .sha256 = entry.at("sha256").get<std::string>()};
    }
  } catch (const json::exception&) {
    Garbled(path);
  }
  // What was understood, written out, so that no bit can be wrong unseen.
  json files = json::object();
  for (const auto& [name, entry] : entries) {
    files[name] = {{"sha256", entry.sha256}, {"bytes", entry.bytes}};
  }
  if (ManifestText(files) != text) Garbled(path);
  return entries;
}

UniqueFd OpenDirectory(const std::string& path) {
  UniqueFd directory(
      ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!directory) Unreadable(path, "cannot be opened: ", errno);
  return directory;
}

// The file `name`, which is as the manifest says.
std::vector<std::byte> ReadVerified(const std::string& path, int directory,
                                    const std::string& name,
                                    const Entry& entry) {
  // One that the file system would take for another name is none.
  if (name.find_first_of(std::string_view("/\0", 2)) != std::string::npos) {
    Garbled(path);
  }
  auto bytes = ReadFile(path, directory, name, entry.bytes, entry.bytes);
  if (Sha256Of(bytes) != entry.sha256) {
    Damaged(path, "'" + name + "' does not match its checksum");
  }
  return bytes;
}

}  // namespace

CheckpointFiles CheckpointFiles::Read(const std::string& path) {
  const UniqueFd directory = OpenDirectory(path);
  const auto manifest = ReadFile(path, directory.get(), kManifestName,
                                 kMaxManifest, std::nullopt);
  CheckpointFiles checkpoint;
  checkpoint.path_ = path;
  for (const auto& [name, entry] : ParseManifest(path, manifest)) {
    checkpoint.files_.emplace(name,
                              ReadVerified(path, directory.get(), name, entry));
  }
  return checkpoint;
}

CheckpointSummary SummarizeCheckpoint(const std::string& path) {
  const UniqueFd directory = OpenDirectory(path);
  const auto manifest = ReadFile(path, directory.get(), kManifestName,
                                 kMaxManifest, std::nullopt);
  const auto entries = ParseManifest(path, manifest);
  const auto found = entries.find(kStateName);
  if (found == entries.end()) Damaged(path, "it has no 'state.json'");
  const auto bytes =
      ReadVerified(path, directory.get(), kStateName, found->second);
  const json state = json::parse(
      reinterpret_cast<const char*>(bytes.data()),
      reinterpret_cast<const char*>(bytes.data()) + bytes.size(), nullptr,
      /*allow_exceptions=*/false);
  CheckpointSummary summary;
  try {
    summary.batches = state.at("batches").get<std::int64_t>();
    summary.epoch = state.at("epoch").get<double>();
  } catch (const json::exception&) {
    Damaged(path, "'state.json' makes no sense");
  }
  summary.bytes = static_cast<std::int64_t>(manifest.size());
  summary.files[kManifestName] = Sha256Of(manifest);
  for (const auto& [name, entry] : entries) {
    summary.bytes += entry.bytes;
    summary.files[name] = entry.sha256;
  }
  return summary;
}

std::span<const std::byte> CheckpointFiles::operator[](
    const std::string& name) const {
  const auto found = files_.find(name);
  if (found == files_.end()) return {};
  return found->second;
}

}  // namespace dtrain
