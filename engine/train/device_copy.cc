#include "engine/train/device_copy.h"

#include <algorithm>
#include <utility>

#include <c10/core/impl/VirtualGuardImpl.h>

namespace dtrain {

namespace {

constexpr std::size_t kMostUnderWay = 2;

}  // namespace

DeviceCopy::DeviceCopy(torch::Device device) : device_(device) {
  if (device.is_cpu()) return;
  // One for all copies of this process: freed memory is kept by stream.
  static const c10::Stream stream = c10::impl::VirtualGuardImpl(device.type())
                                        .getStreamFromGlobalPool(device);
  stream_ = stream;
}

Batch DeviceCopy::operator()(const Batch& batch) {
  const auto tensors = batch.tensors();
  const bool is_there =
      std::ranges::all_of(tensors, [&](const torch::Tensor& tensor) {
        return !tensor.defined() || tensor.device() == device_;
      });
  if (is_there) return batch;
  return stream_ ? CopyBeside(batch) : batch.To(device_);
}

Batch DeviceCopy::CopyBeside(const Batch& batch) {
  if (under_way_.size() == kMostUnderWay) {
    under_way_.front().copied.synchronize();
    under_way_.pop_front();
  }
  const c10::impl::VirtualGuardImpl gpu(device_.type());
  const c10::Stream working = gpu.exchangeStream(*stream_);
  Batch there = batch.To(device_);
  c10::Event copied(device_.type());
  copied.record(*stream_);
  gpu.exchangeStream(working);
  copied.block(working);
  // Else its memory is given to the next copy while it is still worked on.
  for (const torch::Tensor& tensor : there.tensors()) {
    if (!tensor.defined()) continue;
    gpu.recordDataPtrOnStream(tensor.storage().data_ptr(), working);
  }
  under_way_.push_back({.copied = std::move(copied), .from = batch});
  return there;
}

}  // namespace dtrain
