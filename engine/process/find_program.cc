#include "engine/process/find_program.h"

#include <unistd.h>

#include "engine/base/error.h"
#include "engine/base/text.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

// Why the file cannot be executed, or empty.
std::string Obstacle(const fs::path& file) {
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  if (!fs::exists(status)) return "there is no such file";
  if (!fs::is_regular_file(status)) return "is no file";
  if (::access(file.c_str(), X_OK) == 0) return "";
  return "may not be executed; chmod +x it, or name its interpreter first";
}

[[noreturn]] void Fail(const std::string& what) {
  throw Error(ErrorKind::kFailed, EscapeForTerminal(what));
}

}  // namespace

fs::path FindProgram(const std::string& word, const fs::path& directory,
                     const std::string& path) {
  if (word.find('/') != std::string::npos) {
    const fs::path file = (directory / word).lexically_normal();
    const std::string obstacle = Obstacle(file);
    if (!obstacle.empty()) Fail(file.string() + ": " + obstacle);
    return file;
  }
  for (const std::string& part : Split(path, ':')) {
    // An empty part means the working directory, as in a shell.
    const fs::path file = directory / part / word;
    if (Obstacle(file).empty()) return file;
  }
  Fail("there is no program '" + word + "' in PATH (" + Truncate(path, 300) +
       "); install it, or name it with a path, as ./" + word);
}

}  // namespace dtrain
