#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include <gnu/libc-version.h>

namespace dtrain {

/// Returns the file of the running program. Throws Error(kFailed) without
/// /proc.
std::filesystem::path OwnProgram();

/// Returns the ID that the linker has given to this build of the running
/// program, in hex digits; empty if it has none.
std::string BuildId();

/// Returns the prefix of this installation: the running program is
/// PREFIX/bin/NAME or PREFIX/libexec/dtrain/NAME. Throws as OwnProgram.
std::filesystem::path InstallPrefix();
/// Returns that of `program`.
std::filesystem::path InstallPrefix(const std::filesystem::path& program);

/// Returns the directory of LibTorch, `torch` in its wheel, that a packaged
/// installation in `prefix` loads. The first line of PREFIX/lib/dtrain/libtorch
/// is its version, the others are the candidates, relative to `prefix` and in
/// the order in which the programs search them. Returns an empty path if there
/// is no such file: the programs were built with the path of their LibTorch.
/// Throws Error(kResources) if no candidate contains LibTorch, or the first
/// that does has another version; the text names the command that installs it.
/// Throws as RequireLibc, too.
std::filesystem::path FindLibTorch(const std::filesystem::path& prefix);

/// Throws Error(kResources) if the C library is older than the one that dtrain
/// was built with: only dtrain and command-host are linked with an older one
/// (scripts/cmake/DtrainStatic.cmake). `users` are those that need it.
void RequireLibc(const std::string& users,
                 std::string_view running = ::gnu_get_libc_version());

/// Returns this installation's program that starts trials of models, and the
/// one for commands, PREFIX/libexec/dtrain/NAME. Throw Error(kFailed) if it is
/// missing, and FindTrialHost as FindLibTorch.
std::filesystem::path FindTrialHost();
std::filesystem::path FindCommandHost();

}  // namespace dtrain
