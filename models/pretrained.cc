#include "models/pretrained.h"

#include <string>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/train/tensor_file.h"

namespace dtrain {
namespace {

constexpr char kNotThese[] =
    "these are not the weights of this network: check 'arch', or remove the "
    "file";

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
  bool new_head = false;
  const auto keeps_own = [&](const std::string& tensor,
                             const torch::Tensor& value,
                             const torch::Tensor& target) {
    if (!IsHeadOfOtherClasses(net, tensor, value, target)) return false;
    if (other_head == OtherHead::kError) {
      const std::string classes = std::to_string(value.size(0));
      throw Error(ErrorKind::kFailed, name + ": is for " + classes +
                                          " classes, and 'num_classes' is " +
                                          std::to_string(target.size(0)) +
                                          "; set num_classes to " + classes);
    }
    return new_head = true;
  };
  NamedTensors state;
  for (const auto& entry : net.named_parameters()) {
    state.emplace_back(entry.key(), entry.value());
  }
  for (const auto& entry : net.named_buffers()) {
    state.emplace_back(entry.key(), entry.value());
  }
  LoadWeights(state, file, {.advice = kNotThese, .keeps_own = keeps_own});
  return "pretrained: weights from " + name +
         (new_head ? ", but for " + net.head() +
                         ", which has another number of classes and is new"
                   : "");
}

}  // namespace dtrain
