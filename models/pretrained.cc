#include "models/pretrained.h"

#include <map>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/checkpoint/weights_file.h"
#include "engine/train/tensor_file.h"

namespace dtrain {
namespace {

// Parameters and buffers, as torch.nn.Module.state_dict names them.
std::map<std::string, torch::Tensor> State(const torch::nn::Module& net) {
  std::map<std::string, torch::Tensor> state;
  for (const auto& entry : net.named_parameters()) {
    state.emplace(entry.key(), entry.value());
  }
  for (const auto& entry : net.named_buffers()) {
    state.emplace(entry.key(), entry.value());
  }
  return state;
}

std::string Shape(const torch::Tensor& tensor) {
  std::vector<std::string> sizes;
  for (const std::int64_t size : tensor.sizes()) {
    sizes.push_back(std::to_string(size));
  }
  return "[" + Join(sizes, ", ") + "]";
}

constexpr char kNotThese[] =
    "these are not the weights of this network: check 'arch', or remove the "
    "file";

Error Fault(const std::string& file, const std::string& what,
            const std::string& advice) {
  return Error(ErrorKind::kFailed, file + ": " + what + "; " + advice);
}

// Whether that is of the last layer and differs in the number of classes alone.
bool IsHeadOfOtherClasses(const ImageClassifier& net, const std::string& name,
                          const torch::Tensor& value,
                          const torch::Tensor& target) {
  const bool is_head =
      name == net.head() + ".weight" || name == net.head() + ".bias";
  return is_head && value.dim() == target.dim() && value.dim() > 0 &&
         value.sizes().slice(1) == target.sizes().slice(1);
}

}  // namespace

std::string LoadPretrained(ImageClassifier& net,
                           const std::filesystem::path& file,
                           OtherHead other_head) {
  const std::string name = EscapeForTerminal(file.string());
  const WeightsFile weights = OpenWeights(file);
  std::map<std::string, torch::Tensor> state = State(net);
  bool new_head = false;
  const torch::NoGradGuard guard;
  for (const TensorBytes& bytes : weights.tensors()) {
    const torch::Tensor value = TensorOf(bytes, name);
    const auto found = state.find(bytes.name);
    if (found == state.end()) {
      throw Fault(name,
                  "has '" + EscapeForTerminal(bytes.name) +
                      "', which the network lacks",
                  kNotThese);
    }
    torch::Tensor target = found->second;
    state.erase(found);
    if (value.sizes() == target.sizes()) {
      target.copy_(value);
    } else if (!IsHeadOfOtherClasses(net, bytes.name, value, target)) {
      throw Fault(name,
                  "'" + bytes.name + "' has the shape " + Shape(value) +
                      ", the network's is " + Shape(target),
                  kNotThese);
    } else if (other_head == OtherHead::kError) {
      throw Fault(name,
                  "is for " + std::to_string(value.size(0)) +
                      " classes, and 'num_classes' is " +
                      std::to_string(target.size(0)),
                  "say num_classes: " + std::to_string(value.size(0)));
    } else {
      new_head = true;
    }
  }
  for (const auto& [missing, tensor] : state) {
    if (!missing.ends_with("num_batches_tracked")) {
      throw Fault(name, "lacks '" + missing + "'", kNotThese);
    }
  }
  return "pretrained: weights from " + name +
         (new_head ? ", but for " + net.head() +
                         ", which has another number of classes and is new"
                   : "");
}

}  // namespace dtrain
