#include "engine/train/cpu_backend.h"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <utility>

namespace dtrain {

namespace {

// A piece of work whose end this backend says.
class QueuedWork final : public c10d::Work {
 public:
  QueuedWork(int rank, c10d::OpType type) : c10d::Work(rank, type) {}

  void Do(const std::function<void()>& operation) {
    try {
      operation();
      finish();
    } catch (...) {
      finish(std::current_exception());
    }
  }
};

ReduceOp OpOf(const c10d::ReduceOp& op) {
  if (op == c10d::ReduceOp::SUM) return ReduceOp::kSum;
  if (op == c10d::ReduceOp::MIN) return ReduceOp::kMin;
  if (op == c10d::ReduceOp::MAX) return ReduceOp::kMax;
  TORCH_CHECK(false, "ranks on CPUs reduce by sum, minimum and maximum only");
}

void CheckTensor(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.is_cpu() && tensor.is_non_overlapping_and_dense(),
              "ranks on CPUs exchange dense tensors of the CPU only");
}

template <typename T>
std::span<T> ValuesOf(const at::Tensor& tensor) {
  return {tensor.mutable_data_ptr<T>(),
          static_cast<std::size_t>(tensor.numel())};
}

void AllReduceTensor(Collectives& group, const at::Tensor& tensor,
                     ReduceOp op) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return group.AllReduce(ValuesOf<float>(tensor), op);
    case at::kDouble:
      return group.AllReduce(ValuesOf<double>(tensor), op);
    case at::kLong:
      return group.AllReduce(ValuesOf<std::int64_t>(tensor), op);
    default:
      TORCH_CHECK(false, "ranks on CPUs cannot reduce values of type ",
                  tensor.scalar_type());
  }
}

}  // namespace

CpuBackend::CpuBackend(const MeetingPlace& place, int lane)
    : Backend(place.rank(), place.ranks()),
      group_(place.Group(
          {.lane = lane, .give_up = [this] { return quit_.load(); }})),
      thread_([this] { Run(); }) {}

CpuBackend::~CpuBackend() {
  {
    const std::scoped_lock lock(mutex_);
    quit_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void CpuBackend::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return quit_ || !queue_.empty(); });
    if (quit_) return;
    const std::function<void()> operation = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    operation();
    lock.lock();
  }
}

c10::intrusive_ptr<c10d::Work> CpuBackend::Queue(
    c10d::OpType type, std::function<void()> operation) {
  auto work = c10::make_intrusive<QueuedWork>(getRank(), type);
  {
    const std::scoped_lock lock(mutex_);
    queue_.emplace_back(
        [work, operation = std::move(operation)] { work->Do(operation); });
  }
  changed_.notify_one();
  return work;
}

c10::intrusive_ptr<c10d::Work> CpuBackend::allreduce(
    std::vector<at::Tensor>& tensors, const c10d::AllreduceOptions& options) {
  const ReduceOp op = OpOf(options.reduceOp);
  for (const at::Tensor& tensor : tensors) CheckTensor(tensor);
  return Queue(c10d::OpType::ALLREDUCE, [this, tensors, op] {
    for (const at::Tensor& tensor : tensors) {
      AllReduceTensor(*group_, tensor, op);
    }
  });
}

c10::intrusive_ptr<c10d::Work> CpuBackend::broadcast(
    std::vector<at::Tensor>& tensors, const c10d::BroadcastOptions& options) {
  const int root = static_cast<int>(options.rootRank);
  for (const at::Tensor& tensor : tensors) CheckTensor(tensor);
  return Queue(c10d::OpType::BROADCAST, [this, tensors, root] {
    for (const at::Tensor& tensor : tensors) {
      group_->Broadcast(
          {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()},
          root);
    }
  });
}

c10::intrusive_ptr<c10d::Work> CpuBackend::barrier(
    const c10d::BarrierOptions&) {
  return Queue(c10d::OpType::BARRIER, [this] { group_->Barrier(); });
}

}  // namespace dtrain
