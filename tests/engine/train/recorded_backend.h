#pragma once

#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/types.h>

namespace dtrain {

/// A backend in place of NCCL's, whose calls are recorded. It exchanges nothing
/// with other ranks: an all-reduce leaves the tensors unchanged.
class RecordedBackend final : public c10d::Backend {
 public:
  /// Names of its calls are appended to `calls`.
  RecordedBackend(std::vector<std::string>& calls, int rank, int ranks)
      : Backend(rank, ranks), calls_(calls) {}
  ~RecordedBackend() override { calls_.emplace_back("destroy"); }

  const std::string getBackendName() const override { return "nccl"; }

  c10::intrusive_ptr<c10d::Work> allreduce(
      std::vector<at::Tensor>& tensors,
      const c10d::AllreduceOptions& options) override {
    calls_.emplace_back(options.reduceOp == c10d::ReduceOp::AVG
                            ? "allreduce average"
                            : "allreduce");
    sent_.push_back(tensors.at(0).clone());
    return c10::make_intrusive<DoneWork>();
  }
  void shutdown() override {
    calls_.emplace_back("shutdown");
    TORCH_CHECK(!shutdown_fails_, "ncclUnhandledCudaError");
  }
  void abort() override { calls_.emplace_back("abort"); }

  void MakeShutdownFail() { shutdown_fails_ = true; }
  /// The tensors of each all-reduce.
  const std::vector<torch::Tensor>& sent() const { return sent_; }

 private:
  class DoneWork final : public c10d::Work {
   public:
    DoneWork() { finish(); }
  };

  std::vector<std::string>& calls_;
  std::vector<torch::Tensor> sent_;
  bool shutdown_fails_ = false;
};

}  // namespace dtrain
