#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dtrain {

// What FaultTrial does to its own process. No Torch.

/// Leaves at once, like a crash: no destructors, no last word to the runner.
[[noreturn]] void ExitNow(int code);

/// Sleeps for ever; signals that end a process still do.
[[noreturn]] void Hang();

/// From now on SIGTERM does nothing to this process.
void IgnoreTerm();

/// Sleeps; a signal does not end it early.
void SleepMilliseconds(double milliseconds);

/// So many MiB of memory that are really there: every page was written to.
std::vector<std::uint8_t> HoldMemory(std::int64_t mebibytes);

/// Writes `bytes` bytes to stdout as lines of `line` bytes each, newline
/// included; 0: as one line that does not end.
void FloodLog(std::int64_t bytes, std::int64_t line);

/// Writes to stdout, as they are, the bytes that `hex` spells. Throws
/// std::invalid_argument if it spells none.
void WriteHex(const std::string& hex);

/// Leaves behind a daemon as badly written libraries do: a grandchild in a
/// session of its own that holds stdout and sleeps ten minutes.
void SpawnDaemon();

}  // namespace dtrain
