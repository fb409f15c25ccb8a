#include "cli/provenance.h"

#include <fstream>

#include <sys/utsname.h>
#include <unistd.h>

#include <pwd.h>

#include "cli/build_info.h"
#include "cli/child_output.h"
#include "cli/library_versions.h"
#include "engine/base/text.h"

namespace dtrain {
namespace {

using nlohmann::json;

constexpr Duration kGitLimit = std::chrono::seconds(1);

json Commit(const std::string& directory) {
  auto commit = ChildOutput(
      {"git", "-C", directory, "rev-parse", "--verify", "HEAD"}, kGitLimit);
  if (!commit) return nullptr;
  return commit->substr(0, commit->find('\n'));
}

// Files that git does not track say nothing: the store may be one of them.
json Dirty(const std::string& directory) {
  const auto changes =
      ChildOutput({"git", "--no-optional-locks", "-C", directory, "status",
                   "--porcelain", "--untracked-files=no"},
                  kGitLimit);
  return changes ? json(!changes->empty()) : json(nullptr);
}

json Git(const std::filesystem::path& config_directory) {
  const std::string directory =
      config_directory.empty() ? "." : config_directory.string();
  const json commit = Commit(directory);
  if (commit.is_null()) return nullptr;
  return {{"commit", commit}, {"dirty", Dirty(directory)}};
}

json User() {
  const passwd* user = getpwuid(geteuid());
  if (user == nullptr) return std::to_string(geteuid());
  return user->pw_name;
}

json CpuModel() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with("model name")) continue;
    const std::size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return nullptr;
}

json GpusJson(const std::vector<Gpu>& gpus) {
  json array = json::array();
  for (const Gpu& gpu : gpus) {
    array.push_back({{"index", gpu.index},
                     {"name", gpu.name},
                     {"uuid", gpu.uuid},
                     {"memory_bytes", gpu.memory_bytes},
                     {"driver", gpu.driver}});
  }
  return array;
}

json ContextDirectory(const std::filesystem::path& directory) {
  std::error_code error;
  const auto path =
      std::filesystem::absolute(directory.empty() ? "." : directory, error);
  return error ? json(nullptr) : json(path.lexically_normal().string());
}

json WorkingDirectory() {
  std::error_code error;
  const auto path = std::filesystem::current_path(error);
  return error ? json(nullptr) : json(path.string());
}

}  // namespace

json Provenance(const std::vector<std::string>& argv,
                const std::filesystem::path& config_directory,
                const std::vector<Gpu>& gpus) {
  json libraries = json::object();
  for (const auto& [library, version] : LibraryVersions()) {
    libraries[library] = version;
  }
  json words = json::array();
  for (const std::string& word : argv) words.push_back(ToValidUtf8(word));
  utsname system{};
  uname(&system);
  return {{"argv", std::move(words)},
          {"cwd", WorkingDirectory()},
          {"context", ContextDirectory(config_directory)},
          {"git", Git(config_directory)},
          {"host", system.nodename},
          {"user", User()},
          {"kernel", std::string(system.sysname) + " " + system.release},
          {"cpu", {{"model", CpuModel()}, {"count", UsableCpus()}}},
          {"gpus", GpusJson(gpus)},
          {"libraries", std::move(libraries)},
          {"version", kVersion}};
}

}  // namespace dtrain
