#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/checkpoint/checkpoint_files.h"
#include "engine/os/files.h"
#include "engine/os/spawn.h"
#include "engine/os/unique_fd.h"
#include "engine/train/training_state.h"
#include "engine/wire/trial_spec.h"

namespace dtrain {

/// dtrain's own state of a program.
struct ProgramState {
  TrainingState trainer;
  double epoch = 0;
  double count = 0;  // in the unit of the search's lengths
};

/// Copies the file or directory `source`, which a program saved, into the
/// checkpoint `path`, with `state`. Throws Error(kFailed) or Error(kDiskFull)
/// and then leaves nothing.
WrittenCheckpoint SaveProgramCheckpoint(const std::string& path,
                                        const std::filesystem::path& source,
                                        const ProgramState& state,
                                        const TrialSpec& spec);

/// Verifies the checkpoint at `path` and returns the state. Throws
/// Error(kDamaged), or Error(kFailed) if it is not a program's checkpoint.
ProgramState LoadProgramCheckpoint(const std::string& path);

/// The descriptors of the program: small numbers, for a shell redirects to one
/// digit only.
inline constexpr int kReportFd = 3;
inline constexpr int kOperationsFd = 4;

/// Program to execute.
struct ProgramStart {
  std::vector<std::string> words;   // as the user wrote them
  std::filesystem::path file;       // what the first of them means
  std::filesystem::path directory;  // it works in
  std::vector<std::pair<std::string, std::string>> environment;  // added
};

/// A user's program as a child of this process, in the same process group. One
/// thread.
class Program {
 public:
  /// Throws Error(kFailed) if it cannot be executed.
  explicit Program(const ProgramStart& start);
  /// Kills it, if it still runs.
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  /// Readable when it has ended.
  int exit_fd() const { return exit_fd_.get(); }
  /// The reading end of its reports; given away once.
  UniqueFd ReleaseReports() { return std::move(reports_); }
  /// The reading ends of its standard output and standard error; given away
  /// once.
  UniqueFd ReleaseOutput() { return std::move(output_); }
  UniqueFd ReleaseErrors() { return std::move(errors_); }
  /// Writes a line, newline included, for the program to read. False if the
  /// pipe is full: the program has not read for long.
  [[nodiscard]] bool WriteLine(std::string_view line);
  /// True if the program, or one that it has started, has read all that it was
  /// told.
  bool HasReadAll() const;
  void Signal(int signal);
  /// Sends the signal to all that the program has started as well.
  void SignalAll(int signal);
  /// Returns the end of the program, or none yet. Reaps all other children of
  /// this process that have ended.
  std::optional<ExitStatus> Reap();

 private:
  void Execute(const ProgramStart& start, int reports, int operations);
  UniqueFd Capture(int fd, UniqueFd& reading, Spawn& spawn);

  std::int64_t pid_ = 0;
  UniqueFd exit_fd_;
  UniqueFd reports_;
  UniqueFd operations_;
  bool told_ = false;  // the last line is in the pipe, or was read
  UniqueFd output_;
  UniqueFd errors_;
  std::optional<ExitStatus> exit_;
};

/// Unix socket to which a program may connect if a launcher closed the
/// descriptors it was started with. One thread.
class ProgramSocket {
 public:
  /// Listens in `directory`, or if its path is too long for a socket, in a
  /// directory for temporary files. Throws Error(kFailed).
  explicit ProgramSocket(const std::filesystem::path& directory);
  /// Removes it.
  ~ProgramSocket();
  ProgramSocket(const ProgramSocket&) = delete;
  ProgramSocket& operator=(const ProgramSocket&) = delete;

  const std::string& path() const { return path_; }
  /// Readable when a connection is waiting.
  int fd() const { return fd_.get(); }
  /// Returns the connection; not open if none is waiting any more.
  UniqueFd Accept();

 private:
  std::optional<ScratchDirectory> elsewhere_;
  std::string path_;
  UniqueFd fd_;
};

/// The version of docs/protocol.md.
inline constexpr int kProgramProtocol = 1;

/// Files and directories that are passed to a program.
struct ProgramPaths {
  std::filesystem::path description;  // of the JSON file
  std::filesystem::path scratch;      // a directory of its own
  std::filesystem::path checkpoint;   // to resume from, or empty
  ProgramState at;                    // of that checkpoint
  bool validated = false;             // it has the validation of its count
  std::filesystem::path warm_start;   // to start from, or empty
  std::string socket;
  std::string origin;  // directory that the context was stored from, or empty
};

/// Returns a length as the protocol has it: `{"epochs": 10}`.
nlohmann::json LengthToJson(Length length);

/// Returns the contents of the file that DTRAIN_TRIAL names. `until` of 0: the
/// program decides how long it trains.
nlohmann::json DescribeTrial(const TrialSpec& spec, Length until,
                             const ProgramPaths& paths);

/// Returns the program and its arguments, with values in place of placeholders:
/// of a hyperparameter, which its dotted path names and which takes precedence,
/// or `{length}`, `{checkpoint}` (empty if there is none), `{directory}` (the
/// working directory), `{seed}` and `{trial}`. Lists and maps are JSON. Since
/// rules 2, an argument that is only null is left out with its option.
std::vector<std::string> ProgramWords(const TrialSpec& spec, Length until,
                                      const ProgramPaths& paths);

/// Returns `names`, paths of hyperparameters, without those whose values are in
/// the program's words.
std::vector<std::string> WithoutPlaced(std::vector<std::string> names,
                                       const TrialSpec& spec);

/// Returns the length that the program is told to train to by `{length}` in its
/// words; nothing if they have none. A program whose metrics are found in its
/// output cannot be told of a later length, so in a search that stops trials it
/// is told the longest one.
std::optional<Length> LengthInWords(const TrialSpec& spec, Length until);

/// Returns the variables to add to the program's environment. A hyperparameter
/// that is a number, string or Boolean becomes DTRAIN_HPARAM_name, a
/// nested one DTRAIN_HPARAM_outer_name; characters that a variable's name
/// cannot have become underscores.
std::vector<std::pair<std::string, std::string>> ProgramVariables(
    const TrialSpec& spec, Length until, const ProgramPaths& paths);

}  // namespace dtrain
