#pragma once

#include <filesystem>

namespace dtrain {

/// Returns the directory of LibTorch, `torch` in its wheel, that a packaged
/// installation in `prefix` loads. PREFIX/lib/dtrain/libtorch lists the
/// candidates, one a line, relative to `prefix` and in the order in which the
/// programs search them. Returns an empty path if there is no such file: the
/// programs were built with the path of their LibTorch. Throws Error(kFailed)
/// if no candidate contains LibTorch; the text names the command that
/// installs it.
std::filesystem::path FindLibTorch(const std::filesystem::path& prefix);

}  // namespace dtrain
