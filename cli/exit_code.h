#pragma once

namespace dtrain {

enum class ErrorKind;
enum class State;
struct RunResult;

/// The exit codes that scripts may rely on.
inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitNotFound = 3;
inline constexpr int kExitRequirement = 4;
inline constexpr int kExitStore = 5;
inline constexpr int kExitResources = 6;
inline constexpr int kExitResumable = 75;
inline constexpr int kExitTimeout = 124;

/// Message of std::bad_alloc, which exits with kExitResources.
inline constexpr char kOutOfMemory[] =
    "out of memory; free some memory or reduce the request; resume an "
    "experiment that was running with `dtrain resume`";

int ExitCodeOf(ErrorKind kind);

/// Returns the exit code for an experiment that stays in `state`. REQUIRES: it
/// is neither PENDING nor RUNNING.
int ExitCodeOf(State state);

/// Returns the exit code of a finished run: 128 + signal if a signal paused it.
int ExitCodeOf(const RunResult& result);

}  // namespace dtrain
