#include "cli/run_options.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>

#include <CLI/CLI.hpp>

#include "cli/requirements.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/base/unique_fd.h"

namespace dtrain {
namespace {

void CheckWritable(const std::string& path) {
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
  if (file) return;
  throw Error(ErrorKind::kUsage,
              "--junit: cannot write '" + path + "': " + std::strerror(errno) +
                  "; name a file in a directory that you may write to");
}

}  // namespace

void AddRunFlags(CLI::App& app, RunFlags& flags) {
  auto* detach = app.add_flag("-d,--detach", flags.detach,
                              "Run in the background, print the id");
  app.add_option("--require", flags.require,
                 "Exit 4 unless it holds: accuracy>=0.9 and loss<0.5")
      ->type_name("EXPR")
      ->allow_extra_args(false)
      ->excludes(detach);
  app.add_option("--timeout", flags.timeout_text,
                 "Pause after this time, exit 124: 90, 30m, 1.5h")
      ->type_name("TIME");
  auto* json = app.add_flag("--json", flags.json, "End with one JSON document");
  app.add_flag("--jsonl", flags.jsonl, "Every event as a line of JSON")
      ->excludes(json)
      ->excludes(detach);
  app.add_option("--junit", flags.junit, "Write a JUnit report")
      ->type_name("FILE")
      ->excludes(detach);
}

RunRequest CheckRunFlags(const RunFlags& flags) {
  RunRequest request{.detach = flags.detach,
                     .json = flags.json,
                     .jsonl = flags.jsonl,
                     .junit = flags.junit,
                     .requirements = ParseRequirements(flags.require)};
  if (!flags.timeout_text.empty()) {
    request.timeout = ParseDuration(flags.timeout_text, "--timeout");
  }
  if (!flags.junit.empty()) CheckWritable(flags.junit);
  return request;
}

}  // namespace dtrain
