#include "cli/run_options.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>

#include "cli/options.h"
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
  const CliOption detach = AddFlag(app, "-d,--detach", flags.detach,
                                   "Run in the background, print the id");
  AddOption(app, "--require", flags.require,
            "Exit 4 unless it holds: accuracy>=0.9 and loss<0.5")
      .TypeName("EXPR")
      .OneEach()
      .Excludes(detach);
  AddOption(app, "--timeout", flags.timeout_text,
            "Pause after this time, exit 124: 90, 30m, 1.5h")
      .TypeName("TIME");
  const CliOption json =
      AddFlag(app, "--json", flags.json, "End with one JSON document");
  AddFlag(app, "--jsonl", flags.jsonl, "Every event as a line of JSON")
      .Excludes(json)
      .Excludes(detach);
  AddOption(app, "--junit", flags.junit, "Write a JUnit report")
      .TypeName("FILE")
      .Excludes(detach);
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
