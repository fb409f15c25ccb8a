#include "engine/slots/gpu_probe.h"

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "engine/base/text.h"
#include "engine/os/line_reader.h"
#include "engine/os/system_error.h"
#include "engine/os/unique_fd.h"
#include "engine/slots/nvidia.h"
#include "engine/slots/slots.h"

namespace dtrain {
namespace {

using nlohmann::json;

// Drivers print to the terminal when they feel like it, and the locks that this
// process holds must not be held by a child that hangs.
[[noreturn]] void AnswerAndExit(std::string (*ask)(), int pipe) {
  ::dup2(pipe, 3);
  const int null = ::open("/dev/null", O_RDWR);
  for (int fd = 0; fd < 3; ++fd) ::dup2(null, fd);
  ::close_range(4, ~0U, 0);
  std::signal(SIGPIPE, SIG_IGN);
  const bool written = WriteAll(3, ask());
  ::_exit(written ? 0 : 1);
}

// Reads until the end of the pipe or the deadline; true if it was the end.
bool ReadUntil(int pipe, Duration deadline, std::string& text) {
  const Clock clock = Clock::System();
  std::array<char, 4096> chunk;
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(
        deadline - clock.monotonic());
    if (left.count() <= 0) return false;
    pollfd entry{.fd = pipe, .events = POLLIN, .revents = 0};
    if (::poll(&entry, 1, static_cast<int>(left.count())) <= 0) continue;
    const ssize_t count = ::read(pipe, chunk.data(), chunk.size());
    if (count == 0) return true;
    if (count > 0) text.append(chunk.data(), static_cast<std::size_t>(count));
  }
}

// A process that hangs within the driver may not even die; it is left to
// itself after a moment.
bool Reap(pid_t pid) {
  for (int tries = 0; tries < 100; ++tries) {
    int status = 0;
    const pid_t reaped = ::waitpid(pid, &status, WNOHANG);
    if (reaped != 0) return reaped == pid && status == 0;
    ::poll(nullptr, 0, /*milliseconds=*/1);
  }
  return false;
}

json ToJson(const Gpu& gpu) {
  return {{"index", gpu.index},     {"uuid", gpu.uuid},
          {"name", gpu.name},       {"memory", gpu.memory_bytes},
          {"free", gpu.free_bytes}, {"driver", gpu.driver}};
}

Gpu GpuFromJson(const json& object) {
  return {.index = object.at("index"),
          .uuid = object.at("uuid"),
          .name = object.at("name"),
          .memory_bytes = object.at("memory"),
          .free_bytes = object.at("free"),
          .driver = object.at("driver")};
}

std::string NvidiaReportAsJson() {
  const NvidiaReport report = AskNvidiaDriver();
  json gpus = json::array();
  for (const Gpu& gpu : report.gpus) gpus.push_back(ToJson(gpu));
  return json{{"gpus", gpus}, {"problem", report.problem}}.dump(
      -1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

std::string AskInChild(std::string (*ask)(), Duration limit,
                       std::string* problem) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) ThrowSystemError("make a pipe");
  const UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  const pid_t pid = ::fork();
  if (pid < 0) ThrowSystemError("fork a process that looks for GPUs");
  if (pid == 0) AnswerAndExit(ask, writer.get());
  writer.reset();
  std::string text;
  const Duration deadline = Clock::System().monotonic() + limit;
  const bool answered = ReadUntil(reader.get(), deadline, text);
  if (!answered) ::kill(pid, SIGKILL);
  const bool succeeded = Reap(pid);
  if (answered && succeeded) return text;
  *problem = answered
                 ? "the process that looks for GPUs crashed; no GPU is used"
                 : "looking for GPUs took longer than " +
                       FormatDuration(limit) + "; no GPU is used";
  return "";
}

std::vector<Gpu> FindGpus(Duration limit, std::string* problem) {
  const std::string text = AskInChild(NvidiaReportAsJson, limit, problem);
  const json report = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!report.is_object()) return {};
  std::vector<Gpu> gpus;
  try {
    for (const json& gpu : report.at("gpus")) gpus.push_back(GpuFromJson(gpu));
    *problem = report.at("problem").get<std::string>();
  } catch (const json::exception&) {
    *problem = "looking for GPUs gave no sense; no GPU is used";
    return {};
  }
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible == nullptr ? gpus : VisibleGpus(gpus, visible);
}

}  // namespace dtrain
