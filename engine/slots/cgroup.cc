#include "engine/slots/cgroup.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "engine/base/text.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

bool Lists(const std::string& commas, const std::string& name) {
  const std::vector<std::string> names = Split(commas, ',');
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Returns the mount point of the hierarchy of `controller`; an empty one means
// version 2, whose mounts list no controllers.
std::optional<fs::path> MountPoint(const std::string& controller,
                                   const fs::path& proc) {
  std::ifstream mounts(proc / "self/mounts");
  std::string device, point, type, options, rest;
  while (mounts >> device >> point >> type >> options &&
         std::getline(mounts, rest)) {
    const bool found = controller.empty()
                           ? type == "cgroup2"
                           : type == "cgroup" && Lists(options, controller);
    if (found) return point;
  }
  return std::nullopt;
}

std::optional<std::int64_t> ReadNumber(const fs::path& file) {
  std::ifstream stream(file);
  std::int64_t number = 0;
  if (stream >> number) return number;
  return std::nullopt;
}

}  // namespace

// Lines of /proc/self/cgroup are NUMBER:CONTROLLERS:PATH, with no controllers
// for version 2. A limit may be set in any parent, so these are included.
std::vector<fs::path> CgroupDirectories(const std::string& controller,
                                        const fs::path& proc) {
  std::vector<fs::path> directories;
  std::ifstream groups(proc / "self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && !Lists(controllers, controller)) continue;
    const auto root = MountPoint(controllers.empty() ? "" : controller, proc);
    // In a container the path may belong to the outside and not exist here.
    fs::path path = fs::path(line.substr(second + 1)).relative_path();
    for (bool is_last = !root; !is_last; path = path.parent_path()) {
      is_last = path.empty();
      std::error_code error;
      if (!fs::is_directory(*root / path, error)) continue;
      directories.push_back(path.empty() ? *root : *root / path);
    }
  }
  return directories;
}

std::optional<std::int64_t> CpuLimit(const fs::path& cgroup) {
  std::int64_t quota = 0;
  std::int64_t period = 0;
  // "max 100000" without a limit, which fails to parse as a number.
  std::ifstream version2(cgroup / "cpu.max");
  if (!(version2 >> quota >> period)) {
    quota = ReadNumber(cgroup / "cpu.cfs_quota_us").value_or(-1);
    period = ReadNumber(cgroup / "cpu.cfs_period_us").value_or(0);
  }
  if (quota <= 0 || period <= 0) return std::nullopt;
  return (quota + period - 1) / period;
}

OutOfMemoryCounter::OutOfMemoryCounter(const fs::path& proc)
    : file_(proc / "vmstat") {
  for (const fs::path& directory : CgroupDirectories("memory", proc)) {
    for (const char* name : {"memory.events", "memory.oom_control"}) {
      std::error_code error;
      if (fs::exists(directory / name, error)) {
        file_ = directory / name;
        return;
      }
    }
  }
}

std::int64_t OutOfMemoryCounter::Read() const {
  std::ifstream stream(file_);
  std::string name;
  std::int64_t value = 0;
  while (stream >> name >> value) {
    if (name == "oom_kill") return value;
  }
  return 0;
}

}  // namespace dtrain
