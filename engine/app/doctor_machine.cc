// `dtrain doctor`: the SQLite library, the disk, locks and the machine.

#include <array>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <thread>

#include <sys/stat.h>
#include <sys/statvfs.h>

#include "engine/app/doctor.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/report/format.h"
#include "engine/slots/slots.h"
#include "engine/store/file_system.h"
#include "engine/store/store.h"
#include "engine/store/write_lock.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kLittleSpace = std::int64_t{1} << 30;
constexpr std::int64_t kLongWal = std::int64_t{128} << 20;

Finding Well(const std::string& check, const std::string& text) {
  return {check, Finding::Kind::kWell, text};
}

// "3.40.1" as 3040001.
int VersionNumber(const std::string& version) {
  int number = 0;
  for (const std::string& part : Split(version, '.')) {
    number = number * 1000 + std::atoi(part.c_str());
  }
  return number;
}

Finding CheckSqlite() {
  const std::string version = SqliteVersion();
  const bool affected = VersionNumber(version) < 3051003;
  return Well(
      "sqlite",
      "SQLite " + version +
          (affected ? " has the WAL-reset bug (fixed in 3.51.3), which "
                      "requires two concurrent writers; dtrain never has two, "
                      "so let no other program write to the store"
                    : ""));
}

Finding CheckDisk(const fs::path& root) {
  struct statvfs state {};
  if (::statvfs(root.c_str(), &state) != 0) {
    return Remark("disk",
                  root.string() + ": cannot read the state of its file system");
  }
  const auto free = static_cast<std::int64_t>(state.f_bavail * state.f_frsize);
  const std::string text = root.string() + ": " + FormatBytes(free) + " free";
  if ((state.f_flag & ST_RDONLY) != 0) {
    return Remark("disk", text + ", read-only; nothing can be recorded here");
  }
  if (free >= kLittleSpace) return Well("disk", text);
  return Remark(
      "disk",
      text +
          "; free some space, 'dtrain gc --dry-run' lists what can be deleted");
}

Finding CheckFileSystem(const fs::path& root) {
  const FileSystem system = FindFileSystem(root);
  switch (system.kind) {
    case FileSystem::Kind::kLocal:
      return Well("file system", "local file system");
    case FileSystem::Kind::kPerhaps:
      return Remark("file system", root.string() + ": is on " + system.name +
                                       "; if that is a network file system, "
                                       "let only one machine write to it");
    case FileSystem::Kind::kNetworked:
      break;
  }
  return Remark("file system",
                root.string() + ": is on " + system.name +
                    ", where writers on two machines damage a database; move "
                    "it to a local disk, or let only one machine write to it");
}

void CheckMode(const fs::path& path, DoctorFindings& findings) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || (status.st_mode & 077) == 0) return;
  std::array<char, 16> mode{};
  std::snprintf(mode.data(), mode.size(), "%04o", status.st_mode & 07777);
  findings.push_back(
      Remark("modes",
             path.string() + ": mode " + mode.data() +
                 ", so other users have access; " +
                 NamedCommand("chmod go= " + QuotePathForShell(path.string())) +
                 " restricts it to you"));
}

DoctorFindings CheckModes(const StoreLayout& layout) {
  DoctorFindings findings;
  CheckMode(layout.root(), findings);
  CheckMode(layout.Database(), findings);
  CheckMode(layout.WriteLock(), findings);
  CheckMode(layout.Experiments(), findings);
  if (findings.empty()) {
    findings.push_back(Well("modes", "only you can read the store"));
  }
  return findings;
}

// Writers hold the lock for only some milliseconds.
Finding CheckWriteLock(const StoreLayout& layout) {
  try {
    WriteLock lock(layout.WriteLock());
    std::string held;
    for (int tries = 0; tries < 100; ++tries) {
      if (lock.TryAcquire()) {
        // A program other than dtrain holds only SQLite's own locks.
        const auto holder = DatabaseHolder(layout.Database());
        lock.Release();
        if (!holder) return Well("write lock", "free");
        held =
            layout.Database().string() + ": held for two seconds by " + *holder;
      } else {
        held = layout.WriteLock().string() + ": held for two seconds by " +
               lock.Holder();
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return Remark("write lock", held + "; check that process");
  } catch (const Error& error) {
    return Remark("write lock", error.what());
  }
}

Finding CheckWal(const StoreLayout& layout) {
  std::error_code error;
  const auto size = fs::file_size(layout.Database().string() + "-wal", error);
  const auto bytes = error ? 0 : static_cast<std::int64_t>(size);
  const std::string text = "write-ahead log of " + FormatBytes(bytes);
  if (bytes < kLongWal) return Well("wal", text);
  return Remark(
      "wal", text + ": a long-running reader keeps it from shrinking; " +
                 NamedCommand("fuser " +
                              QuotePathForShell(layout.Database().string())) +
                 " lists such processes");
}

}  // namespace

DoctorFindings CheckSurroundings(const StoreLayout& layout) {
  DoctorFindings findings = {CheckSqlite(), CheckDisk(layout.root()),
                             CheckFileSystem(layout.root())};
  for (Finding& finding : CheckModes(layout)) {
    findings.push_back(std::move(finding));
  }
  findings.push_back(CheckWriteLock(layout));
  findings.push_back(CheckWal(layout));
  return findings;
}

DoctorFindings CheckMachine() {
  const GpuSearch search = FindGpus(std::chrono::seconds(10));
  const std::vector<Gpu>& gpus = search.gpus;
  const std::int64_t cpus = UsableCpus();
  std::size_t free = 0;
  const auto uses = SlotsInUse(gpus, cpus);
  for (const SlotUse& use : uses) free += use.free() ? 1 : 0;
  DoctorFindings findings = {Well(
      "slots", std::to_string(gpus.size()) + " GPUs, " + std::to_string(cpus) +
                   " CPUs; " + std::to_string(free) + " of " +
                   std::to_string(uses.size()) + " slots are free")};
  if (!search.problem.empty()) {
    findings.push_back(Remark("slots", search.problem));
    return findings;
  }
  for (const std::string& warning : search.warnings) {
    findings.push_back(Remark("slots", warning));
  }
  return findings;
}

}  // namespace dtrain
