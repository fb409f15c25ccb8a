#include "tests/fuzz/fuzz_checks.h"

#include <cstdio>
#include <cstdlib>
#include <string>

#include "engine/base/text.h"

namespace dtrain {
namespace {

// Longer than any message with a path in it, and shorter than any input that
// somebody would want to see whole.
constexpr std::size_t kLongestError = 1000;

}  // namespace

void Require(bool holds, std::string_view promise) {
  if (holds) return;
  std::fprintf(stderr, "broken promise: %.*s\n",
               static_cast<int>(promise.size()), promise.data());
  std::abort();
}

void RequireOneLine(const Error& error) {
  const std::string text = error.what();
  Require(!text.empty(), "an error says something");
  Require(text.size() <= kLongestError, "an error is of bounded length");
  Require(EscapeForTerminal(text) == text,
          "an error is one line without control characters");
}

}  // namespace dtrain
