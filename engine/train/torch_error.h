#pragma once

#include <string>

#include <c10/util/Exception.h>

namespace dtrain {

/// What LibTorch complains of, as one line without its backtrace.
std::string TorchMessage(const c10::Error& error);

}  // namespace dtrain
