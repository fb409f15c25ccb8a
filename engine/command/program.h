#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/os/unique_fd.h"

namespace dtrain {

/// The descriptors of the program: small numbers, for a shell redirects to one
/// digit only.
inline constexpr int kReportFd = 3;
inline constexpr int kOperationsFd = 4;

/// What is executed.
struct ProgramStart {
  std::vector<std::string> words;   // as the user wrote them
  std::filesystem::path file;       // what the first of them means
  std::filesystem::path directory;  // it works in
  std::vector<std::pair<std::string, std::string>> environment;  // added
};

/// How a program ended.
struct ProgramExit {
  int code = 0;    // −1: by `signal`
  int signal = 0;  // or 0
};

/// A user's program as a child of this process, in the same process group; what
/// it prints goes where this process prints. One thread.
class Program {
 public:
  /// Throws Error(kFailed) if it cannot be executed.
  explicit Program(const ProgramStart& start);
  /// Kills it, if it still runs.
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  /// Readable when it has ended.
  int pidfd() const { return pidfd_.get(); }
  /// The reading end of its reports; given away once.
  UniqueFd TakeReports() { return std::move(reports_); }
  /// Writes a line, newline included, that it may read. False if it cannot be
  /// written without waiting: then nobody has read for long.
  [[nodiscard]] bool Tell(std::string_view line);
  void Signal(int signal);
  /// Sends the signal to all that the program has started as well.
  void SignalAll(int signal);
  /// How it ended, or none yet. Reaps whatever else of this process's children
  /// has ended.
  std::optional<ProgramExit> Reap();

 private:
  void Execute(const ProgramStart& start, int reports, int operations);

  std::int64_t pid_ = 0;
  UniqueFd pidfd_;
  UniqueFd reports_;
  UniqueFd operations_;
  std::optional<ProgramExit> exit_;
};

}  // namespace dtrain
