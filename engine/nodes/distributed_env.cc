// The variables of a process that was started with others, and their secret.
//
// Variables that are set count. Those that srun leaves out are derived from
// Slurm's own, in a way that gives all tasks of a step the same values: the
// first node of its list and a port from the numbers of job and step. A
// WORLD_SIZE other than that of the step was set for something else, and then
// nothing is derived.
//
// The secret is a file that only its user can read. It is written under another
// name and renamed only if there is none yet, so processes that create it at
// the same time all read the same bytes.

#include "engine/nodes/distributed_env.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <functional>
#include <map>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/error.h"
#include "engine/base/rng.h"
#include "engine/base/text.h"
#include "engine/os/files.h"
#include "engine/os/system_error.h"
#include "engine/os/unique_fd.h"
#include "engine/ranks/rank_connections.h"
#include "engine/store/file_tree.h"

namespace dtrain {
namespace {

constexpr int kDefaultPort = 29500;

// Ports for steps of Slurm: below those that Linux assigns to connections.
constexpr int kFirstStepPort = 20000;
constexpr int kStepPorts = 10000;

std::string Shown(const std::string& name, const std::string& value) {
  return name + "=" + Truncate(EscapeForTerminal(value), 100);
}

int ParseNumber(const std::string& name, const std::string& value, int least,
                int most) {
  int number = 0;
  const char* const end = value.data() + value.size();
  const auto [at, error] = std::from_chars(value.data(), end, number);
  if (error == std::errc() && at == end && number >= least && number <= most) {
    return number;
  }
  throw Error(ErrorKind::kUsage,
              Shown(name, value) + ": expected a number from " +
                  std::to_string(least) + " to " + std::to_string(most));
}

[[noreturn]] void FailMissing(const std::string& name, const std::string& what,
                              int world_size) {
  throw Error(ErrorKind::kUsage,
              "WORLD_SIZE=" + std::to_string(world_size) + ", but " + name +
                  " is not set; set it to " + what + ", or unset WORLD_SIZE");
}

int ReadRank(const EnvironmentLookup& read, int world_size) {
  const auto rank = read("RANK");
  if (!rank || rank->empty()) {
    FailMissing("RANK", "this process's number from 0", world_size);
  }
  try {
    return ParseNumber("RANK", *rank, 0, world_size - 1);
  } catch (const Error& error) {
    throw Error(ErrorKind::kUsage, std::string(error.what()) +
                                       ", because WORLD_SIZE is " +
                                       std::to_string(world_size));
  }
}

// `derived`: MASTER_ADDR is derived from the step of srun.
HostPort ReadRunnerAddress(const EnvironmentLookup& read, int world_size,
                           bool derived) {
  const auto host = read("MASTER_ADDR");
  if (!host || host->empty()) {
    FailMissing("MASTER_ADDR", "the machine of RANK=0", world_size);
  }
  HostPort runner{.host = *host, .port = kDefaultPort};
  if (const auto port = read("MASTER_PORT"); port && !port->empty()) {
    runner.port = ParseNumber("MASTER_PORT", *port, 1, 65535);
  }
  try {
    RequireAddress(runner.host);
  } catch (const Error& error) {
    throw Error(ErrorKind::kUsage,
                std::string("MASTER_ADDR=") + error.what() +
                    (derived ? "; it is the first node of the step of srun, "
                               "set MASTER_ADDR to its address"
                             : ""));
  }
  return runner;
}

// Returns the first node of a list such as "rack[1-2]n[01-04,7],other".
std::string FirstNode(std::string_view list) {
  std::string node;
  while (!list.empty() && list.front() != ',') {
    const bool range = list.front() == '[';
    if (range) list.remove_prefix(1);
    const std::size_t size = list.find_first_of(range ? ",-]" : ",[");
    node += list.substr(0, size);
    const std::size_t end = range ? list.find(']') : size;
    if (end == list.npos) break;
    list.remove_prefix(end + (range ? 1 : 0));
  }
  return node;
}

using Derived = std::map<std::string, std::string, std::less<>>;

// Returns a reader that supplies derived variables where `read` has none. A
// WORLD_SIZE that differs from the step's means processes that were started in
// another way: nothing is derived for them.
EnvironmentLookup WithStep(const EnvironmentLookup& read) {
  // The variables of this task of a step that srun started; none outside a
  // step. A batch script has SLURM_NTASKS, but is not in a step.
  Derived derived;
  const auto tasks = read("SLURM_STEP_NUM_TASKS");
  const auto rank = read("SLURM_PROCID");
  const auto nodes = read("SLURM_STEP_NODELIST");
  if (tasks && rank && nodes) {
    // A port that all tasks of a step derive, different for the next step.
    std::uint32_t step = 0;
    for (const auto* name : {"SLURM_JOB_ID", "SLURM_STEP_ID"}) {
      std::uint32_t value = 0;
      const std::string text = read(name).value_or("");
      std::from_chars(text.data(), text.data() + text.size(), value);
      step += value;
    }
    const int port = kFirstStepPort + static_cast<int>(step % kStepPorts);
    derived = {{"WORLD_SIZE", *tasks},
               {"RANK", *rank},
               {"MASTER_ADDR", FirstNode(*nodes)},
               {"MASTER_PORT", std::to_string(port)}};
    if (read("SLURM_STEP_NUM_NODES") == "1") {
      derived["MASTER_ADDR"] = "127.0.0.1";
      derived["LOCAL_WORLD_SIZE"] = *tasks;
    }
  }
  const auto size = read("WORLD_SIZE");
  if (size && !size->empty() && size != derived["WORLD_SIZE"]) derived.clear();
  return [read, derived = std::move(derived)](
             const char* name) -> std::optional<std::string> {
    auto value = read(name);
    if (value && !value->empty()) return value;
    const auto found = derived.find(name);
    return found == derived.end() ? value : found->second;
  };
}

}  // namespace

std::optional<DistributedEnv> ReadDistributedEnv(
    const EnvironmentLookup& variables) {
  const EnvironmentLookup read = WithStep(variables);
  const auto size = read("WORLD_SIZE");
  if (!size || size->empty()) return std::nullopt;
  int world_size = 0;
  try {
    world_size = ParseNumber("WORLD_SIZE", *size, 1, kMaxNetworkRanks);
  } catch (const Error& error) {
    // It may be left over from another program.
    throw Error(ErrorKind::kUsage,
                std::string(error.what()) +
                    "; set it to the number of processes, or unset it");
  }
  if (world_size == 1) return std::nullopt;
  const auto derived = [&](const char* name) {
    return variables(name).value_or("").empty();
  };
  const auto local = read("LOCAL_WORLD_SIZE");
  return DistributedEnv{
      .rank = ReadRank(read, world_size),
      .world_size = world_size,
      .runner = ReadRunnerAddress(read, world_size, derived("MASTER_ADDR")),
      .all_here = local && !local->empty() &&
                  ParseNumber("LOCAL_WORLD_SIZE", *local, 1,
                              kMaxNetworkRanks) >= world_size,
      .from_step = derived("WORLD_SIZE")};
}

std::string SizeText(const DistributedEnv& env) {
  return (env.from_step ? "srun started " : "WORLD_SIZE=") +
         std::to_string(env.world_size) + (env.from_step ? " tasks" : "");
}

std::string AloneText(const DistributedEnv& env) {
  return env.from_step ? "start one task ('srun -n1'), or set WORLD_SIZE=1"
                       : "unset WORLD_SIZE";
}

namespace {

constexpr std::size_t kMinBytes = 32;
constexpr std::size_t kMaxBytes = 4096;

}  // namespace

SecretFile SecretFile::Locate(const StoreLayout& layout,
                              const EnvironmentLookup& read) {
  SecretFile secret(layout);
  const auto named = read(kSecretVariable);
  if (!named || named->empty()) return secret;
  secret.path_ = *named;
  secret.shown_ = std::string(kSecretVariable) + "=" + *named;
  secret.named_ = true;
  return secret;
}

SecretFile SecretFile::At(const std::filesystem::path& path) {
  return SecretFile(path, path.string());
}

std::string SecretFile::Name() const { return EscapeForTerminal(shown_); }

void SecretFile::Refuse(const std::string& why) const {
  throw Error(ErrorKind::kUsage, Name() + ": " + why);
}

// Returns nothing if the store has no secret.
UniqueFd SecretFile::Open() const {
  // The store's secret must not be a symbolic link, which another user may have
  // put there. A pipe must not block.
  const int flags =
      O_RDONLY | O_CLOEXEC | O_NONBLOCK | (named_ ? 0 : O_NOFOLLOW);
  UniqueFd file(::open(path_.c_str(), flags));
  if (file || (errno == ENOENT && !named_)) return file;
  if (errno == ELOOP) {
    Refuse(
        "the secret is a symbolic link; put the file itself there, or name "
        "it by DTRAIN_SECRET_FILE");
  }
  Refuse("the secret cannot be read: " + ErrnoText() +
         "; name a file of at least 32 random bytes that only you can read");
}

std::optional<std::string> SecretFile::Read() const {
  const UniqueFd file = Open();
  if (!file) return std::nullopt;
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) {
    Refuse("the secret cannot be read: " + ErrnoText());
  }
  if (!S_ISREG(status.st_mode)) Refuse("the secret is not a regular file");
  if (!IsOwnUser(status.st_uid)) {
    Refuse("the secret belongs to another user; create one of your own" +
           std::string(named_ ? "" : ", or set DTRAIN_SECRET_FILE to one"));
  }
  if ((status.st_mode & 07777 & ~mode_t{0600}) != 0) {
    Refuse(
        "others may read the secret, or it is executable; 'chmod 600' it, "
        "or create a new one if another user may have read it");
  }
  std::string bytes(kMaxBytes + 1, '\0');
  ssize_t count = -1;
  do {
    count = ::read(file.get(), bytes.data(), bytes.size());
  } while (count < 0 && errno == EINTR);
  if (count < 0) {
    Refuse("the secret cannot be read: " + ErrnoText());
  }
  bytes.resize(static_cast<std::size_t>(count));
  if (bytes.size() < kMinBytes) {
    Refuse("the secret has " + std::to_string(bytes.size()) +
           " bytes, but at least 32 are needed; create one with 'head -c 32 "
           "/dev/urandom'" +
           std::string(named_ ? "" : ", or remove it and start RANK=0 again"));
  }
  if (bytes.size() > kMaxBytes) {
    Refuse("the secret has more than 4096 bytes; is this the right file?");
  }
  return bytes;
}

std::string SecretFile::ReadOrMake() const {
  if (auto bytes = Read()) return *std::move(bytes);
  Make();
  if (auto bytes = Read()) return *std::move(bytes);
  throw Error(ErrorKind::kStore,
              Name() + ": was removed while it was created; try again");
}

void SecretFile::Write(const std::string& secret) const {
  WriteFileDurably(path_, secret);
}

void SecretFile::Make() const {
  const std::filesystem::path directory = path_.parent_path();
  MakePrivateDirectories(directory);
  DurableFile file(path_);
  // Another process that makes a secret at the same time may be first.
  const bool made =
      file && file.Write(RandomHex(kMinBytes) + "\n") &&
      (file.Commit(DurableFile::Existing::kKeep) || errno == EEXIST);
  const int error = made ? 0 : errno;
  if (error != 0) {
    throw Error(error == ENOSPC || error == EDQUOT ? ErrorKind::kDiskFull
                                                   : ErrorKind::kStore,
                Name() + ": the secret cannot be written: " + ErrnoText(error) +
                    "; fix that, or set DTRAIN_SECRET_FILE to a secret of "
                    "all processes");
  }
}

}  // namespace dtrain
