#include "tests/support/slurm_cluster.h"

#include <array>
#include <chrono>
#include <csignal>
#include <fstream>
#include <stdexcept>
#include <thread>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "engine/base/text.h"
#include "engine/os/process.h"
#include "engine/os/socket.h"
#include "tests/support/patience.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

constexpr int kClusterNodes = 3;
constexpr int kStartsTried = 3;

// Daemons are in /usr/sbin, which PATH may lack.
std::string DaemonFile(const std::string& name) {
  for (const char* const place : {"/usr/sbin/", "/usr/bin/", "/sbin/"}) {
    if (fs::exists(place + name)) return place + name;
  }
  return "";
}

std::string NodeName(int node) { return "127.0.0." + std::to_string(node); }

void WriteText(const fs::path& file, const std::string& text) {
  std::ofstream(file, std::ios::binary) << text;
  fs::permissions(file, fs::perms(0600));
}

// Ports that were free a moment ago.
std::array<int, kClusterNodes + 1> FreePorts() {
  std::array<UniqueFd, kClusterNodes + 1> sockets;
  std::array<int, kClusterNodes + 1> ports{};
  for (std::size_t i = 0; i < ports.size(); ++i) {
    sockets.at(i) = ListenAt({.host = "127.0.0.1"});
    ports.at(i) = GetPort(sockets.at(i).get());
  }
  return ports;
}

// Returns the errors that a daemon has logged, at most five.
std::string LastErrors(const fs::path& log) {
  constexpr std::size_t kShown = 5;
  std::ifstream in(log);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    const std::size_t at = line.find("rror: ");
    if (at != line.npos) lines.push_back(line.substr(at + 6));
  }
  if (lines.size() > kShown) lines.erase(lines.begin(), lines.end() - kShown);
  return Join(lines, "; ");
}

void End(pid_t pid) {
  if (pid <= 0) return;
  ::kill(pid, SIGKILL);
  AwaitExit(pid);
}

// Returns what this machine lacks for a cluster.
std::string Missing() {
  for (const char* const name : {"munged", "slurmctld", "slurmd", "sbatch"}) {
    if (DaemonFile(name).empty()) {
      return std::string("needs ") + name +
             ", of Debian's packages slurm-wlm and munge";
    }
  }
  return ::geteuid() == 0 ? "" : "needs root to start the daemons of Slurm";
}

}  // namespace

std::string StartSlurm(std::optional<SlurmCluster>& cluster) try {
  std::string missing = Missing();
  if (missing.empty()) cluster.emplace();
  return missing;
} catch (const SlurmUnavailable& unavailable) {
  return unavailable.what();
}

SlurmCluster::SlurmCluster() {
  const fs::path& root = directory();
  fs::create_directories(root / "state");
  WriteText(root / "munge.key", std::string(1024, 'k'));
  std::string devices;
  for (const char* const device : {"gpu0", "gpu1"}) {
    const fs::path file = root / device;
    if (::mknod(file.c_str(), S_IFCHR | 0600, ::makedev(1, 3)) != 0) {
      throw std::runtime_error("cannot make a device: " + file.string());
    }
  }
  WriteText(root / "gres.conf",
            "Name=gpu Type=fake File=" + (root / "gpu[0-1]").string() + "\n");
  // Another process may take a port before its daemon does.
  for (int i = 1;; ++i) {
    try {
      WriteConfiguration();
      Start();
      return;
    } catch (const SlurmUnavailable&) {
      Stop();
      throw;
    } catch (const std::runtime_error&) {
      Stop();
      if (i == kStartsTried) throw;
    }
  }
}

SlurmCluster::~SlurmCluster() {
  // A job's processes are not children of the daemons.
  if (controller_ > 0) EndJobs();
  Stop();
}

void SlurmCluster::EndJobs() const {
  Call({"scancel", "--signal=KILL", "--full", "--user=root"});
  Call({"scancel", "--user=root"});
  const auto end =
      std::chrono::steady_clock::now() + Patient(std::chrono::minutes(1));
  while (std::chrono::steady_clock::now() < end &&
         !Call({"squeue", "--noheader"}).output.empty()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

std::string SlurmCluster::configuration() const {
  return (directory() / "slurm.conf").string();
}

void SlurmCluster::WriteConfiguration() const {
  const std::string root = directory().string();
  const std::string host = HostName().substr(0, HostName().find('.'));
  const auto ports = FreePorts();
  std::string nodes;
  for (int node = 1; node <= kClusterNodes; ++node) {
    nodes += "NodeName=" + NodeName(node) + " NodeHostname=" + host +
             " NodeAddr=127.0.0.1 Port=" +
             std::to_string(ports.at(static_cast<std::size_t>(node))) +
             " CPUs=2 RealMemory=2000 Gres=gpu:fake:2\n";
  }
  const std::string text =

      "ClusterName=test\n"
      "SlurmctldHost=" +
      host +
      "(127.0.0.1)\n"
      "SlurmctldPort=" +
      std::to_string(ports[0]) +
      "\n"
      "AuthType=auth/munge\n"
      "CredType=cred/munge\n"
      "AuthInfo=socket=" +
      root +
      "/munge.socket,cred_expire=10\n"
      "SlurmUser=root\n"
      "SlurmdUser=root\n"
      "StateSaveLocation=" +
      root +
      "/state\n"
      "SlurmdSpoolDir=" +
      root +
      "/spool.%n\n"
      "SlurmctldPidFile=" +
      root +
      "/slurmctld.pid\n"
      "SlurmdPidFile=" +
      root +
      "/slurmd.%n.pid\n"
      "ProctrackType=proctrack/linuxproc\n"
      "TaskPlugin=task/none\n"
      "SwitchType=switch/none\n"
      "MpiDefault=none\n"
      "JobAcctGatherType=jobacct_gather/none\n"
      "AccountingStorageType=accounting_storage/none\n"
      "ReturnToService=2\n"
      "SlurmctldTimeout=300\n"
      "SlurmdTimeout=300\n"
      "KillWait=30\n"
      "InactiveLimit=0\n"
      "SchedulerParameters=sched_interval=1,bf_interval=1,sched_min_"
      "interval=0\n"
      "SlurmctldParameters=preempt_send_user_signal\n"
      "SelectType=select/cons_tres\n"
      "SelectTypeParameters=CR_Core_Memory\n"
      "DefMemPerCPU=200\n"
      "PreemptType=preempt/partition_prio\n"
      "PreemptMode=REQUEUE\n"
      "GresTypes=gpu\n" +
      nodes +
      "PartitionName=main Nodes=ALL Default=YES DefaultTime=60 "
      "PriorityTier=10\n"
      "PartitionName=urgent Nodes=ALL DefaultTime=60 PriorityTier=100 "
      "PreemptMode=OFF\n"
      "PartitionName=scav Nodes=ALL DefaultTime=60 PriorityTier=1 "
      "GraceTime=60\n";
  WriteText(configuration(), text + "MessageTimeout=30\n");
  WriteText(configuration() + ".impatient", text + "MessageTimeout=1\n");
}

// The kernel ends a daemon when the thread that started it ends.
pid_t SlurmCluster::StartDaemon(const std::string& name,
                                std::vector<std::string> words) {
  std::vector<std::string> command = {"setpriv", "--pdeathsig", "KILL"};
  words.front() = DaemonFile(words.front());
  command.insert(command.end(), words.begin(), words.end());
  const fs::path log = directory() / (name + ".log");
  const pid_t pid =
      Spawn()
          .Open(STDIN_FILENO, "/dev/null", O_RDONLY)
          .Open(STDOUT_FILENO, log, O_WRONLY | O_CREAT | O_APPEND, 0600)
          .Duplicate(STDOUT_FILENO, STDERR_FILENO)
          .CloseFrom(STDERR_FILENO + 1)
          .Environment(EnvironmentWith(environment()))
          .RunFromPath(command);
  if (pid < 0) throw std::runtime_error("cannot start " + name);
  return pid;
}

void SlurmCluster::Start() {
  const std::string root = directory().string();
  const auto start = [&](const std::string& name,
                         std::vector<std::string> words) {
    others_.emplace_back(name, StartDaemon(name, std::move(words)));
  };
  start("munged", {"munged", "--foreground", "--force",
                   "--socket=" + root + "/munge.socket",
                   "--key-file=" + root + "/munge.key",
                   "--pid-file=" + root + "/munge.pid",
                   "--log-file=" + root + "/munge.log",
                   "--seed-file=" + root + "/munge.seed", "--num-threads=2"});
  StartController();
  for (int node = 1; node <= kClusterNodes; ++node) {
    start("slurmd" + std::to_string(node),
          {"slurmd", "-D", "-f", configuration(), "-N", NodeName(node)});
  }
  AwaitIdleNodes();
}

void SlurmCluster::StartController() {
  controller_ =
      StartDaemon("slurmctld", {"slurmctld", "-D", "-f", configuration()});
}

void SlurmCluster::StopController() {
  if (controller_ > 0) {
    ::kill(controller_, SIGTERM);  // it saves its state
    AwaitExit(controller_);
  }
  controller_ = -1;
}

void SlurmCluster::Stop() {
  while (!others_.empty()) {
    End(others_.back().second);
    others_.pop_back();
  }
  End(controller_);
  controller_ = -1;
}

void SlurmCluster::AwaitIdleNodes() const {
  const auto end =
      std::chrono::steady_clock::now() + Patient(std::chrono::seconds(60));
  while (std::chrono::steady_clock::now() < end) {
    const std::string idle = Call({"sinfo", "--noheader", "--partition=main",
                                   "--states=idle", "--format=%D"})
                                 .output;
    if (idle == std::to_string(kClusterNodes) + "\n") return;
    RequireLiving("slurmctld", controller_);
    for (const auto& [name, pid] : others_) RequireLiving(name, pid);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  throw std::runtime_error("Slurm has not started; see " +
                           (directory() / "slurmctld.log").string());
}

// A daemon that has ended will not start by waiting for it. Another process may
// have taken its port; what else keeps it from starting stays.
void SlurmCluster::RequireLiving(const std::string& name, pid_t pid) const {
  if (!HasEnded(pid, Duration::zero())) return;
  const std::string why =
      name + " has ended: " + LastErrors(directory() / (name + ".log"));
  if (why.find("cgroup") != why.npos) throw SlurmUnavailable(why);
  throw std::runtime_error(why);
}

CapturedRun SlurmCluster::Call(const std::vector<std::string>& words) const {
  return RunCaptured(words, EnvironmentWith(environment()),
                     std::chrono::minutes(1));
}

std::string SlurmCluster::Run(const std::vector<std::string>& words) const {
  const CapturedRun run = Call(words);
  EXPECT_TRUE(run.succeeded()) << words.front() << ": " << run.errors;
  return run.output;
}

}  // namespace dtrain
