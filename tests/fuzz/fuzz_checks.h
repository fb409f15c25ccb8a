#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "engine/base/error.h"

/// What libFuzzer and the replay call with one input. Gives 0.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size);

namespace dtrain {

/// Aborts, having said what should have held: the way in which a fuzz target
/// tells that an input broke a promise.
void Require(bool holds, std::string_view promise);

/// That the text of `error` is what every error's is: one line of bounded
/// length in which a terminal finds nothing to obey.
void RequireOneLine(const Error& error);

/// The input as text.
inline std::string_view TextOf(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace dtrain
