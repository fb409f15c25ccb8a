#include "engine/train/torch_error.h"

#include <string_view>

#include "engine/base/text.h"
#include "engine/train/read_gpu.h"

namespace dtrain {

namespace {

// Nothing, where that cannot be told.
std::string OutOfMemory(const c10::Error& error) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) == nullptr) return "";
  try {
    const auto memory = ReadGpu();
    return memory ? OutOfMemoryMessage(*memory) : "";
  } catch (const c10::Error&) {
    return "";
  }
}

}  // namespace

std::string TorchMessage(const c10::Error& error) {
  if (std::string message = OutOfMemory(error); !message.empty()) {
    return message;
  }
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
