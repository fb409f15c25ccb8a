// Collectives of a trial's ranks: small control messages through shared memory
// or TCP (engine/ranks), tensors through NCCL on GPUs and through CpuBackend on
// CPUs.
//
// Control messages and tensors of CPU ranks use two channels of one process
// group, since tensors are exchanged by a thread of their own while backward
// passes run. The backend for tensors is made at its first use, which must
// therefore be at the same place on all ranks.
//
// NCCL's ranks find each other through a store: a file on one machine, a TCP
// server on rank 0 otherwise. The network interface is set for NCCL unless the
// user has chosen one, because by itself it takes the first by name. When a
// rank fails, NCCL's communicator is not destroyed: its destructor would wait
// for ranks that are gone (Leave).

#include "engine/train/rank_group.h"

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include <pwd.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "engine/base/error.h"
#include "engine/base/rng.h"
#include "engine/data/cuda_half.h"
#include "engine/os/socket.h"
#include "engine/os/unique_fd.h"
#include "engine/ranks/process_group.h"
#include "engine/train/cuda_factories.h"
#include "engine/train/device.h"
#include "engine/train/log_line.h"
#include "engine/train/tensor_file.h"
#include "engine/train/trained_objects.h"
#include "engine/wire/trial_spec.h"

namespace dtrain {

namespace {

// Collectives between the ranks of a trial for tensors on the CPU, behind
// c10d's interface, as ProcessGroupNCCL is for GPUs. (LibTorch's wheel contains
// Gloo, but not its headers.) Sums are bit-identical on every rank and in every
// run.
//
// Operations run in order on a thread of this object; their Work completes when
// they do. Tensors are dense and on the CPU: float32, float64 or int64 for
// allreduce (sum, minimum, maximum), any type for broadcast. Other functions of
// the interface throw c10::Error. Not thread-safe.
class CpuBackend final : public c10d::Backend {
 public:
  // Uses one channel of `group`, which outlives this object. Throws
  // Error(kFailed).
  CpuBackend(const ProcessGroup& group, int channel);
  // Aborts pending operations, as if another rank had exited.
  ~CpuBackend() override;

  const std::string getBackendName() const override { return "dtrain"; }
  c10::intrusive_ptr<c10d::Work> allreduce(
      std::vector<at::Tensor>& tensors,
      const c10d::AllreduceOptions& options) override;
  c10::intrusive_ptr<c10d::Work> broadcast(
      std::vector<at::Tensor>& tensors,
      const c10d::BroadcastOptions& options) override;
  c10::intrusive_ptr<c10d::Work> barrier(
      const c10d::BarrierOptions& options) override;

 private:
  c10::intrusive_ptr<c10d::Work> Queue(c10d::OpType type,
                                       std::function<void()> operation);
  void Run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  std::atomic<bool> quit_ = false;
  std::unique_ptr<Collectives> group_;
  std::thread thread_;  // last: uses all members above
};

// Work that this backend completes.
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

ReduceOp ToReduceOp(const c10d::ReduceOp& op) {
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
std::span<T> AsSpan(const at::Tensor& tensor) {
  return {tensor.mutable_data_ptr<T>(),
          static_cast<std::size_t>(tensor.numel())};
}

void AllReduceTensor(Collectives& group, const at::Tensor& tensor,
                     ReduceOp op) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return group.AllReduce(AsSpan<float>(tensor), op);
    case at::kDouble:
      return group.AllReduce(AsSpan<double>(tensor), op);
    case at::kLong:
      return group.AllReduce(AsSpan<std::int64_t>(tensor), op);
    default:
      TORCH_CHECK(false, "ranks on CPUs cannot reduce values of type ",
                  tensor.scalar_type());
  }
}

}  // namespace

CpuBackend::CpuBackend(const ProcessGroup& group, int channel)
    : Backend(group.rank(), group.ranks()),
      group_(group.OpenChannel(
          {.channel = channel, .give_up = [this] { return quit_.load(); }})),
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
  const ReduceOp op = ToReduceOp(options.reduceOp);
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

namespace {

// Control messages and tensors use separate channels, because tensors are
// exchanged by a thread of their own.
constexpr int kControlChannel = 0;
constexpr int kTensorChannel = 1;

// Names, types, shapes and memory orders, for comparison.
std::string Describe(const NamedTensors& tensors) {
  std::ostringstream text;
  for (const auto& [name, tensor] : tensors) {
    text << name << ' ' << tensor.scalar_type() << tensor.sizes()
         << tensor.strides() << '\n';
  }
  return std::move(text).str();
}

// Files in which NCCL looks for variables that the environment lacks.
std::vector<std::filesystem::path> NcclFiles() {
  std::vector<std::filesystem::path> files;
  const char* own = std::getenv("NCCL_CONF_FILE");
  const passwd* user = ::getpwuid(::getuid());  // NCCL does not read HOME
  if (own != nullptr && *own != '\0') {
    files.emplace_back(own);
  } else if (user != nullptr && user->pw_dir != nullptr) {
    files.push_back(std::filesystem::path(user->pw_dir) / ".nccl.conf");
  }
  files.emplace_back("/etc/nccl.conf");
  return files;
}

constexpr char kInterfaceVariable[] = "NCCL_SOCKET_IFNAME";

// True if a file of lines NAME=VALUE sets the variable of NCCL's interface.
bool SetsInterface(const std::filesystem::path& file) {
  constexpr std::string_view kName = kInterfaceVariable;
  std::ifstream in(file);
  std::string line;
  while (std::getline(in, line)) {
    const std::string_view text = line;
    if (text.starts_with(kName) && text.substr(kName.size()).starts_with('=')) {
      return true;
    }
  }
  return false;
}

// Process group of the rank of `spec`. Waits for ranks on other machines.
ProcessGroup JoinProcessGroup(const TrialSpec& spec) {
  const char* number = std::getenv(kRankFdVariable);
  UniqueFd inherited(number == nullptr ? -1 : std::atoi(number));
  const bool needs_one = !spec.address || spec.rank == 0;
  if (needs_one && !inherited) {
    throw Error(ErrorKind::kFailed,
                "this rank was given no connection to the others; this is a "
                "bug of dtrain");
  }
  if (!spec.address) return ProcessGroup(inherited, spec.rank, spec.world_size);
  ProcessGroup group(std::move(inherited),
                     {.first = HostPort{spec.address->host, spec.address->port},
                      .token = spec.address->token,
                      .rank = spec.rank,
                      .ranks = spec.world_size});
  SetNcclInterface(group.Interface(), NcclFiles());
  return group;
}

}  // namespace

// NCCL takes the first interface by name, which may be one of containers. "="
// means exactly this name.
void SetNcclInterface(const std::string& interface,
                      const std::vector<std::filesystem::path>& files) {
  if (interface.empty() || std::ranges::any_of(files, SetsInterface)) return;
  ::setenv(kInterfaceVariable, ("=" + interface).c_str(), /*overwrite=*/0);
}

RankGroup::RankGroup(ProcessGroup group)
    : rank_(group.rank()),
      size_(group.ranks()),
      process_group_(std::make_unique<ProcessGroup>(std::move(group))),
      control_(process_group_->OpenChannel({.channel = kControlChannel})) {}

RankGroup::RankGroup(const UniqueFd& memory, int rank, int ranks)
    : RankGroup(ProcessGroup(memory, rank, ranks)) {}

RankGroup::RankGroup(const TrialSpec& spec)
    : RankGroup(JoinProcessGroup(spec)) {
  nccl_timeout_ = spec.nccl_timeout;
}

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

void RankGroup::Leave(bool succeeded) {
  const bool on_gpus =
      tensors_ && dynamic_cast<CpuBackend*>(tensors_.get()) == nullptr;
  if (!on_gpus) return;
  if (succeeded) {
    try {
      tensors_->shutdown();
      // NCCL's threads on other machines use the store of rank 0 until then.
      Barrier();
      tensors_.reset();
      return;
    } catch (const c10::Error& error) {
      LogLine(LogLevel::kWarning, "shutting NCCL down: " + TorchMessage(error));
    } catch (const std::exception& error) {
      LogLine(LogLevel::kWarning,
              std::string("shutting NCCL down: ") + error.what());
    }
  }
  // The file of a store that is never destroyed.
  std::error_code ignored;
  std::filesystem::remove(store_file_, ignored);
  (void)tensors_.release();
}

void RankGroup::SetBackend(c10::intrusive_ptr<c10d::Backend> backend,
                           std::string store_file) {
  tensors_ = std::move(backend);
  store_file_ = std::move(store_file);
}

void RankGroup::ShareModels(const TrainedObjects& objects) {
  if (is_alone()) return;
  const NamedTensors state = CollectState(objects.models);
  const std::string mine = Describe(state);
  // All ranks must throw, not only those that differ, so the comparison is
  // agreed on.
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
  tensors_ = c10::make_intrusive<CpuBackend>(*process_group_, kTensorChannel);
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
      make(NcclStore(), rank(), size(), nccl_timeout_));
}

// Returns the store by which NCCL's ranks find each other: a file on one
// machine, otherwise a server on rank 0 at a port chosen by the system.
c10::intrusive_ptr<c10d::Store> RankGroup::NcclStore() {
  if (process_group_->on_one_machine()) {
    const auto temporary = std::filesystem::temp_directory_path();
    store_file_ =
        FromFirst((temporary / ("dtrain-nccl-" + RandomUuid())).string());
    return c10::make_intrusive<c10d::FileStore>(store_file_, size());
  }
  c10::intrusive_ptr<c10d::TCPStore> store;
  if (is_first()) store = ServeStoreAt(process_group_->host());
  const std::string port =
      FromFirst(store ? std::to_string(store->getPort()) : "");
  if (store) return store;
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(std::stoi(port));
  options.waitWorkers = false;
  return c10::make_intrusive<c10d::TCPStore>(process_group_->host(), options);
}

c10::intrusive_ptr<c10d::TCPStore> ServeStoreAt(const std::string& host) {
  UniqueFd listener = ListenAt({host, 0});
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(GetPort(listener.get()));
  options.isServer = true;
  options.waitWorkers = false;
  options.masterListenFd = listener.release();  // closed by the store
  return c10::make_intrusive<c10d::TCPStore>(host, options);
}

// Batch i of all ranks before batch i + 1 of any: ranks take batches in turns.
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
  std::size_t max_batches = 0;
  for (const std::string& file : files) {
    of_ranks.push_back(
        ReadTensors(std::as_bytes(std::span(file)), "a rank's outputs"));
    max_batches = std::max(max_batches, of_ranks.back().size());
  }
  std::vector<torch::Tensor> all;
  for (std::size_t i = 0; i < max_batches; ++i) {
    for (const auto& batches : of_ranks) {
      const auto found = batches.find(std::to_string(i));
      if (found != batches.end()) all.push_back(found->second);
    }
  }
  return all;
}

}  // namespace dtrain
