#include "engine/process/mps.h"

#include <cerrno>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <system_error>

#include <sys/types.h>

#include "engine/base/error.h"
#include "engine/os/process.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDaemon = "nvidia-cuda-mps-control";
constexpr const char* kPercentage = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE";

// A process that may not be signalled exists; the daemon is often root's.
bool Lives(pid_t pid) {
  return pid > 0 && (::kill(pid, 0) == 0 || errno == EPERM);
}

}  // namespace

// A killed daemon leaves its socket (a pipe in old versions) and its pid file
// behind. The daemon is not contacted, since it would count that as a client,
// and any user may have made these files in /tmp, a blocking pipe for instance.
bool MpsRuns(const ReadVariable& variable) {
  const auto value = variable("CUDA_MPS_PIPE_DIRECTORY");
  const fs::path directory =
      value && !value->empty() ? *value : "/tmp/nvidia-mps";
  std::error_code error;
  const fs::file_status control = fs::status(directory / "control", error);
  if (!fs::is_socket(control) && !fs::is_fifo(control)) return false;
  const fs::path pid_file = directory / "nvidia-cuda-mps-control.pid";
  if (!fs::is_regular_file(pid_file, error)) return false;
  pid_t pid = 0;
  std::ifstream(pid_file) >> pid;
  return Lives(pid);
}

// NVIDIA's advice for n equal clients: each may use 2/n of the multiprocessors,
// so that it can use some that others leave idle, but never all. No variable is
// needed if that is all of them.
std::vector<std::pair<std::string, std::string>> MpsVariables(
    double gpu_share, const ReadVariable& variable) {
  const long percent = std::lround(2 * gpu_share * 100);
  if (percent >= 100 || variable(kPercentage) || !MpsRuns(variable)) return {};
  return {{kPercentage, std::to_string(percent)}};
}

std::string MpsAdvice(double gpu_share, const ReadVariable& variable) {
  if (gpu_share >= 1 || MpsRuns(variable)) return "";
  try {
    FindProgram(kDaemon, "/", variable("PATH").value_or(""));
  } catch (const Error&) {
    return "";  // not installed
  }
  return std::string(
             "trials that share a GPU take turns on it, because no MPS daemon "
             "is running; start one with '") +
         kDaemon + " -d' to let them compute at the same time";
}

}  // namespace dtrain
