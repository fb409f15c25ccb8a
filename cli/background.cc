#include "cli/background.h"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <new>
#include <string>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "cli/exit_code.h"
#include "engine/base/error.h"
#include "engine/os/line_reader.h"
#include "engine/os/unique_fd.h"

namespace dtrain {
namespace {

using nlohmann::json;

// From now on nothing of this process goes to the terminal.
void TurnOutputTo(const std::filesystem::path& log) {
  std::cout.flush();
  const UniqueFd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const UniqueFd file(
      open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!null || !file) {
    throw Error(ErrorKind::kStore,
                log.string() + ": cannot write: " + std::strerror(errno));
  }
  dup2(null.get(), STDIN_FILENO);
  dup2(file.get(), STDOUT_FILENO);
  dup2(file.get(), STDERR_FILENO);
}

void Send(UniqueFd& pipe, const json& message) {
  const std::string line =
      message.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  [[maybe_unused]] const bool heard = WriteAll(pipe.get(), line);
  pipe.reset();
}

[[noreturn]] void BackgroundMain(const std::function<int(Departure)>& body,
                                 UniqueFd pipe) {
  setsid();
  int code = EXIT_FAILURE;
  json failure;
  try {
    code = body([&](std::int64_t id, const std::filesystem::path& log) {
      TurnOutputTo(log);
      Send(pipe, {{"experiment", id}});
    });
  } catch (const Error& error) {
    failure = {{"kind", static_cast<int>(error.kind())},
               {"error", error.what()}};
  } catch (const std::bad_alloc&) {
    failure = {{"kind", static_cast<int>(ErrorKind::kResources)},
               {"error", kOutOfMemory}};
    code = kExitResources;
  } catch (const std::exception& error) {
    failure = {{"kind", static_cast<int>(ErrorKind::kFailed)},
               {"error", error.what()}};
  }
  if (!failure.is_null()) {
    if (pipe) {
      Send(pipe, failure);
    } else {
      std::cerr << "dtrain: error: "
                << failure["error"].get_ref<const std::string&>() << '\n';
    }
  }
  std::cout.flush();
  std::_Exit(code);
}

}  // namespace

std::int64_t RunInBackground(const std::function<int(Departure)>& body) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw Error(ErrorKind::kFailed,
                std::string("-d: cannot make a pipe: ") + strerror(errno));
  }
  UniqueFd in(ends[0]);
  UniqueFd out(ends[1]);
  std::cout.flush();
  const pid_t pid = fork();
  if (pid < 0) {
    throw Error(ErrorKind::kFailed, std::string("-d: cannot fork: ") +
                                        strerror(errno) +
                                        "; free some processes or run without "
                                        "-d");
  }
  if (pid == 0) {
    in.reset();
    BackgroundMain(body, std::move(out));
  }
  out.reset();
  LineReader reader(in.get());
  while (reader.Fill()) {
  }
  const auto line = reader.Next();
  if (!line) {
    throw Error(ErrorKind::kFailed,
                "-d: the runner died before its experiment began; run without "
                "-d to see why");
  }
  const json message = json::parse(*line);
  if (message.contains("experiment")) return message["experiment"];
  throw Error(static_cast<ErrorKind>(message["kind"].get<int>()),
              message["error"]);
}

}  // namespace dtrain
