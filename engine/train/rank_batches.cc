#include "engine/train/rank_batches.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "engine/train/tensor_file.h"

namespace dtrain {

std::vector<torch::Tensor> BatchesInOrder(std::vector<torch::Tensor> mine,
                                          RankGroup& ranks) {
  if (ranks.is_alone()) return mine;
  NamedTensors named;
  for (torch::Tensor& batch : mine) {
    named.emplace_back(std::to_string(named.size()), std::move(batch));
  }
  const auto files = ranks.Gather(TensorFile(named));
  if (!ranks.is_first()) return {};
  std::vector<std::map<std::string, torch::Tensor>> of_ranks;
  std::size_t most = 0;
  for (const std::string& file : files) {
    of_ranks.push_back(
        ReadTensors(std::as_bytes(std::span(file)), "a rank's outputs"));
    most = std::max(most, of_ranks.back().size());
  }
  std::vector<torch::Tensor> all;
  for (std::size_t i = 0; i < most; ++i) {
    for (const auto& batches : of_ranks) {
      const auto found = batches.find(std::to_string(i));
      if (found != batches.end()) all.push_back(found->second);
    }
  }
  return all;
}

}  // namespace dtrain
