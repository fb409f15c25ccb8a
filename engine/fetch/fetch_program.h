#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "engine/fetch/data_sets.h"
#include "engine/fetch/fetch_set.h"

namespace dtrain {

/// Returns libexec/dtrain/data-fetch. Throws Error(kFailed) if it is missing.
std::filesystem::path FindFetchProgram();

/// FetchSet in a process of its own, libexec/dtrain/data-fetch. That program is
/// linked with libcurl, libarchive and the thirty libraries that they need,
/// which would double the time that every command of dtrain takes to start.
/// `options.patience` is not passed on. Throws what FetchSet throws, and
/// Error(kFailed) if the program is missing or dies. REQUIRES: SIGPIPE is
/// ignored.
FetchResult FetchInProgram(const DataSet& set, const FetchOptions& options);

/// The other side: runs `fetch` for the arguments of data-fetch, without its
/// name, and reports to FetchInProgram on standard output. Returns the exit
/// code.
int ServeFetch(std::span<const std::string> arguments,
               const std::function<FetchResult(const DataSet&,
                                               const FetchOptions&)>& fetch);

}  // namespace dtrain
