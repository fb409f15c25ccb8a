#include "engine/plugin/model_sources.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <string_view>

#include "engine/base/error.h"
#include "engine/context/context_list.h"
#include "engine/os/files.h"
#include "engine/os/sha256.h"
#include "engine/os/system_error.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

bool ContainsWord(std::string_view text,
                  std::span<const std::string_view> words) {
  return std::ranges::find(words, text) != words.end();
}

bool IsSource(const fs::path& file) {
  constexpr std::array<std::string_view, 3> kExtensions = {".cpp", ".cc",
                                                           ".cxx"};
  return ContainsWord(file.extension().native(), kExtensions) &&
         !file.stem().native().ends_with("_test");
}

bool IsHeader(const fs::path& file) {
  constexpr std::array<std::string_view, 6> kExtensions = {
      ".h", ".hh", ".hpp", ".hxx", ".inc", ".ipp"};
  return ContainsWord(file.extension().native(), kExtensions);
}

[[noreturn]] void RefuseSource(const fs::path& where, const std::string& why) {
  throw Error(ErrorKind::kUsage, where.string() + ": " + why);
}

// With its size, so that no two lists of texts are one sequence of bytes.
void Add(std::string_view text, Sha256& hash) {
  const std::uint64_t size = text.size();
  hash.Update(std::as_bytes(std::span(&size, 1)));
  hash.Update(std::as_bytes(std::span(text)));
}

std::string Contents(const fs::path& file) {
  auto text = ReadFile(file);
  if (text) return *std::move(text);
  RefuseSource(file, std::string("cannot read: ") + ErrnoText());
}

}  // namespace

bool HasOwnModel(const std::string& entrypoint, const fs::path& directory) {
  std::error_code ignored;
  return entrypoint.starts_with("model_def:") &&
         fs::is_regular_file(directory / kModelDefinition, ignored);
}

ModelSources FindModelSources(const fs::path& directory) {
  ModelSources found{.directory = directory.empty() ? "." : directory};
  // Other files would be missing when the experiment is resumed.
  for (const ContextFile& file : ListContext(found.directory).files) {
    const fs::path path(file.path);
    if (!path.has_parent_path() && IsSource(path)) {
      found.sources.push_back(path);
    } else if (IsHeader(path)) {
      found.headers.push_back(path);
    } else {
      continue;
    }
    found.real_paths.insert(file.source);
  }
  return found;
}

std::string ContentHash(const ModelSources& sources) {
  Sha256 hash;
  for (const auto* files : {&sources.sources, &sources.headers}) {
    for (const fs::path& file : *files) {
      Add(file.native(), hash);
      Add(Contents(sources.directory / file), hash);
    }
  }
  return hash.Finish();
}

}  // namespace dtrain
