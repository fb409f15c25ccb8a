#include "engine/process/trial_host.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/os/socket.h"
#include "engine/process/survivors.h"
#include "engine/process/trial_fork.h"

namespace dtrain {
namespace {

using nlohmann::json;

// What a trial has after its control socket closed; together with the killing
// it makes the two seconds in which nothing of a dead runner is left.
constexpr Duration kSurvivorsGrace = std::chrono::seconds(1);

// A fork copies one thread only: what another one had locked would stay locked
// in the trial for ever.
void RequireOneThread() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  const auto count = std::distance(begin(tasks), end(tasks));
  if (count == 1) return;
  throw Error(ErrorKind::kFailed,
              "the trial host has " + std::to_string(count) +
                  " threads and so cannot be forked; a library that it has "
                  "opened started them");
}

TrialForkRequest RequestFrom(Packet packet) {
  const json object = json::parse(packet.text);
  const bool has_meeting = object.at("meeting").get<bool>();
  if (packet.fds.size() < (has_meeting ? 4 : 3)) {
    throw Error(ErrorKind::kFailed, "a request to fork lacks descriptors");
  }
  TrialForkRequest request{.control = std::move(packet.fds[0]),
                           .standard_output = std::move(packet.fds[1]),
                           .standard_error = std::move(packet.fds[2])};
  if (has_meeting) {
    request.meeting = std::move(packet.fds.back());
    packet.fds.pop_back();
  }
  std::move(packet.fds.begin() + 3, packet.fds.end(),
            std::back_inserter(request.locks));
  for (const auto& [name, value] : object.at("env").items()) {
    request.environment.emplace_back(name, value.get<std::string>());
  }
  return request;
}

// The reply to one request; a trial that was forked is added to `trials`.
json Serve(Packet packet, const TrialHostHooks& hooks,
           std::vector<ForkedTrial>& trials) {
  try {
    RequireOneThread();
    trials.push_back(
        ForkTrial(RequestFrom(std::move(packet)), hooks.run_trial));
    return {{"pid", trials.back().pid}};
  } catch (const Error& error) {
    return {{"error", error.what()}};
  } catch (const json::exception& error) {
    return {{"error",
             std::string("a request to fork is no JSON: ") + error.what()}};
  }
}

void IgnoreSignalsOfTheTerminal() {
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGTERM, SIG_IGN);
  std::signal(SIGHUP, SIG_IGN);
  std::signal(SIGQUIT, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
}

// Waits until the runner says something, or is gone; forgets trials that end
// meanwhile, for their numbers may come to be those of other processes.
void AwaitRunner(int socket, std::vector<ForkedTrial>& trials) {
  while (true) {
    std::vector<pollfd> entries = {{.fd = socket, .events = POLLIN}};
    for (const ForkedTrial& trial : trials) {
      entries.push_back({.fd = trial.pidfd.get(), .events = POLLIN});
    }
    if (::poll(entries.data(), entries.size(), -1) < 0) continue;
    for (std::size_t i = trials.size(); i > 0; --i) {
      if (entries[i].revents != 0) trials.erase(trials.begin() + (i - 1));
    }
    if (entries[0].revents != 0) return;
  }
}

std::string Mark() {
  const char* token = std::getenv(kTokenVariable);
  return std::string(kTokenVariable) + "=" + (token == nullptr ? "" : token);
}

}  // namespace

int RunTrialHost(int socket, const TrialHostHooks& hooks) {
  IgnoreSignalsOfTheTerminal();
  ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  std::vector<ForkedTrial> trials;
  try {
    bool runner_lives = SendPacket(socket, R"({"ready":true})", {});
    while (runner_lives) {
      AwaitRunner(socket, trials);
      std::optional<Packet> packet = ReceivePacket(socket);
      if (!packet) break;
      const json reply = Serve(*std::move(packet), hooks, trials);
      runner_lives = SendPacket(socket, reply.dump(), {});
    }
  } catch (const Error&) {
    return 1;  // The runner lives, and starts another host.
  }
  EndSurvivors(trials, Mark(), kSurvivorsGrace);
  return 0;
}

}  // namespace dtrain
