// The two processes share two pipes and no other state:
//
//   data-fetch SET FROM FORCE PLACE...    the request; FORCE is "force" or ""
//   its standard output                   one JSON object a line: "progress"
//                                         and "say" while it works, and at its
//                                         end one "result" or "error"
//   its standard input                    carries no bytes; dtrain closes it to
//                                         stop the fetch, and the kernel closes
//                                         it if dtrain dies
//
// Ctrl-C reaches both processes, since they are in one process group. The
// program ignores it and waits for dtrain, so that there is one message.

#include "engine/fetch/fetch_program.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <new>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/os/installation.h"
#include "engine/os/line_reader.h"
#include "engine/os/spawn.h"
#include "engine/os/system_error.h"
#include "engine/os/unique_fd.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::chrono::milliseconds kStopPollInterval{100};
constexpr std::chrono::milliseconds kProgressInterval{50};
constexpr std::size_t kMaxLine = std::size_t{1} << 20;
constexpr char kForce[] = "force";
// Exit code of the dynamic linker if a library is missing.
constexpr int kExitNotLoaded = 127;

// The running program, as dtrain sees it.
class FetchProcess {
 public:
  FetchProcess(const DataSet& set, const FetchOptions& options);
  FetchProcess(const FetchProcess&) = delete;
  FetchProcess& operator=(const FetchProcess&) = delete;
  ~FetchProcess() { Wait(); }

  FetchResult Run();

 private:
  void Receive(const json& message);
  ExitStatus Wait();  // empty if it was waited for before

  const fs::path program_ = FindFetchProgram();
  const FetchOptions& options_;
  pid_t pid_ = 0;    // 0: waited for
  UniqueFd input_;   // its standard input; closed to stop it
  UniqueFd output_;  // its standard output
  std::optional<FetchResult> result_;
  std::optional<Error> error_;
};

FetchProcess::FetchProcess(const DataSet& set, const FetchOptions& options)
    : options_(options) {
  Pipe input = MakePipe();
  Pipe output = MakePipe();
  std::vector<std::string> arguments = {program_.string(),
                                        std::string(set.name), options.from,
                                        options.force ? kForce : ""};
  for (const fs::path& place : options.places) {
    arguments.push_back(place.string());
  }
  const pid_t pid = Spawn()
                        .Duplicate(input.reading.get(), STDIN_FILENO)
                        .Duplicate(output.writing.get(), STDOUT_FILENO)
                        .Run(program_, arguments);
  if (pid < 0) ThrowSystemError("start " + program_.string());
  pid_ = pid;
  input_ = std::move(input.writing);
  output_ = std::move(output.reading);
}

void FetchProcess::Receive(const json& message) {
  if (message.contains("progress")) {
    const std::string file = message.at("progress");
    if (options_.progress) {
      options_.progress({file, message.at("bytes"), message.at("expected")});
    }
  } else if (message.contains("say")) {
    if (options_.say) options_.say(message.at("say"));
  } else if (message.contains("error")) {
    error_.emplace(message.at("kind").get<ErrorKind>(),
                   message.at("error").get<std::string>());
  } else {
    const std::string directory = message.at("directory");
    result_ = {.end = message.at("result").get<FetchResult::End>(),
               .found = FoundSet{.state = message.at("state").get<SetState>(),
                                 .directory = directory,
                                 .files = message.at("files"),
                                 .bytes = message.at("bytes")}};
  }
}

ExitStatus FetchProcess::Wait() {
  input_.reset();
  const pid_t pid = std::exchange(pid_, 0);
  return pid == 0 ? ExitStatus{} : AwaitExit(pid);
}

FetchResult FetchProcess::Run() {
  LineReader reader(output_.get(), kMaxLine);
  for (bool open = true; open;) {
    if (options_.stop && options_.stop()) input_.reset();
    pollfd ready{.fd = output_.get(), .events = POLLIN, .revents = 0};
    const int timeout = static_cast<int>(kStopPollInterval.count());
    if (::poll(&ready, 1, timeout) <= 0) continue;
    open = reader.Fill();
    while (const auto line = reader.Next()) {
      try {
        Receive(json::parse(*line));
      } catch (const json::exception& error) {
        throw Error(ErrorKind::kFailed,
                    program_.string() + " printed what it should not: " +
                        error.what() + "; install dtrain again");
      }
    }
  }
  const bool stopped = !input_;
  const ExitStatus status = Wait();
  if (error_) throw *error_;
  if (result_) return *std::move(result_);
  if (stopped) return {.end = FetchResult::End::kStopped};
  throw Error(
      ErrorKind::kFailed,
      program_.string() + ": " + FormatExit(status) +
          " before it had finished; " +
          (status.code == kExitNotLoaded ? "install libcurl4 and libarchive13"
                                         : "run the command again to resume"));
}

// Writes the messages of data-fetch. One thread.
class FetchReport {
 public:
  // At most one line per kProgressInterval, but for the first and the last of a
  // file.
  void Progress(const FetchProgress& progress) {
    const auto now = std::chrono::steady_clock::now();
    const bool edge =
        progress.file != file_ || progress.bytes >= progress.expected;
    if (!edge && now - sent_ < kProgressInterval) return;
    file_ = progress.file;
    sent_ = now;
    Send({{"progress", file_},
          {"bytes", progress.bytes},
          {"expected", progress.expected}});
  }
  // A failure means that dtrain died, which the next look at standard input
  // will notice, too.
  static void Send(const json& message) {
    [[maybe_unused]] const bool sent = WriteAll(
        STDOUT_FILENO, message.dump(/*indent=*/-1, ' ', /*ensure_ascii=*/false,
                                    json::error_handler_t::replace) +
                           "\n");
  }

 private:
  std::string file_;
  std::chrono::steady_clock::time_point sent_;
};

}  // namespace

fs::path FindFetchProgram() {
  RequireLibc("downloads of data sets");
  fs::path program = InstallPrefix() / "libexec" / "dtrain" / "data-fetch";
  std::error_code ignored;
  if (fs::exists(program, ignored)) return program;
  throw Error(ErrorKind::kFailed,
              program.string() +
                  ": the program that downloads is missing; build or install "
                  "dtrain");
}

FetchResult FetchInProgram(const DataSet& set, const FetchOptions& options) {
  return FetchProcess(set, options).Run();
}

int ServeFetch(std::span<const std::string> arguments,
               const std::function<FetchResult(const DataSet&,
                                               const FetchOptions&)>& fetch) {
  for (const int signal : {SIGHUP, SIGINT, SIGPIPE, SIGTERM}) {
    std::signal(signal, SIG_IGN);
  }
  FetchReport report;
  FetchOptions options{
      .places = {arguments.begin() + 3, arguments.end()},
      .from = arguments[1],
      .force = arguments[2] == kForce,
      .progress = [&](const FetchProgress& p) { report.Progress(p); },
      .say =
          [](const std::string& text) {
            FetchReport::Send({{"say", text}});
          },
      .stop = [] {  // dtrain has closed its end
        pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
        return ::poll(&input, 1, /*timeout=*/0) > 0;
      }};
  try {
    const FetchResult result = fetch(FindDataSet(arguments[0]), options);
    FetchReport::Send({{"result", result.end},
                       {"state", result.found.state},
                       {"directory", result.found.directory.string()},
                       {"files", result.found.files},
                       {"bytes", result.found.bytes}});
  } catch (const Error& error) {
    FetchReport::Send({{"error", error.what()}, {"kind", error.kind()}});
  } catch (const std::bad_alloc&) {
    FetchReport::Send({{"error", "out of memory; free some and retry"},
                       {"kind", ErrorKind::kResources}});
  } catch (const std::exception& error) {
    FetchReport::Send({{"error", error.what()}, {"kind", ErrorKind::kFailed}});
  }
  return 0;
}

}  // namespace dtrain
