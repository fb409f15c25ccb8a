#include "engine/os/libtorch.h"

#include <optional>
#include <sstream>
#include <string>
#include <system_error>

#include "engine/base/error.h"
#include "engine/os/files.h"

namespace dtrain {

namespace fs = std::filesystem;

fs::path FindLibTorch(const fs::path& prefix) {
  const std::optional<std::string> list =
      ReadFile(prefix / "lib" / "dtrain" / "libtorch");
  if (!list) return {};
  std::error_code ignored;
  std::istringstream lines(*list);
  for (std::string line; std::getline(lines, line);) {
    const fs::path candidate = prefix / line;
    if (fs::exists(candidate / "lib" / "libtorch_cpu.so", ignored)) {
      return candidate;
    }
  }
  // A wheel has no such script, because pip installs LibTorch.
  const fs::path fetch = prefix / "bin" / "dtrain-fetch-libtorch";
  const std::string command =
      fs::exists(fetch, ignored)
          ? "run " + fetch.string() + " (a download of 530 MB)"
          : "install it beside dtrain: pip install 'torch==2.11.*'";
  throw Error(ErrorKind::kFailed,
              prefix.string() +
                  ": LibTorch is not installed, and built-in models and "
                  "model_def.cpp need it; " +
                  command);
}

}  // namespace dtrain
