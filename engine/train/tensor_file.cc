#include "engine/train/tensor_file.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/base/error.h"

namespace dtrain {

namespace {

constexpr std::array<std::pair<std::string_view, torch::ScalarType>, 13> kTypes{
    {{"F64", torch::kFloat64},
     {"F32", torch::kFloat32},
     {"F16", torch::kFloat16},
     {"BF16", torch::kBFloat16},
     {"F8_E4M3", torch::kFloat8_e4m3fn},
     {"F8_E5M2", torch::kFloat8_e5m2},
     {"I64", torch::kInt64},
     {"I32", torch::kInt32},
     {"I16", torch::kInt16},
     {"I8", torch::kInt8},
     {"U8", torch::kUInt8},
     {"BOOL", torch::kBool},
     {"C64", torch::kComplexFloat}}};

std::string Describe(const torch::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.scalar_type() << tensor.sizes();
  return text.str();
}

std::string TypeName(const std::string& name, const torch::Tensor& tensor) {
  for (const auto& [text, type] : kTypes) {
    if (type == tensor.scalar_type()) return std::string(text);
  }
  throw Error(ErrorKind::kFailed, "tensor '" + name + "' is " +
                                      Describe(tensor) +
                                      ", a type that checkpoints cannot hold");
}

torch::ScalarType TypeOf(const std::string& what, const TensorBytes& tensor) {
  for (const auto& [text, type] : kTypes) {
    if (text == tensor.dtype) return type;
  }
  throw Error(ErrorKind::kFailed, what + ": tensor '" + tensor.name +
                                      "' has the type " + tensor.dtype +
                                      ", which is not supported");
}

// A safetensors file, its tensors where they are as far as they are on the CPU.
class FileInPieces {
 public:
  explicit FileInPieces(const NamedTensors& tensors) {
    std::vector<TensorBytes> entries;
    for (const auto& [name, tensor] : tensors) {
      const auto& flat =
          on_cpu_.emplace_back(tensor.detach().to(torch::kCPU).contiguous());
      entries.push_back(
          {.name = name,
           .dtype = TypeName(name, flat),
           .shape = flat.sizes().vec(),
           .bytes = {static_cast<const std::byte*>(flat.const_data_ptr()),
                     flat.nbytes()}});
    }
    header_ = SafetensorsHeader(entries);
    pieces_.push_back(std::as_bytes(std::span(header_)));
    for (const TensorBytes& entry : entries) pieces_.push_back(entry.bytes);
  }

  const std::vector<std::span<const std::byte>>& pieces() const {
    return pieces_;
  }

 private:
  std::vector<torch::Tensor> on_cpu_;  // keeps the bytes alive
  std::string header_;
  std::vector<std::span<const std::byte>> pieces_;
};

}  // namespace

Ties TakeOutTies(NamedTensors& tensors) {
  using Memory = std::tuple<const void*, std::vector<std::int64_t>,
                            std::vector<std::int64_t>, torch::ScalarType>;
  std::map<Memory, std::string> seen;
  Ties ties;
  NamedTensors kept;
  for (auto& [name, tensor] : tensors) {
    const Memory memory(tensor.const_data_ptr(), tensor.sizes().vec(),
                        tensor.strides().vec(), tensor.scalar_type());
    const auto [first, is_new] = seen.emplace(memory, name);
    if (is_new || tensor.numel() == 0) {
      kept.emplace_back(std::move(name), std::move(tensor));
    } else {
      ties.emplace(name, first->second);
    }
  }
  tensors = std::move(kept);
  return ties;
}

std::string TensorFile(const NamedTensors& tensors) {
  std::string file;
  const FileInPieces whole(tensors);
  for (const auto piece : whole.pieces()) {
    file.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  }
  return file;
}

void WriteTensors(CheckpointWriter& writer, const std::string& name,
                  const NamedTensors& tensors) {
  writer.Write(name, FileInPieces(tensors).pieces());
}

// Copied: the bytes need not be aligned for their type.
torch::Tensor TensorOf(const TensorBytes& bytes, const std::string& what) {
  torch::Tensor tensor = torch::empty(bytes.shape, TypeOf(what, bytes));
  std::ranges::copy(bytes.bytes,
                    static_cast<std::byte*>(tensor.mutable_data_ptr()));
  return tensor;
}

std::map<std::string, torch::Tensor> ReadTensors(
    std::span<const std::byte> file, const std::string& what) {
  std::map<std::string, torch::Tensor> tensors;
  for (const TensorBytes& entry : ReadSafetensors(file, what)) {
    tensors.emplace(entry.name, TensorOf(entry, what));
  }
  return tensors;
}

void CopyInto(torch::Tensor target, const torch::Tensor& value,
              const std::string& what) {
  if (target.sizes() != value.sizes() ||
      target.scalar_type() != value.scalar_type()) {
    throw Error(ErrorKind::kFailed,
                what + ": the checkpoint has " + Describe(value) +
                    ", the trial has " + Describe(target) +
                    "; use the hyperparameters it was made with");
  }
  const torch::NoGradGuard no_grad;
  target.copy_(value);
}

}  // namespace dtrain
