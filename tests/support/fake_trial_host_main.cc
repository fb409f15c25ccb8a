// A trial host without LibTorch. The entrypoint of a trial is the name of a
// behaviour. If the hyperparameter `at` is a rank, only that rank has it and
// the others have the behaviour of the hyperparameter `others`.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <map>
#include <new>
#include <optional>
#include <string>

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/error.h"
#include "engine/os/line_reader.h"
#include "engine/process/trial_host.h"
#include "engine/ranks/process_group.h"
#include "engine/wire/message.h"
#include "engine/wire/trial_spec.h"

namespace dtrain {
namespace {

// Arguments of a behaviour: the specification and the control socket.
struct Trial {
  TrialSpec spec;
  int control;
  LineReader& lines;

  // Only rank 0 sends messages, except for the final one.
  void Send(const TrialMessage& message) const {
    if (spec.rank > 0 && !std::holds_alternative<Finished>(message)) return;
    if (!WriteAll(control, Encode(message))) ::_exit(3);
  }
  // Returns nothing once the runner has ended.
  std::optional<RunnerMessage> Hear() const {
    while (true) {
      if (auto line = lines.Next()) return DecodeRunnerMessage(*line);
      if (!lines.Fill()) return std::nullopt;
    }
  }
  std::int64_t Number(const char* name) const {
    return spec.hparams.at(name).get<std::int64_t>();
  }
};

[[noreturn]] void SleepForever() {
  while (true) ::pause();
}

// Starts a regular daemon, which keeps standard output open.
void StartDaemon(bool with_environment) {
  if (::fork() != 0) return;
  ::setsid();
  if (::fork() != 0) ::_exit(0);
  if (with_environment) SleepForever();
  char program[] = "/bin/sleep";
  char duration[] = "1000";
  char* arguments[] = {program, duration, nullptr};
  char* environment[] = {nullptr};
  ::execve(program, arguments, environment);
  ::_exit(127);
}

int Echo(const Trial& trial) {
  trial.Send(Ready{});
  std::int64_t seq = 0;
  while (const auto message = trial.Hear()) {
    if (const auto* operation = std::get_if<RunOperation>(&*message)) {
      trial.Send(OperationCompleted{.seq = ++seq, .length = operation->until});
    } else if (std::get_if<CloseTrial>(&*message) != nullptr) {
      trial.Send(Finished{.reason = EndReason::kCompleted});
      return 0;
    } else if (std::get_if<StopTrial>(&*message) != nullptr) {
      trial.Send(Finished{.reason = EndReason::kStopped});
      return 0;
    }
  }
  return 4;
}

int Signal(const Trial& trial) {
  // Writing a core file would only take time.
  const rlimit no_core{};
  ::setrlimit(RLIMIT_CORE, &no_core);
  std::raise(static_cast<int>(trial.Number("signal")));
  return 0;
}

int Hang(const Trial& trial) {
  std::signal(SIGTERM, SIG_IGN);
  trial.Send(Ready{});
  SleepForever();
}

int Flood(const Trial& trial) {
  const std::string line(99, 'x');
  for (std::int64_t i = 0; i < trial.Number("lines"); ++i) {
    std::printf("%s\n", line.c_str());
  }
  return 0;
}

int Report(const Trial& trial) {
  for (std::int64_t i = 1; i <= trial.Number("reports"); ++i) {
    trial.Send(TrainingReport{
        .seq = i, .batches = i, .metrics = {{"loss", 0.5}, {"lr", 0.1}}});
  }
  return 0;
}

int Print(const Trial& trial) {
  std::printf("to stdout\n<3>an error\nCUDA_VISIBLE_DEVICES=%s\nGREETING=%s\n",
              std::getenv("CUDA_VISIBLE_DEVICES"), std::getenv("GREETING"));
  std::printf("rank %d of %d, %zu GPUs, %d threads\n", trial.spec.rank,
              trial.spec.world_size, trial.spec.gpus.size(),
              trial.spec.threads);
  const char* percentage = std::getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
  std::printf("share %g, percentage %s\n", trial.spec.gpu_share,
              percentage == nullptr ? "none" : percentage);
  std::fprintf(stderr, "to stderr, no newline");
  trial.Send(Ready{});
  return 0;
}

int Garbage(const Trial& trial) {
  trial.Send(Ready{});
  if (!WriteAll(trial.control, "this is no message\n")) return 3;
  SleepForever();
}

int ForkDaemon(const Trial& trial) {
  StartDaemon(/*with_environment=*/true);
  trial.Send(Ready{});
  return 0;
}

int ForkDaemonAndStay(const Trial& trial) {
  StartDaemon(/*with_environment=*/true);
  StartDaemon(/*with_environment=*/false);
  trial.Send(Ready{});
  SleepForever();
}

int ForkCleanDaemon(const Trial& trial) {
  StartDaemon(/*with_environment=*/false);
  trial.Send(Ready{});
  return 0;
}

int Deaf(const Trial& trial) {
  trial.Send(Ready{});
  SleepForever();
}

// Has 64 MB, and waits for a child that uses 300 ms of CPU.
int UseResources(const Trial&) {
  const std::string memory(64 << 20, 'x');
  const pid_t child = ::fork();
  if (child == 0) {
    while (std::clock() < CLOCKS_PER_SEC * 3 / 10) {
    }
    ::_exit(0);
  }
  return ::waitpid(child, nullptr, 0) == child ? memory.back() - 'x' : 1;
}

// Exits with 9 if another trial does the same at the same time.
int BeAlone(const Trial& trial) {
  const std::string path = trial.spec.hparams.at("path").get<std::string>();
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (::flock(file, LOCK_EX | LOCK_NB) != 0) return 9;
  ::poll(nullptr, 0, /*milliseconds=*/3);
  return 0;
}

// Sends a message that only rank 0 may send.
int SpeakUp(const Trial& trial) {
  if (!WriteAll(trial.control, Encode(Progress{.batches = 1}))) return 3;
  SleepForever();
}

int Fail(const Trial& trial) {
  const std::string message =
      "out of luck at " + std::to_string(trial.spec.rank);
  trial.Send(Finished{.reason = EndReason::kError,
                      .message = trial.spec.hparams.value("message", message)});
  return 1;
}

// Fails like a program, which only logs its error.
int LogError(const Trial& trial) {
  const auto message = trial.spec.hparams.at("message").get<std::string>();
  std::fprintf(stderr, "%s\nin line 7\n", message.c_str());
  return 1;
}

int Finish(const Trial& trial) {
  trial.Send(Finished{.reason = EndReason::kCompleted});
  return 0;
}

// Rank 0 writes to the end of the memory, rank 1 reads it. Exits with 6 if it
// has none, with 7 if nothing arrives, with 8 if programs would inherit it.
int ShareMemory(const Trial& trial) {
  const char* number = std::getenv(kRankFdVariable);
  if (number == nullptr) return 6;
  const int memory = std::atoi(number);
  const off_t at = ::lseek(memory, -1, SEEK_END);
  if (at < 0) return 6;
  if ((::fcntl(memory, F_GETFD) & FD_CLOEXEC) == 0) return 8;
  char byte = 'x';
  if (trial.spec.rank == 0) return ::pwrite(memory, &byte, 1, at) == 1 ? 0 : 7;
  for (int i = 0; i < 30'000; ++i) {
    if (::pread(memory, &byte, 1, at) == 1 && byte == 'x') return 0;
    ::poll(nullptr, 0, /*milliseconds=*/2);
  }
  return 7;
}

// Connects to the other ranks over the network. Exits with 6 if it has no
// connection settings, with 7 if a rank is missing.
int Meet(const Trial& trial) {
  const TrialSpec& spec = trial.spec;
  const char* number = std::getenv(kRankFdVariable);
  if (!spec.address || (number != nullptr) != (spec.rank == 0)) return 6;
  const ProcessGroup place(UniqueFd(number == nullptr ? -1 : std::atoi(number)),
                           {.first = {spec.address->host, spec.address->port},
                            .token = spec.address->token,
                            .rank = spec.rank,
                            .ranks = spec.world_size});
  const auto ranks = place.OpenChannel({}).get()->AllGatherText(
      std::to_string(spec.rank) + " of " + std::to_string(spec.world_size));
  for (const std::string& rank : ranks) std::printf("met %s\n", rank.c_str());
  return ranks.size() == static_cast<std::size_t>(spec.world_size) ? 0 : 7;
}

int LackMemory(const Trial&) { throw std::bad_alloc(); }

int Throw(const Trial&) { throw Error(ErrorKind::kFailed, "not caught"); }

int Exit(const Trial& trial) {
  return static_cast<int>(trial.Number("exit_code"));
}

int RunFakeTrial(int control) {
  static const std::map<std::string, std::function<int(const Trial&)>>
      kBehaviours = {{"be alone", BeAlone},
                     {"clean daemon", ForkCleanDaemon},
                     {"daemon", ForkDaemon},
                     {"daemons and stay", ForkDaemonAndStay},
                     {"deaf", Deaf},
                     {"echo", Echo},
                     {"exit", Exit},
                     {"fail", Fail},
                     {"finish", Finish},
                     {"flood", Flood},
                     {"garbage", Garbage},
                     {"hang", Hang},
                     {"lack memory", LackMemory},
                     {"log error", LogError},
                     {"meet", Meet},
                     {"print", Print},
                     {"report", Report},
                     {"share", ShareMemory},
                     {"signal", Signal},
                     {"speak up", SpeakUp},
                     {"throw", Throw},
                     {"use resources", UseResources}};
  LineReader lines(control);
  std::optional<std::string> line;
  while (!(line = lines.Next())) {
    if (!lines.Fill()) return 5;
  }
  const TrialSpec spec = DecodeTrialSpec(*line);
  const bool other = spec.rank != spec.hparams.value("at", spec.rank);
  const std::string behaviour =
      other ? spec.hparams.at("others").get<std::string>() : spec.entrypoint;
  return kBehaviours.at(behaviour)(Trial{spec, control, lines});
}

}  // namespace
}  // namespace dtrain

// FAKE_HOST_EXIT makes it exit at once, as if a library were missing.
int main(int, char** argv) {
  if (const char* exit_code = std::getenv("FAKE_HOST_EXIT")) {
    std::fprintf(stderr, "<3>cannot open libfake.so\n");
    return std::atoi(exit_code);
  }
  return dtrain::RunTrialHost(std::atoi(argv[1]),
                              {.run_trial = dtrain::RunFakeTrial});
}
