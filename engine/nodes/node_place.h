#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "engine/os/socket.h"
#include "engine/store/layout.h"

namespace dtrain {

/// What an environment says of a variable; none if it is not set.
using ReadEnvironment =
    std::function<std::optional<std::string>(const char* name)>;

/// This process among those that were started for one experiment, one or more
/// on each of several machines, as torchrun and srun's users name them.
struct NodePlace {
  int rank = 0;        // RANK: 0 runs the experiment, the others follow it
  int world_size = 1;  // WORLD_SIZE: how many there are
  HostPort runner;     // MASTER_ADDR and MASTER_PORT: where rank 0 listens
  // LOCAL_WORLD_SIZE says that all are on this machine.
  bool all_here = false;

  bool follows() const { return rank > 0; }
};

/// Read from WORLD_SIZE, RANK, MASTER_ADDR and MASTER_PORT (29500 if it is not
/// set), and LOCAL_WORLD_SIZE if it is set; none if WORLD_SIZE is 1 or not set,
/// whatever the others say. Throws Error(kUsage) that names the variable and
/// its value.
std::optional<NodePlace> NodePlaceFrom(const ReadEnvironment& read);

/// The variable that names a file to be used in place of the store's secret.
inline constexpr const char* kSecretVariable = "DTRAIN_SECRET_FILE";

/// The file of the secret by which processes on several machines know each
/// other: in the store that they share, or where DTRAIN_SECRET_FILE says.
class SecretFile {
 public:
  /// That of a store, which may not be there yet.
  explicit SecretFile(const StoreLayout& layout)
      : path_(layout.Secret()), shown_(path_.string()) {}
  /// The file that the variable names, else that of the store. Reads nothing.
  static SecretFile Of(const StoreLayout& layout, const ReadEnvironment& read);

  /// How messages name it.
  std::string Name() const;
  /// Its bytes, 32 at least; none if the store has none yet. Throws
  /// Error(kUsage) for one that the variable names and is not there, that is no
  /// regular file, is not this user's own, may be read by others, or is of a
  /// wrong size.
  std::optional<std::string> Read() const;
  /// The same; makes that of the store, and the store's directory, if it is not
  /// there: whole or not at all, and one, however many do this at once. Throws
  /// Error(kStore) too.
  std::string ReadOrMake() const;

 private:
  void Make() const;
  [[noreturn]] void Refuse(const std::string& why) const;

  std::filesystem::path path_;
  std::string shown_;
  bool named_ = false;  // by the variable
};

}  // namespace dtrain
