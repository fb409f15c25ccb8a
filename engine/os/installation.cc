// Where the parts of this installation are, relative to the program's own file:
// dtrain may be unpacked anywhere, by a package or a wheel. The build id is the
// note that the linker writes into the program (ELF, NT_GNU_BUILD_ID); it is
// read from the mapped segments, so that it is that of the running code even if
// the file has been replaced.

#include "engine/os/installation.h"

#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>

#include <features.h>
#include <link.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/os/files.h"

namespace dtrain {

namespace fs = std::filesystem;

namespace {

fs::path FindHost(const char* name, const std::string& how) {
  fs::path host = InstallPrefix() / "libexec" / "dtrain" / name;
  std::error_code ignored;
  if (fs::exists(host, ignored)) return host;
  throw Error(ErrorKind::kFailed,
              host.string() +
                  ": the program that runs trials is missing; build or install "
                  "dtrain" +
                  how);
}

}  // namespace

fs::path OwnProgram() {
  std::error_code error;
  fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error) return program;
  throw Error(ErrorKind::kFailed, "cannot read /proc/self/exe: " +
                                      error.message() + "; mount /proc");
}

std::string BuildId() {
  std::string id;
  // Called for the program itself first.
  const auto visit = [](dl_phdr_info* program, std::size_t, void* into) {
    for (int i = 0; i < program->dlpi_phnum; ++i) {
      const ElfW(Phdr)& header = program->dlpi_phdr[i];
      if (header.p_type != PT_NOTE) continue;
      const auto* at =
          reinterpret_cast<const char*>(program->dlpi_addr + header.p_vaddr);
      const char* const end = at + header.p_memsz;
      const auto padded = [](std::size_t bytes) { return (bytes + 3) / 4 * 4; };
      while (end - at > static_cast<std::ptrdiff_t>(sizeof(ElfW(Nhdr)))) {
        ElfW(Nhdr) note;
        std::memcpy(&note, at, sizeof note);
        const char* const name = at + sizeof note;
        const char* const content = name + padded(note.n_namesz);
        if (note.n_type == NT_GNU_BUILD_ID &&
            std::string_view(name, note.n_namesz) ==
                std::string_view("GNU", 4)) {
          *static_cast<std::string*>(into) =
              ToHex(std::as_bytes(std::span(content, note.n_descsz)));
          return 1;
        }
        at = content + padded(note.n_descsz);
      }
    }
    return 1;  // not the libraries
  };
  ::dl_iterate_phdr(visit, &id);
  return id;
}

fs::path InstallPrefix() { return InstallPrefix(OwnProgram()); }

fs::path InstallPrefix(const fs::path& program) {
  const fs::path directory = program.parent_path();
  const fs::path above = directory.parent_path();
  const bool hosts =
      directory.filename() == "dtrain" && above.filename() == "libexec";
  return hosts ? above.parent_path() : above;
}

namespace {

constexpr const char* kUsers = "built-in models and model_def.cpp";

// Throws Error(kResources) if the torch of an environment is another one than
// `wanted`, "2.11.0". Another patch level will do.
void RequireVersion(const fs::path& torch, const std::string& wanted) {
  const std::string series = wanted.substr(0, wanted.rfind('.') + 1);
  // "2.11.0+cu130" for a torch of pip, which has a file for it.
  const std::string text = ReadFile(torch / "version.py").value_or("");
  constexpr std::string_view kBefore = "__version__ = '";
  std::string version;
  if (const std::size_t at = text.find(kBefore); at != text.npos) {
    const std::size_t begin = at + kBefore.size();
    version = text.substr(begin, text.find('\'', begin) - begin);
  }
  if (version.empty() || version.starts_with(series)) return;
  throw Error(ErrorKind::kResources,
              torch.string() + ": is torch " + version + ", and " + kUsers +
                  " need torch " + series +
                  "*; use an environment of its own for them, where `pip "
                  "install \"./dtrain-….whl[models]\"` installs that; "
                  "programs run with any torch");
}

// Returns the C library's version as a number that can be compared.
int LibcVersion(int major, int minor) { return major * 1000 + minor; }

}  // namespace

void RequireLibc(const std::string& users, std::string_view running) {
  int major = 0;
  int minor = 0;
  std::istringstream text{std::string(running)};
  char point = '.';
  text >> major >> point >> minor;
  if (LibcVersion(major, minor) >= LibcVersion(__GLIBC__, __GLIBC_MINOR__)) {
    return;
  }
  throw Error(ErrorKind::kResources,
              users + " need glibc " + std::to_string(__GLIBC__) + "." +
                  std::to_string(__GLIBC_MINOR__) + ", and this system has " +
                  std::string(running) +
                  "; use a newer system or container for them; programs run "
                  "here");
}

fs::path FindLibTorch(const fs::path& prefix) {
  const std::optional<std::string> list =
      ReadFile(prefix / "lib" / "dtrain" / "libtorch");
  if (!list) return {};
  RequireLibc(kUsers);
  std::error_code ignored;
  std::istringstream lines(*list);
  std::string wanted;
  std::getline(lines, wanted);
  for (std::string line; std::getline(lines, line);) {
    const fs::path candidate = prefix / line;
    if (fs::exists(candidate / "lib" / "libtorch_cpu.so", ignored)) {
      RequireVersion(candidate, wanted);
      return candidate;
    }
  }
  // A wheel has no such script, because pip installs LibTorch.
  const fs::path fetch = prefix / "bin" / "dtrain-fetch-libtorch";
  const std::string command =
      fs::exists(fetch, ignored)
          ? "run " + fetch.string() + " (a download of 530 MB)"
          : "install it beside dtrain: pip install "
            "\"./dtrain-….whl[models]\"";
  throw Error(ErrorKind::kResources, prefix.string() +
                                         ": LibTorch is not installed, and " +
                                         kUsers + " need it; " + command);
}

fs::path FindTrialHost() {
  fs::path host = FindHost("trial-host", " with LibTorch");
  // The dynamic linker would report a missing LibTorch only in a trial's log.
  (void)FindLibTorch(InstallPrefix());
  return host;
}

fs::path FindCommandHost() { return FindHost("command-host", ""); }

}  // namespace dtrain
