#include "engine/checkpoint/pickle_machine.h"

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/checkpoint/pickle_globals.h"

namespace dtrain {

namespace {

// A network of ten thousand tensors with an optimizer's state has a tenth.
constexpr std::size_t kMostValues = 4'000'000;

}  // namespace

std::string PickleGlobal::FullName() const {
  const std::string full = std::string(module) + "." + std::string(name);
  return Truncate(EscapeForTerminal(full), 100);
}

void PickleMachine::Fail(const std::string& fault) const {
  throw Error(ErrorKind::kFailed, what_ + ": its pickle " + fault);
}

void PickleMachine::Garbled() const { Fail("is garbled; fetch the file anew"); }

void PickleMachine::Count(std::size_t items) {
  count_ += items;
  if (count_ > kMostValues) {
    Fail("holds more than " + std::to_string(kMostValues) +
         " values; save model.state_dict() alone");
  }
}

void PickleMachine::Push(PickleValue value) {
  Count(1);
  stack_.push_back(static_cast<PickleIndex>(values_.size()));
  values_.push_back(std::move(value));
}

PickleIndex PickleMachine::Top() const {
  if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) Garbled();
  return stack_.back();
}

PickleIndex PickleMachine::Pop() {
  const PickleIndex top = Top();
  stack_.pop_back();
  return top;
}

std::vector<PickleIndex> PickleMachine::Pop(std::size_t count) {
  std::vector<PickleIndex> popped(count);
  for (std::size_t i = count; i > 0; --i) popped[i - 1] = Pop();
  return popped;
}

std::vector<PickleIndex> PickleMachine::PopToMark() {
  if (marks_.empty()) Garbled();
  const auto begin =
      stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
  std::vector<PickleIndex> popped(begin, stack_.end());
  stack_.erase(begin, stack_.end());
  marks_.pop_back();
  return popped;
}

void PickleMachine::PopValueOrMark() {
  if (!marks_.empty() && marks_.back() == stack_.size()) {
    marks_.pop_back();
    return;
  }
  Pop();
}

void PickleMachine::Memoize(std::uint32_t key) { memo_[key] = Top(); }

void PickleMachine::Recall(std::uint32_t key) {
  const auto found = memo_.find(key);
  if (found == memo_.end()) Garbled();
  stack_.push_back(found->second);
}

void PickleMachine::Append(const std::vector<PickleIndex>& items) {
  PickleValue& top = values_[Top()];
  // A set of protocol 2 is a call, with its items as arguments.
  auto* list = std::get_if<PickleList>(&top);
  if (list == nullptr) Garbled();
  list->items.insert(list->items.end(), items.begin(), items.end());
}

void PickleMachine::SetItems(const std::vector<PickleIndex>& items) {
  auto* dict = std::get_if<PickleDict>(&values_[Top()]);
  if (dict == nullptr || items.size() % 2 != 0) Garbled();
  for (std::size_t i = 0; i < items.size(); i += 2) {
    dict->items.emplace_back(items[i], items[i + 1]);
  }
}

void PickleMachine::PushGlobal(const PickleGlobal& global) {
  if (global.module.starts_with("torch.nn.modules.")) {
    Fail("is a whole module (" + global.FullName() +
         "), which only its program can load; save model.state_dict() instead");
  }
  if (!IsKnownGlobal(global.module, global.name)) {
    Fail("asks for " + global.FullName() +
         "; dtrain reads tensors, dicts, lists and numbers only and runs "
         "nothing; save model.state_dict() alone");
  }
  Push(global);
}

void PickleMachine::PushNamedGlobal() {
  const auto* name = std::get_if<PickleText>(&values_[Pop()]);
  const auto* module = std::get_if<PickleText>(&values_[Pop()]);
  if (name == nullptr || module == nullptr) Garbled();
  PushGlobal({.module = module->text, .name = name->text});
}

bool PickleMachine::IsCallOf(PickleIndex function, const char* module,
                             const char* name) const {
  const auto* global = std::get_if<PickleGlobal>(&values_[function]);
  return global != nullptr && global->module == module && global->name == name;
}

PickleDict PickleMachine::DictOfPairs(const PickleList& pairs) {
  // The same pairs can be asked for again and again.
  Count(pairs.items.size());
  PickleDict dict;
  for (const PickleIndex item : pairs.items) {
    const auto* pair = std::get_if<PickleList>(&values_[item]);
    if (pair == nullptr || pair->items.size() != 2) Garbled();
    dict.items.emplace_back(pair->items[0], pair->items[1]);
  }
  return dict;
}

void PickleMachine::Call() {
  const PickleIndex arguments = Pop();
  const PickleIndex function = Pop();
  const auto* list = std::get_if<PickleList>(&values_[arguments]);
  if (list == nullptr ||
      !std::holds_alternative<PickleGlobal>(values_[function])) {
    Garbled();
  }
  const bool is_dict = IsCallOf(function, "collections", "OrderedDict") ||
                       IsCallOf(function, "collections", "Counter");
  if (is_dict && list->items.empty()) return Push(PickleDict{});
  if (list->items.size() == 1) {
    const PickleValue& only = values_[list->items[0]];
    const auto* pairs = std::get_if<PickleList>(&only);
    if (is_dict && pairs != nullptr) return Push(DictOfPairs(*pairs));
    // What is made of such a value is, as data, the value itself.
    if ((is_dict && std::holds_alternative<PickleDict>(only)) ||
        (pairs != nullptr && IsCallOf(function, "torch", "Size"))) {
      stack_.push_back(list->items[0]);
      return;
    }
  }
  Push(PickleCall{.function = function, .arguments = arguments});
}

void PickleMachine::Build() {
  Pop();
  const PickleValue& object = values_[Top()];
  if (!std::holds_alternative<PickleDict>(object) &&
      !std::holds_alternative<PickleCall>(object)) {
    Garbled();
  }
}

}  // namespace dtrain
