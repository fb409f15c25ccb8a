// Resources of groups of processes, from /proc. A trial's launcher may start
// processes in sessions of their own, so the session is not enough; but a trial
// is a subreaper, so parents always lead to it.
//
// One pass lists all processes and reads `stat` of those that are not known to
// be others. Processes come and go meanwhile: one whose files cannot be read
// has ended. One whose parent was not seen in the same pass is looked at again
// in the next, since its parent may have just died.

#include "engine/os/process_meter.h"

#include <algorithm>
#include <charconv>
#include <cstdio>

#include <fcntl.h>
#include <unistd.h>

#include "engine/os/unique_fd.h"

namespace dtrain {
namespace {

// Returns the number after `name` in lines of "name: number", if it is there.
std::optional<std::int64_t> FindNumber(std::string_view text,
                                       std::string_view name) {
  std::size_t at = text.find(name);
  while (at != text.npos && at > 0 && text[at - 1] != '\n') {
    at = text.find(name, at + 1);
  }
  if (at == text.npos) return std::nullopt;
  at = text.find_first_not_of(" \t", at + name.size());
  if (at == text.npos) return std::nullopt;
  std::int64_t number = 0;
  const auto [end, error] =
      std::from_chars(text.data() + at, text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  return number;
}

void AddTo(std::optional<std::int64_t>& sum,
           std::optional<std::int64_t> number) {
  if (number) sum = sum.value_or(0) + *number;
}

}  // namespace

ProcessMeter::ProcessMeter(const std::string& proc)
    : directory_(::opendir(proc.c_str()), ::closedir) {}

void ProcessMeter::Add(std::int64_t group,
                       const std::vector<std::int64_t>& roots) {
  for (const std::int64_t root : roots) {
    roots_[root] = group;
    std::erase(others_, root);
  }
}

void ProcessMeter::Remove(std::int64_t group) {
  std::erase_if(roots_,
                [group](const auto& root) { return root.second == group; });
}

std::map<std::int64_t, ProcessUse> ProcessMeter::Read(bool thorough) {
  std::map<std::int64_t, ProcessUse> uses;
  for (const auto& [root, group] : roots_) uses[group];
  if (directory_ == nullptr) return uses;
  if (thorough) others_.clear();
  ReadEntries();
  Classify();
  for (const auto& [process, group] : entries_) {
    if (group) AddUse(process, thorough, uses[*group]);
  }
  return uses;
}

void ProcessMeter::ReadEntries() {
  entries_.clear();
  std::vector<std::int64_t> others;  // that still live
  ::rewinddir(directory_.get());
  while (const dirent* entry = ::readdir(directory_.get())) {
    const std::string_view name = entry->d_name;
    std::int64_t pid = 0;
    const auto [end, error] =
        std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error != std::errc() || end != name.data() + name.size()) continue;
    if (std::ranges::binary_search(others_, pid)) {
      others.push_back(pid);
    } else if (const auto process = ParseProcess(pid, ReadText(pid, "stat"))) {
      entries_.push_back({*process, std::nullopt});
    }
  }
  std::ranges::sort(others);
  others_ = std::move(others);
  std::ranges::sort(entries_, {},
                    [](const Entry& it) { return it.process.pid; });
}

// A child may have a lower number than its parent, so this repeats until no
// further process is found to belong to a group.
void ProcessMeter::Classify() {
  for (bool changed = true; changed;) {
    changed = false;
    for (Entry& entry : entries_) {
      if (entry.group) continue;
      entry.group = FindGroup(entry.process);
      changed = changed || entry.group.has_value();
    }
  }
  const auto known = static_cast<std::ptrdiff_t>(others_.size());
  for (const auto& [process, group] : entries_) {
    const std::int64_t parent = process.parent;
    const bool is_other =
        !group &&
        (parent == 0 || Find(parent) != nullptr ||
         std::binary_search(others_.begin(), others_.begin() + known, parent));
    if (is_other) others_.push_back(process.pid);
  }
  std::ranges::sort(others_);
}

const ProcessMeter::Entry* ProcessMeter::Find(std::int64_t pid) const {
  const auto found = std::ranges::lower_bound(
      entries_, pid, {}, [](const Entry& it) { return it.process.pid; });
  return found != entries_.end() && found->process.pid == pid ? &*found
                                                              : nullptr;
}

std::optional<std::int64_t> ProcessMeter::FindGroup(
    const Process& process) const {
  for (const std::int64_t pid : {process.pid, process.session}) {
    const auto root = roots_.find(pid);
    if (root != roots_.end()) return root->second;
  }
  const Entry* parent = Find(process.parent);
  return parent == nullptr ? std::nullopt : parent->group;
}

void ProcessMeter::AddUse(const Process& process, bool thorough,
                          ProcessUse& use) {
  static const double kTicks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  static const std::int64_t kPage = ::sysconf(_SC_PAGESIZE);
  if (!process.zombie) ++use.processes;
  use.cpu_seconds += static_cast<double>(process.cpu_ticks) / kTicks;
  use.memory_bytes += process.resident_pages * kPage;
  const std::string_view io = ReadText(process.pid, "io");
  AddTo(use.read_bytes, FindNumber(io, "read_bytes:"));
  AddTo(use.written_bytes, FindNumber(io, "write_bytes:"));
  if (!thorough) return;
  const std::string_view memory = ReadText(process.pid, "smaps_rollup");
  if (const auto kilobytes = FindNumber(memory, "Pss:")) {
    AddTo(use.pss_bytes, *kilobytes * 1024);
  }
}

// The text is valid until the next call; empty if it cannot be read.
std::string_view ProcessMeter::ReadText(std::int64_t pid, const char* name) {
  std::array<char, 64> path{};
  std::snprintf(path.data(), path.size(), "%lld/%s",
                static_cast<long long>(pid), name);
  const UniqueFd file(
      ::openat(::dirfd(directory_.get()), path.data(), O_RDONLY | O_CLOEXEC));
  if (!file) return {};
  const ssize_t count = ::read(file.get(), buffer_.data(), buffer_.size());
  return {buffer_.data(), count > 0 ? static_cast<std::size_t>(count) : 0};
}

}  // namespace dtrain
