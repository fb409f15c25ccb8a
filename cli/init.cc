#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>
#include <span>
#include <string>

#include <sys/stat.h>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/skeleton.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/os/installation.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

struct InitOptions : JsonOption {
  std::string directory;
};

struct SkeletonFile {
  const char* name;
  std::string_view text;
  mode_t mode;
};

constexpr std::array kSkeleton = {
    SkeletonFile{"model_def.cpp", kSkeletonModel, 0644},
    SkeletonFile{"const.yaml", kSkeletonConfig, 0644},
    SkeletonFile{"test.sh", kSkeletonTest, 0755},
};

// Returns the quoted path of this program, valid in any directory.
std::string QuotedProgram(const GlobalOptions& globals) {
  std::string program = globals.argv.empty() ? "dtrain" : globals.argv.front();
  if (program.find('/') != std::string::npos) {
    std::error_code ignored;
    program = fs::absolute(program, ignored).lexically_normal().string();
  } else {
    program = OwnProgram().string();  // PATH may be another one later
  }
  return QuotePathForShell(program);
}

// The text of `file`, with this program in the place of `dtrain`.
std::string SkeletonText(const SkeletonFile& file,
                         const GlobalOptions& globals) {
  constexpr std::string_view kDefault = "${DTRAIN:-dtrain}";
  std::string text(file.text);
  const std::size_t at = text.find(kDefault);
  if (at == std::string::npos) return text;
  return text.replace(at, kDefault.size(),
                      "${DTRAIN:-" + QuotedProgram(globals) + "}");
}

// Throws unless all files can be created without overwriting one.
void RequireFree(const fs::path& directory) {
  std::error_code ignored;
  for (const SkeletonFile& file : kSkeleton) {
    if (!fs::exists(fs::symlink_status(directory / file.name, ignored))) {
      continue;
    }
    throw Error(ErrorKind::kUsage,
                (directory / file.name).string() +
                    ": already exists; choose another directory");
  }
}

void MakeDirectory(const fs::path& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (fs::is_directory(directory)) return;
  throw Error(ErrorKind::kUsage,
              directory.string() + ": cannot create the directory: " +
                  (error ? error.message() : "a file of that name exists") +
                  "; choose another one");
}

void Write(const fs::path& directory, const SkeletonFile& file,
           const GlobalOptions& globals) {
  NewFile out(directory / file.name, /*replace=*/false);
  const std::string text = SkeletonText(file, globals);
  out.Write(std::as_bytes(std::span(text)));
  out.Keep();
  const mode_t mask = ::umask(0);
  ::umask(mask);
  ::chmod((directory / file.name).c_str(), file.mode & ~mask);
}

int Init(const InitOptions& options, const GlobalOptions& globals) {
  const fs::path directory(options.directory);
  MakeDirectory(directory);
  RequireFree(directory);
  nlohmann::json files = nlohmann::json::array();
  for (const SkeletonFile& file : kSkeleton) {
    Write(directory, file, globals);
    files.push_back((directory / file.name).string());
  }
  if (options.json) {
    PrintJson({{"directory", directory.string()}, {"files", files}});
    return kExitDone;
  }
  for (const std::string file : files) {
    std::cout << EscapeForTerminal(file) << '\n';
  }
  const std::string create =
      "dtrain create " + QuotePathForShell((directory / "const.yaml").string());
  PrintNotice(globals, NamedCommand(create + " --test") +
                           " runs a smoke test; without --test it trains");
  return kExitDone;
}

}  // namespace

CommandRun SetUpInit(CLI::App& app) {
  auto options = std::make_shared<InitOptions>();
  AddOption(app, "DIR", options->directory,
            "Directory to create; existing files are kept")
      .Required()
      .IsPath();
  AddJsonOption(app, *options);
  SetHelp(app,
          {.notes = "Writes model_def.cpp (a model to edit), const.yaml (its "
                    "experiment) and test.sh (a test).",
           .exits = {{kExitDone},
                     {kExitFailed, "a file cannot be written"},
                     {kExitUsage,
                      "invalid usage, or one of the files already exists"}},
           .examples = {{"Create a template", "dtrain init my-model"},
                        {"Smoke-test the template",
                         "dtrain create my-model/const.yaml --test"}}});
  return RunWith(Init, options);
}

}  // namespace dtrain
