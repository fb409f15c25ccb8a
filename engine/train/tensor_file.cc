// Tensors as safetensors files: writing and reading those of checkpoints, and
// loading weights of other tools into a model.
//
// Files are written in pieces that point into the tensors, so that a checkpoint
// needs no second copy of the model in memory; only tensors on a GPU or with
// another memory order are copied. Reading copies, since the bytes in a file
// need not be aligned.
//
// Checkpoints must fit exactly (CopyInto): names, shapes and types. Weights
// from elsewhere may have prefixes such as `module.`, other floating-point
// types, and tied tensors under one name only (LoadWeights); values that the
// model's type cannot represent are an error rather than an infinity.

#include "engine/train/tensor_file.h"

#include <algorithm>
#include <array>
#include <set>
#include <sstream>
#include <tuple>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/rounding.h"
#include "engine/base/text.h"
#include "engine/checkpoint/weights_file.h"
#include "engine/train/log_line.h"

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
  throw Error(ErrorKind::kFailed,
              "tensor '" + name + "' is " + Describe(tensor) +
                  ", a type that checkpoints do not support");
}

torch::ScalarType ToScalarType(const std::string& what,
                               const TensorBytes& tensor) {
  for (const auto& [text, type] : kTypes) {
    if (text == tensor.dtype) return type;
  }
  throw Error(ErrorKind::kFailed, what + ": tensor '" + tensor.name +
                                      "' has the type " + tensor.dtype +
                                      ", which is not supported");
}

// "'a'", or "'a' and 3 more tensors".
std::string FirstAndCount(const std::vector<std::string>& names) {
  const std::string first = "'" + EscapeForTerminal(names.front()) + "'";
  if (names.size() == 1) return first;
  const std::size_t more = names.size() - 1;
  return first + " and " + CountText(more, "more tensor");
}

std::string ShapeText(const torch::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.sizes();
  return text.str();
}

// True if copying casts within one kind: floating-point to floating-point, or
// integer to integer.
bool IsCast(const torch::Tensor& value, const torch::Tensor& target) {
  return value.is_floating_point() == target.is_floating_point() &&
         value.is_complex() == target.is_complex();
}

// Copies the weights of a file into a model.
class WeightsLoader {
 public:
  WeightsLoader(const NamedTensors& state, const std::filesystem::path& file,
                const WeightsRules& rules)
      : name_(EscapeForTerminal(file.string())), rules_(rules) {
    for (const auto& [name, tensor] : state) {
      targets_.emplace(name, tensor);
      expected_.insert(name);
    }
  }

  void Load(const std::vector<TensorBytes>& raw) {
    std::vector<TensorBytes> tensors = raw;
    StripPrefixes(tensors, expected_);
    RequireSameNames(tensors);
    const torch::NoGradGuard guard;
    for (const TensorBytes& bytes : tensors) {
      Copy(bytes.name, ToTensor(bytes, name_), targets_.at(bytes.name));
    }
  }

 private:
  void RequireSameNames(const std::vector<TensorBytes>& tensors) const {
    std::set<const void*> loaded;
    std::set<std::string> found;
    std::vector<std::string> extra;
    for (const TensorBytes& bytes : tensors) {
      const auto target = targets_.find(bytes.name);
      if (target == targets_.end()) {
        extra.push_back(bytes.name);
        continue;
      }
      found.insert(bytes.name);
      loaded.insert(target->second.const_data_ptr());
    }
    std::vector<std::string> missing;
    for (const auto& [name, target] : targets_) {
      // A tied tensor is loaded under the other's name.
      if (!found.contains(name) && !name.ends_with("num_batches_tracked") &&
          !loaded.contains(target.const_data_ptr())) {
        missing.push_back(name);
      }
    }
    const std::string difference = DescribeDifference(extra, missing);
    if (!difference.empty()) Fail(difference);
  }

  void Copy(const std::string& name, const torch::Tensor& value,
            torch::Tensor target) const {
    const std::string quoted = "'" + EscapeForTerminal(name) + "'";
    if (value.sizes() != target.sizes()) {
      if (rules_.keeps_own && rules_.keeps_own(name, value, target)) return;
      Fail(quoted + " has the shape " + ShapeText(value) + ", the model's is " +
           ShapeText(target));
    }
    if (!IsCast(value, target)) {
      Fail(quoted + " is " + Describe(value) + ", the model's is " +
           Describe(target));
    }
    target.copy_(value);
    if (value.scalar_type() == target.scalar_type() ||
        !value.is_floating_point()) {
      return;
    }
    const auto finite = value.to(torch::kFloat64).isfinite();
    if (!target.to(torch::kCPU).isfinite().equal(finite)) {
      Fail(quoted + " has values beyond the range of the model's " +
           std::string(c10::toString(target.scalar_type())));
    }
  }

  [[noreturn]] void Fail(const std::string& what) const {
    throw Error(ErrorKind::kFailed, name_ + ": " + what + "; " + rules_.advice);
  }

  const std::string name_;
  const WeightsRules& rules_;
  std::map<std::string, torch::Tensor> targets_;
  std::set<std::string> expected_;
};

// A safetensors file in pieces. Tensors on the CPU are not copied.
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

Ties ExtractTies(NamedTensors& tensors) {
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

// Copied, because the bytes need not be aligned for their type.
torch::Tensor ToTensor(const TensorBytes& bytes, const std::string& what) {
  torch::Tensor tensor = torch::empty(bytes.shape, ToScalarType(what, bytes));
  std::ranges::copy(bytes.bytes,
                    static_cast<std::byte*>(tensor.mutable_data_ptr()));
  return tensor;
}

std::map<std::string, torch::Tensor> ReadTensors(
    std::span<const std::byte> file, const std::string& what) {
  std::map<std::string, torch::Tensor> tensors;
  for (const TensorBytes& entry : ReadSafetensors(file, what)) {
    tensors.emplace(entry.name, ToTensor(entry, what));
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

std::string DescribeDifference(const std::vector<std::string>& extra,
                               const std::vector<std::string>& missing) {
  std::string text;
  if (!extra.empty()) {
    text = "has " + FirstAndCount(extra) + ", which the model lacks";
  }
  if (!missing.empty()) {
    text += std::string(text.empty() ? "" : ", and ") + "lacks " +
            FirstAndCount(missing) + " of the model";
  }
  return text;
}

void LoadWeights(const NamedTensors& state, const std::filesystem::path& file,
                 const WeightsRules& rules) {
  const WeightsFile weights = OpenWeights(file);
  if (const auto others = weights.other_keys(); !others.empty()) {
    LogLine(LogLevel::kInfo,
            EscapeForTerminal(file.string() + " also has weights under " +
                              Join(others, ", ") +
                              ", which are not loaded; 'dtrain checkpoint "
                              "import' with --key takes them"));
  }
  WeightsLoader(state, file, rules).Load(weights.tensors());
}

}  // namespace dtrain
