#include "tests/support/recorded_graph.h"

#include <set>
#include <string>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/library.h>

namespace dtrain {
namespace {

// A dispatch key below autograd that is otherwise unused.
constexpr c10::DispatchKey kKey = c10::DispatchKey::Fake;

thread_local RecordedGraph* recording = nullptr;

void RecordOne(const c10::OperatorHandle& operation, c10::DispatchKeySet keys,
               torch::jit::Stack* stack) {
  recording->Record(operation, keys, stack);
}

// Calls `visit` for each defined tensor of a value.
template <typename Visit>
void ForEachTensor(const c10::IValue& value, Visit visit) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) visit(value.toTensor());
  } else if (value.isTensorList()) {
    for (const torch::Tensor& tensor : value.toTensorVector()) visit(tensor);
  } else if (value.isOptionalTensorList()) {
    for (const auto& tensor : value.toOptionalTensorList()) {
      const std::optional<torch::Tensor> one = tensor;
      if (one && one->defined()) visit(*one);
    }
  }
}

// Batch normalisation writes its running values, which its schema does not say.
bool IsWritten(const c10::Argument& argument) {
  const c10::AliasInfo* alias = argument.alias_info();
  return (alias != nullptr && alias->isWrite()) ||
         argument.name() == "running_mean" || argument.name() == "running_var";
}

void* MemoryAddress(const torch::Tensor& tensor) {
  return tensor.has_storage() ? tensor.storage().mutable_data() : nullptr;
}

std::set<void*> MemoryAddress(const std::vector<c10::IValue>& values) {
  std::set<void*> memory;
  for (const c10::IValue& value : values) {
    ForEachTensor(value, [&](const torch::Tensor& tensor) {
      memory.insert(MemoryAddress(tensor));
    });
  }
  return memory;
}

// Returns a tensor's whole memory as bytes.
torch::Tensor MemoryBytes(const torch::Tensor& tensor) {
  const c10::Storage& storage = tensor.storage();
  return torch::from_blob(storage.mutable_data(),
                          {static_cast<std::int64_t>(storage.nbytes())},
                          torch::kUInt8);
}

}  // namespace

void RecordedGraph::Capture(const std::function<void()>& work) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const torch::Tensor random = generator.get_state();
  recording = this;
  try {
    const c10::impl::IncludeDispatchKeyGuard guard(kKey);
    work();
  } catch (...) {
    recording = nullptr;
    PutBack();
    generator.set_state(random);
    throw;
  }
  recording = nullptr;
  PutBack();
  generator.set_state(random);
}

void RecordedGraph::Record(const c10::OperatorHandle& operation,
                           c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard not_twice(kKey);
  const std::string& name = operation.operator_name().name;
  TORCH_CHECK(name != "aten::_local_scalar_dense" && name != "aten::nonzero",
              "operation not permitted when stream is capturing: ", name);
  const auto taken = operation.schema().arguments().size();
  Call call{operation, {stack->end() - taken, stack->end()}, {}};
  KeepWritten(call);
  operation.redispatchBoxed(
      keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kKey), stack);
  const auto given = operation.schema().returns().size();
  call.results = {stack->end() - given, stack->end()};
  calls_.push_back(std::move(call));
}

std::vector<std::string> RecordedGraph::launches() const {
  std::vector<std::string> names;
  for (const Call& call : calls_) {
    const std::string& name = call.operation.operator_name().name;
    const auto& returns = call.operation.schema().returns();
    const bool is_view = !returns.empty() &&
                         returns[0].alias_info() != nullptr &&
                         !returns[0].alias_info()->isWrite();
    const bool allocates = name.starts_with("aten::empty") ||
                           name.starts_with("aten::new_empty") ||
                           name == "aten::set_";
    if (!is_view && !allocates) names.push_back(name);
  }
  return names;
}

void RecordedGraph::KeepWritten(const Call& call) {
  const auto& arguments = call.operation.schema().arguments();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!IsWritten(arguments[i])) continue;
    ForEachTensor(call.arguments[i], [&](const torch::Tensor& tensor) {
      void* memory = MemoryAddress(tensor);
      if (memory == nullptr || before_.contains(memory)) return;
      before_.emplace(memory, std::pair(tensor, MemoryBytes(tensor).clone()));
    });
  }
}

void RecordedGraph::PutBack() {
  for (auto& entry : before_) {
    MemoryBytes(entry.second.first).copy_(entry.second.second);
  }
  before_.clear();
}

void RecordedGraph::Replay() {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  ++*replays_;
  for (const Call& call : calls_) {
    torch::jit::Stack stack = call.arguments;
    call.operation.callBoxed(stack);
    const std::set<void*> given = MemoryAddress(call.arguments);
    for (std::size_t i = 0; i < call.results.size(); ++i) {
      std::vector<torch::Tensor> fresh;
      ForEachTensor(stack.at(i), [&](const torch::Tensor& tensor) {
        fresh.push_back(tensor);
      });
      auto next = fresh.begin();
      ForEachTensor(call.results[i], [&](const torch::Tensor& tensor) {
        const torch::Tensor& made = *next++;
        if (!given.contains(MemoryAddress(tensor))) tensor.detach().copy_(made);
      });
    }
  }
}

std::unique_ptr<StepGraph> RecordedGraph::Another() const {
  auto other = std::make_unique<RecordedGraph>();
  other->replays_ = other_replays_;
  return other;
}

TORCH_LIBRARY_IMPL(_, Fake, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&RecordOne>());
}

}  // namespace dtrain
