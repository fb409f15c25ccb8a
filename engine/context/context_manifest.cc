#include "engine/context/context_manifest.h"

#include <charconv>
#include <filesystem>
#include <optional>
#include <span>

#include "engine/base/error.h"
#include "engine/os/sha256.h"

namespace dtrain {
namespace {

constexpr std::size_t kDigits = 64;  // of a SHA-256

// Nothing that could lead out of the context.
bool IsPlainPath(const std::string& text) {
  const std::filesystem::path path(text);
  return !text.empty() && path.is_relative() && text.back() != '/' &&
         path.lexically_normal().string() == text && *path.begin() != ".." &&
         text != ".";
}

std::optional<StoredFile> ParseFile(std::string_view line) {
  if (line.size() < kDigits + 6 || line[kDigits] != ' ' ||
      line[kDigits + 2] != ' ') {
    return std::nullopt;
  }
  StoredFile file{.executable = line[kDigits + 1] == 'x',
                  .sha256 = std::string(line.substr(0, kDigits))};
  line.remove_prefix(kDigits + 3);
  const char* end = line.data() + line.size();
  const auto [rest, error] = std::from_chars(line.data(), end, file.bytes);
  if (error != std::errc() || rest == end || *rest != ' ' || file.bytes < 0) {
    return std::nullopt;
  }
  file.path.assign(rest + 1, end);
  if (!IsPlainPath(file.path)) return std::nullopt;
  return file;
}

}  // namespace

std::int64_t ContextManifest::bytes() const {
  std::int64_t sum = 0;
  for (const StoredFile& file : files) sum += file.bytes;
  return sum;
}

std::string ContextManifest::Text() const {
  std::string text;
  for (const StoredFile& file : files) {
    text += file.sha256 + (file.executable ? " x " : " - ") +
            std::to_string(file.bytes) + " " + file.path + '\0';
  }
  return text;
}

std::string ContextManifest::Hash() const {
  const std::string text = Text();
  return Sha256Of(std::as_bytes(std::span(text)));
}

ContextManifest ContextManifest::Parse(std::string_view text,
                                       const std::string& where) {
  ContextManifest manifest;
  while (!text.empty()) {
    const std::size_t end = text.find('\0');
    auto file =
        end == text.npos ? std::nullopt : ParseFile(text.substr(0, end));
    if (!file) {
      throw Error(ErrorKind::kDamaged,
                  where +
                      ": is no list of files; it is damaged: restore it "
                      "from a backup");
    }
    manifest.files.push_back(*std::move(file));
    text.remove_prefix(end + 1);
  }
  return manifest;
}

}  // namespace dtrain
