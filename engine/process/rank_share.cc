#include "engine/process/rank_share.h"

namespace dtrain {

int RanksHere(const TrialSpec& trial) {
  return trial.address ? trial.address->ranks_here : trial.world_size;
}

std::vector<Gpu> ShareOf(const std::vector<Gpu>& gpus, int rank, int ranks) {
  if (ranks == 1 || gpus.empty()) return gpus;
  return {gpus.at(static_cast<std::size_t>(rank))};
}

TrialSpec SpecOfRank(const TrialSpec& trial, int rank,
                     const std::vector<Gpu>& gpus) {
  TrialSpec spec = trial;
  spec.rank = rank;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    spec.gpus.push_back(static_cast<int>(i));
  }
  return spec;
}

std::vector<std::pair<std::string, std::string>> DeviceVariables(
    const std::vector<Gpu>& gpus) {
  std::string visible;
  for (const Gpu& gpu : gpus) {
    if (!visible.empty()) visible += ',';
    visible += gpu.uuid.empty() ? std::to_string(gpu.index) : gpu.uuid;
  }
  return {{"CUDA_DEVICE_ORDER", "PCI_BUS_ID"},
          {"CUDA_VISIBLE_DEVICES", visible}};
}

}  // namespace dtrain
