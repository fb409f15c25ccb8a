#include <iostream>
#include <memory>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "engine/app/provenance.h"
#include "engine/os/installation.h"

namespace dtrain {
namespace {

struct VersionOptions : JsonOption {};

int Version(const VersionOptions& options) {
  const auto versions = LibraryVersions();
  if (options.json) {
    nlohmann::json document = nlohmann::json::object();
    for (const auto& [library, version] : versions) {
      document[library] = version;
    }
    PrintJson({{"version", versions.front().second}, {"libraries", document}});
    return kExitDone;
  }
  for (const auto& [library, version] : versions) {
    std::cout << library << ' ' << version << '\n';
  }
  return kExitDone;
}

}  // namespace

CommandRun SetUpVersion(CLI::App& app) {
  auto options = std::make_shared<VersionOptions>();
  AddJsonOption(app, *options);
  SetHelp(app,
          {.exits = {{kExitDone}, {kExitUsage}},
           .examples = {{"Show all versions", "dtrain version"},
                        {"Print the version of SQLite",
                         "dtrain version --json | jq -r .libraries.sqlite"}}});
  return [options](const GlobalOptions&) { return Version(*options); };
}

CommandRun SetUpPythonPath(CLI::App& app) {
  SetHelp(app, {.notes = "A wheel has the module in site-packages as well.",
                .exits = {{kExitDone}, {kExitUsage}},
                .examples = {{"Use the module outside trials, as in a notebook",
                              "export PYTHONPATH=$(dtrain python-path)"},
                             {"List its files",
                              "ls \"$(dtrain python-path)\"/dtrain"}}});
  return [](const GlobalOptions&) {
    std::cout << (InstallPrefix() / "lib" / "dtrain" / "python").string()
              << '\n';
    return kExitDone;
  };
}

}  // namespace dtrain
