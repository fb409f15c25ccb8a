#include "engine/checkpoint/weights_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/checkpoint/torch_file.h"
#include "engine/os/system_error.h"
#include "engine/os/unique_fd.h"

namespace dtrain {

namespace {

using Bytes = std::span<const std::byte>;

constexpr std::array<std::string_view, 3> kWrapperPrefixes = {
    "module.", "_orig_mod.", "model."};

[[noreturn]] void FailWeights(const std::string& what,
                              const std::string& fault) {
  throw Error(ErrorKind::kFailed, what + ": " + fault);
}

Bytes Map(const std::filesystem::path& path, const std::string& what) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) != 0) {
    ThrowSystemError("read the weights in " + what);
  }
  if (!S_ISREG(status.st_mode)) FailWeights(what, "not a regular file");
  if (status.st_size == 0)
    FailWeights(what, "the file is empty; download it again");
  const auto size = static_cast<std::size_t>(status.st_size);
  void* start =
      ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), /*offset=*/0);
  if (start == MAP_FAILED) ThrowSystemError("read the weights in " + what);
  return {static_cast<const std::byte*>(start), size};
}

// True if a JSON header follows its length.
bool IsSafetensors(Bytes file) {
  constexpr std::size_t kHeader = sizeof(std::uint64_t);
  return file.size() > kHeader && file[kHeader] == std::byte{'{'};
}

// Returns the prefix that all names have after their first `start` bytes; empty
// if there is none.
std::string_view CommonPrefix(const std::vector<TensorBytes>& tensors,
                              std::size_t start) {
  for (const std::string_view prefix : kWrapperPrefixes) {
    const bool all = std::ranges::all_of(tensors, [&](const auto& tensor) {
      const auto rest = std::string_view(tensor.name).substr(start);
      return rest.size() > prefix.size() && rest.starts_with(prefix);
    });
    if (all) return prefix;
  }
  return {};
}

}  // namespace

WeightsFile::WeightsFile(WeightsFile&& other) noexcept
    : mapped_(std::exchange(other.mapped_, {})),
      safetensors_(std::move(other.safetensors_)),
      state_dict_(std::move(other.state_dict_)) {}

WeightsFile& WeightsFile::operator=(WeightsFile&& other) noexcept {
  std::swap(mapped_, other.mapped_);
  std::swap(safetensors_, other.safetensors_);
  std::swap(state_dict_, other.state_dict_);
  return *this;
}

WeightsFile::~WeightsFile() {
  if (mapped_.empty()) return;
  ::munmap(const_cast<std::byte*>(mapped_.data()), mapped_.size());
}

const std::vector<TensorBytes>& WeightsFile::tensors() const {
  return state_dict_ ? state_dict_->tensors() : safetensors_;
}

WeightsFile OpenWeights(const std::filesystem::path& path) {
  const std::string what = EscapeForTerminal(path.string());
  WeightsFile weights(Map(path, what));
  if (IsSafetensors(weights.mapped_)) {
    weights.safetensors_ = ReadSafetensors(weights.mapped_, what);
  } else if (TorchFile::Is(weights.mapped_)) {
    weights.state_dict_.emplace(weights.mapped_, what);
  } else {
    FailWeights(
        what,
        "neither safetensors nor a file of torch.save; save the weights "
        "as one of them");
  }
  return weights;
}

std::string TakeOffPrefixes(std::vector<TensorBytes>& tensors,
                            const std::set<std::string>& expected) {
  if (tensors.empty()) return {};
  const auto matches = [&](std::size_t start) {
    return std::ranges::count_if(tensors, [&](const TensorBytes& tensor) {
      return expected.contains(tensor.name.substr(start));
    });
  };
  std::size_t removed = 0;
  auto most = matches(0);
  std::size_t start = 0;
  for (auto prefix = CommonPrefix(tensors, 0); !prefix.empty();
       prefix = CommonPrefix(tensors, start)) {
    start += prefix.size();
    const auto matched = matches(start);
    if (!expected.empty() && matched <= most) continue;
    most = matched;
    removed = start;
  }
  const std::string prefix = tensors.front().name.substr(0, removed);
  for (TensorBytes& tensor : tensors) tensor.name.erase(0, removed);
  return prefix;
}

}  // namespace dtrain
