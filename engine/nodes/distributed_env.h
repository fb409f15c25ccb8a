#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "engine/os/socket.h"
#include "engine/os/unique_fd.h"
#include "engine/store/layout.h"

namespace dtrain {

/// Returns the value of an environment variable; none if it is not set.
using EnvironmentLookup =
    std::function<std::optional<std::string>(const char* name)>;

/// This process's place among those that were started for one experiment on
/// several machines, from the variables that torchrun sets, or from those that
/// Slurm's srun sets.
struct DistributedEnv {
  int rank = 0;        // RANK: 0 runs the experiment, the others follow it
  int world_size = 1;  // WORLD_SIZE: number of processes
  HostPort runner;     // MASTER_ADDR and MASTER_PORT: where rank 0 listens
  // All are on this machine, according to LOCAL_WORLD_SIZE.
  bool all_here = false;
  // WORLD_SIZE is the number of tasks of this step of srun.
  bool from_step = false;

  bool follows() const { return rank > 0; }
};

/// Reads WORLD_SIZE, RANK, MASTER_ADDR, MASTER_PORT (default 29500) and, if it
/// is set, LOCAL_WORLD_SIZE. In a step of Slurm's srun with several tasks,
/// those that are not set are derived: RANK is the task's number, MASTER_ADDR
/// the step's first node, MASTER_PORT depends on the numbers of job and step.
/// Returns none if WORLD_SIZE is 1 or not set, whatever the others are. Throws
/// Error(kUsage) that names the variable and its value.
std::optional<DistributedEnv> ReadDistributedEnv(
    const EnvironmentLookup& variables);

/// Returns the number of processes for messages, as it was given:
/// "WORLD_SIZE=2" or "srun started 2 tasks".
std::string SizeText(const DistributedEnv& env);

/// Returns how to start a process that is alone, for messages.
std::string AloneText(const DistributedEnv& env);

/// Variable that names a file to use instead of the store's secret.
inline constexpr const char* kSecretVariable = "DTRAIN_SECRET_FILE";

/// The file of the secret that authenticates processes on several machines: in
/// the store that they share, or named by DTRAIN_SECRET_FILE.
class SecretFile {
 public:
  /// The file in a store, which may not exist yet.
  explicit SecretFile(const StoreLayout& layout)
      : path_(layout.Secret()), shown_(path_.string()) {}
  /// The file that the variable names, else that of the store. Does not open
  /// it.
  static SecretFile Locate(const StoreLayout& layout,
                           const EnvironmentLookup& read);

  /// The file at `path`, which may not exist yet.
  static SecretFile At(const std::filesystem::path& path);

  /// Its name in messages.
  std::string Name() const;
  /// Returns its bytes, at least 32; none if the store has none yet. Throws
  /// Error(kUsage) if the variable names a file that does not exist, or if the
  /// file is not regular, belongs to another user, is readable by others, or
  /// has a wrong size.
  std::optional<std::string> Read() const;
  /// Like Read, but creates the store's secret, and the store's directory, if
  /// it does not exist. Creation is atomic: concurrent processes get the same
  /// one. Also throws Error(kStore).
  std::string ReadOrMake() const;
  /// Writes the file, for this user only. Throws Error(kStore).
  void Write(const std::string& secret) const;

 private:
  UniqueFd Open() const;
  void Make() const;
  [[noreturn]] void Refuse(const std::string& why) const;

  SecretFile(std::filesystem::path path, std::string shown)
      : path_(std::move(path)), shown_(std::move(shown)) {}

  std::filesystem::path path_;
  std::string shown_;
  bool named_ = false;  // by the variable
};

}  // namespace dtrain
