#include "tests/support/fake_device.h"

#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include <ATen/EmptyTensor.h>
#include <ATen/ops/as_strided_native.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

// Each stream is a queue. An event is a number that grows with each record: the
// recording is itself queued work, which marks the number as reached. A stream
// that is blocked by an event has queued work that can run only then.

namespace dtrain {
namespace {

struct FakeEvent {
  int recorded = 0;  // number of records
  int reached = 0;   // number of the last record that has run
};

struct Work {
  std::function<bool()> may_run;
  std::function<void()> run;
  bool is_launch = false;
};

struct State {
  std::map<c10::StreamId, std::deque<Work>> queues;
  c10::StreamId current = 0;
  c10::StreamId last_stream = 0;
  std::set<void*> tied;  // memory that record_stream was called for
  int waits = 0;
  bool has_failed = false;
};

State& TheDevice() {
  static State state;
  return state;
}

void Check() {
  TORCH_CHECK(!TheDevice().has_failed, "device-side assert triggered");
}

// Returns true if anything ran.
bool RunQueue(std::deque<Work>& queue) {
  bool any = false;
  while (!queue.empty() && queue.front().may_run()) {
    const Work work = std::move(queue.front());
    queue.pop_front();
    work.run();
    any = true;
  }
  return any;
}

void RunUntil(const std::function<bool()>& is_done) {
  bool any = true;
  while (any && !is_done()) {
    any = false;
    for (auto& [id, queue] : TheDevice().queues) {
      // One piece at a time: no more than is waited for.
      if (is_done()) return;
      if (queue.empty() || !queue.front().may_run()) continue;
      const Work work = std::move(queue.front());
      queue.pop_front();
      work.run();
      any = true;
    }
  }
  TORCH_CHECK(is_done(), "deadlock of the fake device");
}

bool Always() { return true; }

c10::Stream MakeStream(c10::StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, FakeDevice::device(), id);
}

class FakeGuard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return torch::kPrivateUse1; }
  c10::Device exchangeDevice(c10::Device) const override {
    return FakeDevice::device();
  }
  c10::Device getDevice() const override { return FakeDevice::device(); }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }

  c10::Stream getStream(c10::Device) const override {
    return MakeStream(TheDevice().current);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override {
    return MakeStream(++TheDevice().last_stream);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    return MakeStream(std::exchange(TheDevice().current, stream.id()));
  }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex,
              const c10::EventFlag) const override {
    Check();
    if (*event == nullptr) *event = new FakeEvent;
    auto* const one = static_cast<FakeEvent*>(*event);
    const int number = ++one->recorded;
    TheDevice().queues[stream.id()].push_back(
        {.may_run = Always, .run = [one, number] { one->reached = number; }});
  }
  void block(void* event, const c10::Stream& stream) const override {
    Check();
    const auto* const one = static_cast<FakeEvent*>(event);
    if (one == nullptr) return;
    TheDevice().queues[stream.id()].push_back(
        {.may_run = [one,
                     number = one->recorded] { return one->reached >= number; },
         .run = [] {}});
  }
  bool queryEvent(void* event) const override {
    Check();
    const auto* const one = static_cast<FakeEvent*>(event);
    return one == nullptr || one->reached == one->recorded;
  }
  void synchronizeEvent(void* event) const override {
    Check();
    const auto* const one = static_cast<FakeEvent*>(event);
    if (one == nullptr) return;
    RunUntil([&] { return one->reached == one->recorded; });
  }
  // Kept, since queued work may refer to it.
  void destroyEvent(void* event,
                    const c10::DeviceIndex) const noexcept override {
    static auto* const kept = new std::vector<std::unique_ptr<FakeEvent>>;
    kept->emplace_back(static_cast<FakeEvent*>(event));
  }
  void recordDataPtrOnStream(const c10::DataPtr& memory,
                             const c10::Stream&) const override {
    Check();
    TheDevice().tied.insert(memory.get());
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, FakeGuard)

// The host's memory, freed when the working stream comes there. As in LibTorch,
// freeing memory that is tied to another stream records an event.
class FakeAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    Check();
    auto* const memory = new char[bytes + 1];
    return {memory, memory, &Delete, FakeDevice::device()};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &Delete; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  static void Delete(void* memory) {
    if (TheDevice().tied.erase(memory) != 0) Check();
    TheDevice().queues[0].push_back({.may_run = Always, .run = [memory] {
                                       delete[] static_cast<char*>(memory);
                                     }});
  }
};

c10::Allocator* TheAllocator() {
  static FakeAllocator allocator;
  return &allocator;
}

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

torch::Tensor Empty(c10::IntArrayRef sizes, std::optional<c10::ScalarType> type,
                    std::optional<c10::Layout>, std::optional<c10::Device>,
                    std::optional<bool>,
                    std::optional<c10::MemoryFormat> format) {
  return at::detail::empty_generic(sizes, TheAllocator(), kKeys,
                                   type.value_or(torch::kFloat), format);
}

torch::Tensor EmptyStrided(c10::IntArrayRef sizes, c10::IntArrayRef strides,
                           std::optional<c10::ScalarType> type,
                           std::optional<c10::Layout>,
                           std::optional<c10::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(sizes, strides, TheAllocator(),
                                           kKeys, type.value_or(torch::kFloat));
}

// Reads the host's memory when the queue comes there, as from pinned memory.
torch::Tensor CopyFrom(const torch::Tensor& from, const torch::Tensor& to,
                       bool non_blocking) {
  Check();
  FakeDevice::Launch(
      [source = from.const_data_ptr(), target = to.mutable_data_ptr(),
       bytes = from.nbytes()] { std::memcpy(target, source, bytes); });
  if (!non_blocking) {
    ++TheDevice().waits;
    FakeDevice::Synchronize();
  }
  return to;
}

// A view of the device's memory for the host's operations.
torch::Tensor OnHost(const torch::Tensor& tensor) {
  return torch::from_blob(tensor.mutable_data_ptr(), tensor.sizes(),
                          tensor.strides(),
                          torch::TensorOptions(tensor.scalar_type()));
}

torch::Tensor IndexSelect(const torch::Tensor& from, std::int64_t dimension,
                          const torch::Tensor& index) {
  std::vector<std::int64_t> sizes = from.sizes().vec();
  sizes[static_cast<std::size_t>(dimension)] = index.size(0);
  const torch::Tensor to = torch::empty(sizes, from.options());
  FakeDevice::Launch(
      [source = OnHost(from), rows = OnHost(index), target = OnHost(to),
       dimension] { target.copy_(source.index_select(dimension, rows)); });
  return to;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", &Empty);
  library.impl("empty_strided", &EmptyStrided);
  library.impl("_copy_from", &CopyFrom);
  library.impl("as_strided", &at::native::as_strided_tensorimpl);
  library.impl("index_select", &IndexSelect);
}

}  // namespace

void FakeDevice::Reset() {
  TheDevice().has_failed = false;
  Synchronize();
  TheDevice().tied.clear();
}

void FakeDevice::Launch(std::function<void()> work) {
  State& state = TheDevice();
  state.queues[state.current].push_back(
      {.may_run = Always, .run = std::move(work), .is_launch = true});
}

void FakeDevice::RunAhead(c10::StreamId id) {
  RunQueue(TheDevice().queues[id]);
}

void FakeDevice::Synchronize() {
  bool any = true;
  while (any) {
    any = false;
    for (auto& [id, queue] : TheDevice().queues) any |= RunQueue(queue);
  }
}

std::size_t FakeDevice::pending() {
  std::size_t count = 0;
  for (const Work& work : TheDevice().queues[TheDevice().current]) {
    count += work.is_launch ? 1 : 0;
  }
  return count;
}

bool FakeDevice::has_tied_memory() { return !TheDevice().tied.empty(); }

int FakeDevice::waits() { return TheDevice().waits; }

void FakeDevice::Fail() { TheDevice().has_failed = true; }

}  // namespace dtrain
