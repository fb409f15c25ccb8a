#include "models/pretrained.h"

#include <map>
#include <set>
#include <string>
#include <utility>

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

}  // namespace

std::string LoadPretrained(ImageClassifier& net,
                           const std::filesystem::path& file) {
  const std::string name = EscapeForTerminal(file.string());
  const WeightsFile weights = OpenWeights(file);
  const auto fail = [&name](const std::string& what) {
    return Error(ErrorKind::kFailed,
                 name + ": " + what +
                     "; these are not the weights of this network: check "
                     "'arch', or remove the file");
  };
  std::map<std::string, torch::Tensor> state = State(net);
  bool new_head = false;
  const torch::NoGradGuard guard;
  for (const TensorBytes& bytes : weights.tensors()) {
    const torch::Tensor value = TensorOf(bytes, name);
    const auto found = state.find(bytes.name);
    if (found == state.end()) {
      throw fail("has '" + EscapeForTerminal(bytes.name) +
                 "', which the network lacks");
    }
    torch::Tensor target = found->second;
    state.erase(found);
    if (value.sizes() == target.sizes()) {
      target.copy_(value);
      continue;
    }
    // Another number of classes, and nothing else.
    const bool is_head = bytes.name == net.head() + ".weight" ||
                         bytes.name == net.head() + ".bias";
    if (!is_head || value.dim() != target.dim() ||
        value.sizes().slice(1) != target.sizes().slice(1)) {
      throw fail("'" + bytes.name + "' has the shape " + Shape(value) +
                 ", the network's is " + Shape(target));
    }
    new_head = true;
  }
  for (const auto& [missing, tensor] : state) {
    if (!missing.ends_with("num_batches_tracked")) {
      throw fail("lacks '" + missing + "'");
    }
  }
  return "pretrained: weights from " + name +
         (new_head ? ", but for " + net.head() +
                         ", which has another number of classes and is new"
                   : "");
}

}  // namespace dtrain
