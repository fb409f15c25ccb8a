#include "engine/train/torch_error.h"

#include <string_view>

#include "engine/base/text.h"

namespace dtrain {

std::string TorchMessage(const c10::Error& error) {
  constexpr std::size_t kLongest = 1'000;
  std::string line;
  for (const std::string& part : Split(error.what_without_backtrace(), '\n')) {
    const auto start = part.find_first_not_of(" \t");
    // Which line of LibTorch it was helps nobody who uses it.
    if (start == part.npos || part.starts_with("Exception raised from")) {
      continue;
    }
    if (!line.empty()) line += ' ';
    line += part.substr(start);
  }
  if (line.size() > kLongest) line.resize(kLongest);
  return line;
}

}  // namespace dtrain
