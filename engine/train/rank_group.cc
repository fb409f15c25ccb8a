#include "engine/train/rank_group.h"

#include <filesystem>
#include <sstream>
#include <string>
#include <utility>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "engine/base/error.h"
#include "engine/base/uuid.h"
#include "engine/data/cuda_half.h"
#include "engine/train/cpu_backend.h"
#include "engine/train/nccl_backend.h"
#include "engine/train/trained_objects.h"

namespace dtrain {

namespace {

// Control and tensors have a lane each: tensors are exchanged by a thread of
// their own.
constexpr int kControlLane = 0;
constexpr int kTensorLane = 1;

// Names, types and shapes, to be compared.
std::string Describe(const NamedTensors& tensors) {
  std::ostringstream text;
  for (const auto& [name, tensor] : tensors) {
    text << name << ' ' << tensor.scalar_type() << tensor.sizes() << '\n';
  }
  return std::move(text).str();
}

}  // namespace

RankGroup::RankGroup(MeetingPlace place) : place_(std::move(place)) {
  control_ = place_->Group({.lane = kControlLane});
}

RankGroup::RankGroup(const UniqueFd& memory, int rank, int ranks)
    : RankGroup(MeetingPlace(memory, rank, ranks)) {}

RankGroup::RankGroup() = default;

RankGroup::~RankGroup() = default;

bool RankGroup::Any(bool mine) { return Most(mine ? 1 : 0) != 0; }

std::int64_t RankGroup::Most(std::int64_t mine) {
  if (control_) control_->AllReduce(std::span(&mine, 1), ReduceOp::kMax);
  return mine;
}

std::string RankGroup::FromFirst(std::string text) {
  return control_ ? control_->BroadcastText(std::move(text), /*root=*/0) : text;
}

std::vector<std::string> RankGroup::Gather(std::string_view mine) {
  if (!control_) return {std::string(mine)};
  return control_->AllGatherText(mine);
}

void RankGroup::Barrier() {
  if (control_) control_->Barrier();
}

void RankGroup::Fail(std::string_view why) {
  if (control_) control_->SetAborted(why);
}

void RankGroup::ShareModels(const TrainedObjects& objects) {
  if (is_alone()) return;
  const NamedTensors state = StateOf(objects.models);
  const std::string mine = Describe(state);
  if (Any(FromFirst(mine) != mine)) {
    throw Error(ErrorKind::kFailed,
                "the ranks of this trial have made different models; a model "
                "must not depend on the rank");
  }
  std::vector<torch::Tensor> tensors;
  for (const auto& [name, tensor] : state) tensors.push_back(tensor);
  Share(tensors);
}

void RankGroup::ShareBuffers(const TrainedObjects& objects) {
  if (is_alone()) return;
  std::vector<torch::Tensor> buffers;
  for (const NamedModel& entry : objects.models) {
    for (const torch::Tensor& buffer : entry.model->buffers()) {
      buffers.push_back(buffer);
    }
  }
  Share(buffers);
}

void RankGroup::Share(const std::vector<torch::Tensor>& tensors) {
  const torch::NoGradGuard no_grad;
  for (const torch::Tensor& tensor : tensors) {
    std::vector<torch::Tensor> one = {tensor.contiguous()};
    Tensors(tensor.device()).broadcast(one, c10d::BroadcastOptions())->wait();
    if (!one[0].is_same(tensor)) torch::Tensor(tensor).copy_(one[0]);
  }
}

c10d::Backend& RankGroup::Tensors(torch::Device device) {
  if (tensors_) return *tensors_;
  if (!device.is_cpu()) {
    tensors_ = NcclBackend();
    return *tensors_;
  }
  tensors_ = c10::make_intrusive<CpuBackend>(*place_, kTensorLane);
  return *tensors_;
}

c10::intrusive_ptr<c10d::Backend> RankGroup::NcclBackend() {
  const auto make = FromCudaHalf<MakeNcclBackend>(kMakeNcclBackend);
  if (make == nullptr) {
    throw Error(ErrorKind::kFailed,
                "several GPUs for one trial need NCCL, whose header nccl.h was "
                "not there when this dtrain was built; run scripts/setup, "
                "build again, or set slots_per_trial: 1");
  }
  return c10::intrusive_ptr<c10d::Backend>::reclaim(
      make(NcclStore(), rank(), size()));
}

// What NCCL's ranks find each other by: a file on one machine, else a server of
// rank 0's at a port that the system chooses.
c10::intrusive_ptr<c10d::Store> RankGroup::NcclStore() {
  if (place_->on_one_machine()) {
    const auto temporary = std::filesystem::temp_directory_path();
    const std::string file =
        FromFirst((temporary / ("dtrain-nccl-" + RandomUuid())).string());
    return c10::make_intrusive<c10d::FileStore>(file, size());
  }
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = is_first();
  options.waitWorkers = false;
  c10::intrusive_ptr<c10d::TCPStore> store;
  if (is_first()) {
    store = c10::make_intrusive<c10d::TCPStore>(place_->host(), options);
  }
  const std::string port =
      FromFirst(store ? std::to_string(store->getPort()) : "");
  if (store) return store;
  options.port = static_cast<std::uint16_t>(std::stoi(port));
  return c10::make_intrusive<c10d::TCPStore>(place_->host(), options);
}

}  // namespace dtrain
