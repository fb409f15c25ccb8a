// Fuzzes the reader of PyTorch's weight files (.pth).

#include <algorithm>
#include <string>
#include <vector>

#include "engine/checkpoint/safetensors.h"
#include "engine/checkpoint/weights_file.h"
#include "tests/fuzz/fuzz_target.h"

namespace dtrain {
namespace {

constexpr std::size_t kMaxCopiedRatio = 4;
constexpr std::size_t kAllowedCopies = 1 << 20;

bool IsIn(std::span<const std::byte> bytes, std::span<const std::byte> file) {
  return bytes.data() >= file.data() &&
         bytes.data() + bytes.size() <= file.data() + file.size();
}

// Requires that the tensors survive being written as safetensors.
void RequireRoundTrip(const std::vector<TensorBytes>& tensors) {
  const std::string header = SafetensorsHeader(tensors);
  const auto bytes = std::as_bytes(std::span(header));
  std::vector<std::byte> file(bytes.begin(), bytes.end());
  for (const TensorBytes& tensor : tensors) {
    file.insert(file.end(), tensor.bytes.begin(), tensor.bytes.end());
  }
  const auto again = ReadSafetensors(file, "again");
  Require(again.size() == tensors.size(), "names are unique");
  for (const TensorBytes& tensor : tensors) {
    const auto same = std::ranges::find(again, tensor.name, &TensorBytes::name);
    Require(same != again.end() && same->dtype == tensor.dtype &&
                same->shape == tensor.shape &&
                std::ranges::equal(same->bytes, tensor.bytes),
            "writing as safetensors and reading again changes nothing");
  }
}

void Check(std::span<const std::byte> file) {
  try {
    const StateDictFile read(file, "fuzz.pth");
    std::size_t copied = 0;
    std::size_t all = 0;
    for (const TensorBytes& tensor : read.tensors()) {
      all += tensor.bytes.size();
      if (!IsIn(tensor.bytes, file)) copied += tensor.bytes.size();
    }
    Require(copied <= std::max(kMaxCopiedRatio * file.size(), kAllowedCopies),
            "a small file does not make large tensors");
    const bool reserved = std::ranges::any_of(
        read.tensors(),
        [](const TensorBytes& t) { return t.name == "__metadata__"; });
    // Views of one storage may add up to far more bytes than the file has.
    if (all <= kAllowedCopies && !reserved) RequireRoundTrip(read.tensors());
  } catch (const Error& error) {
    Require(error.kind() == ErrorKind::kFailed, "a bad file is a failure");
    RequireOneLine(error);
  }
}

}  // namespace
}  // namespace dtrain

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  dtrain::Check(std::as_bytes(std::span(data, size)));
  return 0;
}
