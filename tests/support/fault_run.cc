#include "tests/support/fault_run.h"

#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <thread>

#include "engine/os/process.h"
#include "engine/run/runner_lock.h"
#include "engine/store/layout.h"
#include "tests/support/patience.h"

namespace dtrain {

using nlohmann::json;
using std::chrono::steady_clock;

// Long, since the machine may be busy with other tests.
constexpr auto kPatience = std::chrono::seconds(60);

FaultRun::~FaultRun() {
  // A failed test may have left its runner behind.
  for (const pid_t pid : Processes()) ::kill(pid, SIGKILL);
}

CliResult FaultRun::Create(const std::string& yaml,
                           std::vector<std::string> options) const {
  dtrain_.Write("fault.yaml", yaml);
  options.insert(options.begin(), {"create", "fault.yaml"});
  return dtrain_.Run(options);
}

pid_t FaultRun::Start(const std::string& yaml) const {
  const CliResult result = Create(yaml, {"-d"});
  EXPECT_EQ(result.code, 0) << result.err;
  const auto holder =
      RunnerLock::Holder(StoreLayout(dtrain_.store()).RunnerLock(1));
  // A PID of -1 or 0 would stand for other processes when it is killed.
  if (!holder || holder->pid <= 0) {
    throw std::runtime_error("experiment 1 has no runner: " + result.err);
  }
  return static_cast<pid_t>(holder->pid);
}

CliResult FaultRun::Shell(const std::string& script) const {
  return dtrain_.RunProgram({"bash", "-c", script});
}

CliResult FaultRun::ShellWithLittleMemory(const std::string& script) const {
  return Shell(
      "limit=memory.limit_in_bytes\n"
      "root=$(awk '$3 == \"cgroup\" && $4 ~ /(^|,)memory(,|$)/ {print $2; "
      "exit}' /proc/self/mounts)\n"
      "if [ -z \"$root\" ]; then\n"
      "  limit=memory.max\n"
      "  root=$(awk '$3 == \"cgroup2\" {print $2; exit}' /proc/self/mounts)\n"
      "  grep -qw memory $root/cgroup.subtree_control 2>/dev/null ||\n"
      "    { echo +memory >$root/cgroup.subtree_control; } 2>/dev/null || exit "
      "77\n"
      "fi\n"
      "group=$root/dtrain-test-$$\n"
      "mkdir $group 2>/dev/null || exit 77\n"
      "trap 'echo $$ >$root/cgroup.procs; rmdir $group' EXIT\n"
      "echo 200M >$group/$limit || exit 77\n"
      "echo $$ >$group/cgroup.procs || exit 77\n" +
      script);
}

std::string FaultRun::State() const {
  return Run({"describe", "1", "--json"}).Json().at("state");
}

json FaultRun::Trials() const {
  return Run({"trials", "1", "--json"}).Json().at("trials");
}

json FaultRun::Trial(std::size_t number) const {
  return Trials().at(number - 1);
}

json FaultRun::Values(const std::string& kind, const std::string& name) const {
  json values = json::array();
  const json rows =
      Run({"metrics", "1.1", "--kind", kind, "--name", name, "--json"}).Json();
  for (const json& row : rows.at("metrics")) values.push_back(row.at("value"));
  return values;
}

pid_t FaultRun::AwaitBatches(std::int64_t batches, std::size_t trial) const {
  pid_t pid = 0;
  const bool trained = Within(kPatience, [&] {
    const json trials = Trials();
    if (trials.size() < trial) return false;
    const json& row = trials.at(trial - 1);
    pid = row.at("pid").is_number() ? row.at("pid").get<pid_t>() : 0;
    return pid > 0 && row.at("batches") >= batches;
  });
  if (!trained) {
    throw std::runtime_error("trial " + std::to_string(trial) +
                             " of experiment 1 has no process at batch " +
                             std::to_string(batches));
  }
  return pid;
}

void FaultRun::ExpectResumes() const {
  const CliResult result = Run({"resume", "1"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(State(), "COMPLETED");
  EXPECT_EQ(Trial().at("state"), "COMPLETED");
}

bool FaultRun::Within(std::chrono::milliseconds limit,
                      const std::function<bool()>& condition) {
  const auto end = steady_clock::now() + Patient(limit);
  while (!condition()) {
    if (steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

std::vector<pid_t> FaultRun::Processes() const {
  std::vector<pid_t> pids;
  const std::string mark = "HOME=" + dtrain_.directory().string();
  for (const Process& process : ReadProcesses()) {
    if (process.zombie || !WasStartedWith(process.pid, mark)) continue;
    pids.push_back(static_cast<pid_t>(process.pid));
  }
  return pids;
}

bool FaultRun::Lives(pid_t pid) {
  const auto process = ReadProcess(pid);
  return process && !process->zombie;
}

}  // namespace dtrain
