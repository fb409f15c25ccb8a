#include "engine/checkpoint/checkpoint_reader.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/base/json_depth.h"
#include "engine/base/text.h"
#include "engine/checkpoint/checkpoint_writer.h"
#include "engine/os/sha256.h"
#include "engine/os/unique_fd.h"

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

// The file `name` of `directory`, opened, and its size: at most `max` bytes,
// exactly `exact` if that is given.
struct OpenFile {
  UniqueFd fd;
  std::int64_t bytes = 0;
};

// Opens what `name`, whose parts are joined by slashes, names inside of
// `directory`; no part of it may be a link. Not open, with errno, if not.
UniqueFd OpenInside(int directory, const std::string& name) {
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  const std::vector<std::string> parts = Split(name, '/');
  UniqueFd inner;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const int flags = i + 1 < parts.size() ? kFlags | O_DIRECTORY : kFlags;
    const int from = inner ? inner.get() : directory;
    UniqueFd next(::openat(from, parts[i].c_str(), flags));
    if (!next) return {};
    inner = std::move(next);
  }
  return inner;
}

OpenFile Open(const std::string& path, int directory, const std::string& name,
              std::int64_t max, std::optional<std::int64_t> exact) {
  UniqueFd file = OpenInside(directory, name);
  const auto fail = [&] {
    Unreadable(path, "'" + name + "' cannot be read: ", errno);
  };
  if (!file) fail();
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail();
  if (!S_ISREG(status.st_mode)) Damaged(path, "'" + name + "' is no file");
  if (status.st_size > max || (exact && status.st_size != *exact)) {
    Damaged(path, "'" + name + "' has " + std::to_string(status.st_size) +
                      " bytes, not " + std::to_string(exact.value_or(max)));
  }
  return {std::move(file), status.st_size};
}

// Fills `bytes` from the file.
void Fill(const std::string& path, int file, const std::string& name,
          std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::read(file, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      Unreadable(path, "'" + name + "' cannot be read: ", errno);
    }
    if (count == 0) Damaged(path, "'" + name + "' got shorter");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

std::vector<std::byte> ReadFile(const std::string& path, int directory,
                                const std::string& name, std::int64_t max,
                                std::optional<std::int64_t> exact) {
  const OpenFile file = Open(path, directory, name, max, exact);
  std::vector<std::byte> bytes(static_cast<std::size_t>(file.bytes));
  Fill(path, file.fd.get(), name, bytes);
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

// One that the file system would take for another name is none.
void RequireName(const std::string& path, const std::string& name) {
  bool inside = name.find('\0') == std::string::npos;
  for (const std::string& part : Split(name, '/')) {
    inside = inside && !part.empty() && part != "." && part != "..";
  }
  if (!inside) Garbled(path);
}

void RequireSum(const std::string& path, const std::string& name,
                const std::string& sum, const Entry& entry) {
  if (sum == entry.sha256) return;
  Damaged(path, "'" + name + "' does not match its checksum");
}

// The file `name`, which is as the manifest says.
std::vector<std::byte> ReadVerified(const std::string& path, int directory,
                                    const std::string& name,
                                    const Entry& entry) {
  RequireName(path, name);
  auto bytes = ReadFile(path, directory, name, entry.bytes, entry.bytes);
  RequireSum(path, name, Sha256Of(bytes), entry);
  return bytes;
}

// The same, but nothing of the file stays in memory.
void CheckFile(const std::string& path, int directory, const std::string& name,
               const Entry& entry) {
  RequireName(path, name);
  const OpenFile file = Open(path, directory, name, entry.bytes, entry.bytes);
  std::vector<std::byte> piece(std::size_t{1} << 20);
  Sha256 sha;
  for (std::int64_t left = file.bytes; left > 0;) {
    const auto now = std::min<std::int64_t>(left, std::ssize(piece));
    const std::span bytes =
        std::span(piece).first(static_cast<std::size_t>(now));
    Fill(path, file.fd.get(), name, bytes);
    sha.Update(bytes);
    left -= now;
  }
  RequireSum(path, name, sha.Finish(), entry);
}

json ParseState(std::span<const std::byte> bytes) {
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  return json::parse(text, text + bytes.size(), nullptr,
                     /*allow_exceptions=*/false);
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

nlohmann::json CheckCheckpoint(const std::string& path) {
  const UniqueFd directory = OpenDirectory(path);
  const auto manifest = ReadFile(path, directory.get(), kManifestName,
                                 kMaxManifest, std::nullopt);
  const auto entries = ParseManifest(path, manifest);
  for (const auto& [name, entry] : entries) {
    CheckFile(path, directory.get(), name, entry);
  }
  const auto found = entries.find(kStateName);
  if (found == entries.end()) Damaged(path, "it has no 'state.json'");
  const auto bytes =
      ReadVerified(path, directory.get(), kStateName, found->second);
  return ParseState(bytes);
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
  const json state = ParseState(bytes);
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
