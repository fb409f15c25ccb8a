// Fuzzes the reader of safetensors files.

#include <algorithm>
#include <string>
#include <vector>

#include "engine/checkpoint/safetensors.h"
#include "tests/fuzz/fuzz_target.h"

namespace dtrain {
namespace {

bool IsSame(const TensorBytes& a, const TensorBytes& b) {
  return a.name == b.name && a.dtype == b.dtype && a.shape == b.shape &&
         std::ranges::equal(a.bytes, b.bytes);
}

// Returns the file that dtrain writes for these tensors.
std::vector<std::byte> Written(const std::vector<TensorBytes>& tensors) {
  const std::string header = SafetensorsHeader(tensors);
  const auto bytes = std::as_bytes(std::span(header));
  std::vector<std::byte> file(bytes.begin(), bytes.end());
  for (const TensorBytes& tensor : tensors) {
    file.insert(file.end(), tensor.bytes.begin(), tensor.bytes.end());
  }
  return file;
}

void Check(std::span<const std::byte> file) {
  std::vector<TensorBytes> tensors;
  try {
    tensors = ReadSafetensors(file, "fuzz.safetensors");
  } catch (const Error& error) {
    Require(error.kind() == ErrorKind::kFailed, "a bad file is a failure");
    RequireOneLine(error);
    return;
  }
  std::size_t bytes = 0;
  for (const TensorBytes& tensor : tensors) bytes += tensor.bytes.size();
  Require(bytes <= file.size(), "tensors lie in the file without overlap");
  const auto again = Written(tensors);
  Require(std::ranges::equal(ReadSafetensors(again, "again"), tensors, IsSame),
          "writing and reading again changes nothing");
}

}  // namespace
}  // namespace dtrain

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  dtrain::Check(std::as_bytes(std::span(data, size)));
  return 0;
}
