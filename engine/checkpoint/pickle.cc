// A pickle is a program for a stack machine. Python executes it by importing
// and calling what it names, which lets a file run any code. Here PickleMachine
// executes it symbolically instead: a call becomes a PickleCall with its
// function and arguments. Nothing is ever called, so any class may be named;
// but a file that names other functions than those on a short list is refused,
// since it is either hostile or of a kind that would be misread. Limits on
// operations and values bound the time and memory of a hostile file.

#include "engine/checkpoint/pickle.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/checkpoint/byte_reader.h"

namespace dtrain {
namespace {

// Executes a pickle's operations on a stack with marks, and a memo. Results are
// kept as data: it calls and imports nothing, and allocates only values. Throws
// Error(kFailed) that names `what` for an operation that the stack or memo does
// not allow.
class PickleMachine {
 public:
  explicit PickleMachine(std::string what) : what_(std::move(what)) {}

  void Push(PickleValue value);
  PickleIndex Pop();
  void Duplicate() { stack_.push_back(Top()); }

  void Mark() { marks_.push_back(stack_.size()); }
  // Pops the last mark and returns the values above it.
  std::vector<PickleIndex> PopToMark();
  std::vector<PickleIndex> Pop(std::size_t count);
  // Pops a value, or the mark if that is on top, as POP does.
  void PopValueOrMark();

  void Memoize(std::uint32_t key);
  void MemoizeNext() { Memoize(static_cast<std::uint32_t>(memo_.size())); }
  void Recall(std::uint32_t key);

  // Adds `items` to the list on top.
  void Append(const std::vector<PickleIndex>& items);
  // Adds `items`, alternately key and value, to the dict on top.
  void SetItems(const std::vector<PickleIndex>& items);
  void PushGlobal(const PickleGlobal& global);
  // STACK_GLOBAL: module and name are on the stack.
  void PushNamedGlobal();
  // REDUCE, NEWOBJ: arguments and function are on the stack.
  void Call();
  // BUILD: drops the state of an object.
  void Build();

  std::vector<PickleValue> ReleaseValues() { return std::move(values_); }
  [[noreturn]] void Fail(const std::string& fault) const;
  [[noreturn]] void FailAsDamaged() const;

 private:
  PickleIndex Top() const;
  void Count(std::size_t items);
  bool IsGlobal(PickleIndex function, const char* module,
                const char* name) const;
  PickleDict DictOfPairs(const PickleList& pairs);
  template <typename T>
  void BecomeContainer(PickleValue& value);

  std::string what_;
  std::vector<PickleValue> values_;
  std::vector<PickleIndex> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint32_t, PickleIndex> memo_;
  std::size_t count_ = 0;  // of values and copied items
};

using Name = std::pair<std::string_view, std::string_view>;

constexpr auto kGlobals = std::to_array<Name>({
    {"_codecs", "encode"},       // bytes, in protocol 2
    {"collections", "Counter"},  // the milestones of a scheduler
    {"collections", "OrderedDict"},
    {"collections", "defaultdict"},
    {"collections", "deque"},
    {"copy_reg", "_reconstructor"},
    {"copyreg", "_reconstructor"},
    {"torch", "Size"},
    {"torch", "device"},
    {"torch._utils", "_rebuild_parameter"},
    {"torch._utils", "_rebuild_parameter_with_state"},
    {"torch._utils", "_rebuild_tensor"},
    {"torch._utils", "_rebuild_tensor_v2"},
});

// For arrays and numbers, in any version of NumPy.
constexpr auto kNumpy = std::to_array<std::string_view>(
    {"_frombuffer", "_reconstruct", "dtype", "ndarray", "scalar"});

constexpr auto kBuiltins = std::to_array<std::string_view>(
    {"bool", "bytearray", "bytes", "complex", "dict", "float", "frozenset",
     "int", "list", "object", "range", "set", "slice", "str", "tuple"});

// Modules whose classes start programs or load code.
constexpr auto kUnsafeModules = std::to_array<std::string_view>(
    {"__builtin__", "asyncio", "builtins", "code", "ctypes", "importlib",
     "multiprocessing", "nt", "os", "pickle", "posix", "pty", "runpy", "socket",
     "subprocess", "sys", "threading"});

constexpr auto kDtypes = std::to_array<std::string_view>(
    {"bfloat16", "bool", "complex128", "complex64", "float16", "float32",
     "float64", "int16", "int32", "int64", "int8", "uint8"});

// True if a state dict, or a checkpoint around one, may name this class or
// function: containers, PyTorch's tensors, storages and element types.
bool IsKnownGlobal(std::string_view module, std::string_view name) {
  if (std::ranges::find(kGlobals, Name(module, name)) != kGlobals.end()) {
    return true;
  }
  if (module == "torch" || module == "torch.cuda") {
    return name.ends_with("Storage") ||
           std::ranges::find(kDtypes, name) != kDtypes.end();
  }
  if (module == "datetime") return true;
  if (module.substr(0, module.find('.')) == "numpy") {
    return std::ranges::find(kNumpy, name) != kNumpy.end();
  }
  return (module == "builtins" || module == "__builtin__") &&
         std::ranges::find(kBuiltins, name) != kBuiltins.end();
}

// True for the name of a class, which begins with a capital letter by
// convention, in a module that may be named.
bool IsPlainClass(std::string_view module, std::string_view name) {
  const auto package = module.substr(0, module.find('.'));
  if (std::ranges::find(kUnsafeModules, package) != kUnsafeModules.end()) {
    return false;
  }
  std::string_view last = name.substr(name.rfind('.') + 1);
  while (last.starts_with('_')) last.remove_prefix(1);
  return !last.empty() && last[0] >= 'A' && last[0] <= 'Z';
}

// Ten times as many as ten thousand tensors with an optimizer's state have.
constexpr std::size_t kMaxValues = 4'000'000;

void PickleMachine::Fail(const std::string& fault) const {
  throw Error(ErrorKind::kFailed, what_ + ": its pickle " + fault);
}

void PickleMachine::FailAsDamaged() const {
  Fail("is damaged; download the file again");
}

// A few bytes of pickle can copy a long list again and again through the memo,
// so copies count as well.
void PickleMachine::Count(std::size_t items) {
  count_ += items;
  if (count_ > kMaxValues) {
    Fail("holds more than " + std::to_string(kMaxValues) +
         " values; save model.state_dict() alone");
  }
}

void PickleMachine::Push(PickleValue value) {
  Count(1);
  stack_.push_back(static_cast<PickleIndex>(values_.size()));
  values_.push_back(std::move(value));
}

PickleIndex PickleMachine::Top() const {
  if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) FailAsDamaged();
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
  if (marks_.empty()) FailAsDamaged();
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
  if (found == memo_.end()) FailAsDamaged();
  stack_.push_back(found->second);
}

// An object of a class derived from a list or a dict gets its items after it
// was made; it becomes the list or dict.
template <typename T>
void PickleMachine::BecomeContainer(PickleValue& value) {
  const auto* call = std::get_if<PickleCall>(&value);
  if (call == nullptr) return;
  const auto& global = std::get<PickleGlobal>(values_[call->function]);
  if (!global.module.starts_with("torch._utils")) value = T{};
}

void PickleMachine::Append(const std::vector<PickleIndex>& items) {
  PickleValue& top = values_[Top()];
  BecomeContainer<PickleList>(top);
  // A set of protocol 2 is a call, with its items as arguments.
  auto* list = std::get_if<PickleList>(&top);
  if (list == nullptr) FailAsDamaged();
  list->items.insert(list->items.end(), items.begin(), items.end());
}

void PickleMachine::SetItems(const std::vector<PickleIndex>& items) {
  PickleValue& top = values_[Top()];
  BecomeContainer<PickleDict>(top);
  auto* dict = std::get_if<PickleDict>(&top);
  if (dict == nullptr || items.size() % 2 != 0) FailAsDamaged();
  for (std::size_t i = 0; i < items.size(); i += 2) {
    dict->items.emplace_back(items[i], items[i + 1]);
  }
}

// The one place where a file can ask for code; everything else only moves
// values.
void PickleMachine::PushGlobal(const PickleGlobal& global) {
  if (!IsKnownGlobal(global.module, global.name) &&
      !IsPlainClass(global.module, global.name)) {
    Fail("asks for " + global.FullName() +
         "; dtrain reads tensors, dicts, lists, numbers and plain objects only "
         "and runs nothing; save model.state_dict() alone");
  }
  Push(global);
}

void PickleMachine::PushNamedGlobal() {
  const auto* name = std::get_if<PickleText>(&values_[Pop()]);
  const auto* module = std::get_if<PickleText>(&values_[Pop()]);
  if (name == nullptr || module == nullptr) FailAsDamaged();
  PushGlobal({.module = module->text, .name = name->text});
}

bool PickleMachine::IsGlobal(PickleIndex function, const char* module,
                             const char* name) const {
  const auto* global = std::get_if<PickleGlobal>(&values_[function]);
  return global != nullptr && global->module == module && global->name == name;
}

PickleDict PickleMachine::DictOfPairs(const PickleList& pairs) {
  // A pickle can ask for the same pairs many times.
  Count(pairs.items.size());
  PickleDict dict;
  for (const PickleIndex item : pairs.items) {
    const auto* pair = std::get_if<PickleList>(&values_[item]);
    if (pair == nullptr || pair->items.size() != 2) FailAsDamaged();
    dict.items.emplace_back(pair->items[0], pair->items[1]);
  }
  return dict;
}

// A call stays data, except for those whose result is known without a call: an
// empty dict, a dict of pairs, and copies.
void PickleMachine::Call() {
  const PickleIndex arguments = Pop();
  const PickleIndex function = Pop();
  const auto* list = std::get_if<PickleList>(&values_[arguments]);
  if (list == nullptr ||
      !std::holds_alternative<PickleGlobal>(values_[function])) {
    FailAsDamaged();
  }
  const bool is_dict = IsGlobal(function, "collections", "OrderedDict") ||
                       IsGlobal(function, "collections", "Counter");
  if (is_dict && list->items.empty()) return Push(PickleDict{});
  if (list->items.size() == 1) {
    const PickleValue& only = values_[list->items[0]];
    const auto* pairs = std::get_if<PickleList>(&only);
    if (is_dict && pairs != nullptr) return Push(DictOfPairs(*pairs));
    // The result of these calls has the same data as their argument.
    if ((is_dict && std::holds_alternative<PickleDict>(only)) ||
        (pairs != nullptr && IsGlobal(function, "torch", "Size"))) {
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
      !std::holds_alternative<PickleList>(object) &&
      !std::holds_alternative<PickleCall>(object)) {
    FailAsDamaged();
  }
}

// The opcodes that protocols 2 to 5 write, under CPython's names.
enum class Opcode : std::uint8_t {
  kMark = '(',
  kStop = '.',
  kPop = '0',
  kPopMark = '1',
  kDup = '2',
  kBinFloat = 'G',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNone = 'N',
  kBinPersId = 'Q',
  kReduce = 'R',
  kBinString = 'T',
  kShortBinString = 'U',
  kBinUnicode = 'X',
  kAppend = 'a',
  kBuild = 'b',
  kGlobal = 'c',
  kAppends = 'e',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kSetItems = 'u',
  kEmptyTuple = ')',
  kEmptyList = ']',
  kEmptyDict = '}',
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kProto = 0x80,
  kNewObj = 0x81,
  kNewObjEx = 0x92,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kLong4 = 0x8b,
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kBinBytes8 = 0x8e,
  kEmptySet = 0x8f,
  kAddItems = 0x90,
  kFrozenSet = 0x91,
  kStackGlobal = 0x93,
  kMemoize = 0x94,
  kFrame = 0x95,
  kByteArray8 = 0x96,
};

constexpr std::uint8_t kNewestProtocol = 5;

std::string Hex(Opcode opcode) {
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), "0x%02x",
                static_cast<unsigned>(opcode));
  return text.data();
}

// Reads opcodes and applies them to the machine.
class PickleParser {
 public:
  PickleParser(std::span<const std::byte> bytes, const std::string& what)
      : reader_(bytes, what + ": its pickle ends too early; download it again"),
        machine_(what) {}

  void Parse() {
    for (;;) {
      const auto opcode = static_cast<Opcode>(reader_.Number<std::uint8_t>());
      if (opcode == Opcode::kStop) return;
      if (PushNumber(opcode) || PushText(opcode) || DoStack(opcode) ||
          DoContainer(opcode) || DoObject(opcode)) {
        continue;
      }
      machine_.Fail(
          "has the opcode " + Hex(opcode) + " at byte " +
          std::to_string(reader_.position() - 1) +
          ", which torch.save does not write; download the file again");
    }
  }
  PickleMachine& machine() { return machine_; }
  std::size_t position() const { return reader_.position(); }

 private:
  bool PushNumber(Opcode opcode);
  bool PushText(Opcode opcode);
  bool DoStack(Opcode opcode);
  bool DoContainer(Opcode opcode);
  bool DoObject(Opcode opcode);

  template <typename T>
  std::int64_t Int() {
    return static_cast<std::int64_t>(reader_.Number<T>());
  }
  // Reads a length and that many bytes.
  template <typename T>
  std::string_view Counted() {
    return reader_.Text(reader_.Number<T>());
  }
  void PushLong(std::string_view bytes) {
    if (bytes.size() > sizeof(std::int64_t)) {
      machine_.Push(PickleLong{bytes});
    } else {
      // Two's complement, little-endian; extends the sign.
      std::uint64_t number = 0;
      if (!bytes.empty() && (bytes.back() & 0x80) != 0) number = ~number;
      std::memcpy(&number, bytes.data(), bytes.size());
      machine_.Push(static_cast<std::int64_t>(number));
    }
  }

  ByteReader reader_;
  PickleMachine machine_;
};

bool PickleParser::PushNumber(Opcode opcode) {
  switch (opcode) {
    case Opcode::kNone:
      return machine_.Push(PickleNone{}), true;
    case Opcode::kNewTrue:
      return machine_.Push(true), true;
    case Opcode::kNewFalse:
      return machine_.Push(false), true;
    case Opcode::kBinInt:
      return machine_.Push(Int<std::int32_t>()), true;
    case Opcode::kBinInt1:
      return machine_.Push(Int<std::uint8_t>()), true;
    case Opcode::kBinInt2:
      return machine_.Push(Int<std::uint16_t>()), true;
    case Opcode::kLong1:
      return PushLong(Counted<std::uint8_t>()), true;
    case Opcode::kLong4:
      return PushLong(Counted<std::uint32_t>()), true;
    case Opcode::kBinFloat: {
      // Floats are the only numbers with the highest byte first.
      std::array<std::byte, sizeof(double)> reversed{};
      const auto bytes = reader_.Bytes(reversed.size());
      std::reverse_copy(bytes.begin(), bytes.end(), reversed.begin());
      return machine_.Push(std::bit_cast<double>(reversed)), true;
    }
    default:
      return false;
  }
}

bool PickleParser::PushText(Opcode opcode) {
  switch (opcode) {
    // Strings of Python 2, in which PyTorch 0.x wrote names.
    case Opcode::kShortBinString:
    case Opcode::kShortBinUnicode:
      return machine_.Push(PickleText{Counted<std::uint8_t>()}), true;
    case Opcode::kBinString:
    case Opcode::kBinUnicode:
      return machine_.Push(PickleText{Counted<std::uint32_t>()}), true;
    case Opcode::kBinUnicode8:
      return machine_.Push(PickleText{Counted<std::uint64_t>()}), true;
    case Opcode::kShortBinBytes:
      return machine_.Push(PickleBytes{Counted<std::uint8_t>()}), true;
    case Opcode::kBinBytes:
      return machine_.Push(PickleBytes{Counted<std::uint32_t>()}), true;
    case Opcode::kBinBytes8:
    case Opcode::kByteArray8:
      return machine_.Push(PickleBytes{Counted<std::uint64_t>()}), true;
    default:
      return false;
  }
}

bool PickleParser::DoStack(Opcode opcode) {
  switch (opcode) {
    case Opcode::kMark:
      return machine_.Mark(), true;
    case Opcode::kPop:
      return machine_.PopValueOrMark(), true;
    case Opcode::kPopMark:
      return machine_.PopToMark(), true;
    case Opcode::kDup:
      return machine_.Duplicate(), true;
    case Opcode::kBinGet:
      return machine_.Recall(reader_.Number<std::uint8_t>()), true;
    case Opcode::kLongBinGet:
      return machine_.Recall(reader_.Number<std::uint32_t>()), true;
    case Opcode::kBinPut:
      return machine_.Memoize(reader_.Number<std::uint8_t>()), true;
    case Opcode::kLongBinPut:
      return machine_.Memoize(reader_.Number<std::uint32_t>()), true;
    case Opcode::kMemoize:
      return machine_.MemoizeNext(), true;
    default:
      return false;
  }
}

bool PickleParser::DoContainer(Opcode opcode) {
  switch (opcode) {
    case Opcode::kEmptyTuple:
    case Opcode::kEmptyList:
    case Opcode::kEmptySet:
      return machine_.Push(PickleList{}), true;
    case Opcode::kEmptyDict:
      return machine_.Push(PickleDict{}), true;
    case Opcode::kTuple:
    case Opcode::kFrozenSet:
      return machine_.Push(PickleList{machine_.PopToMark()}), true;
    case Opcode::kTuple1:
      return machine_.Push(PickleList{machine_.Pop(1)}), true;
    case Opcode::kTuple2:
      return machine_.Push(PickleList{machine_.Pop(2)}), true;
    case Opcode::kTuple3:
      return machine_.Push(PickleList{machine_.Pop(3)}), true;
    case Opcode::kAppend:
      return machine_.Append(machine_.Pop(1)), true;
    case Opcode::kAppends:
    case Opcode::kAddItems:
      return machine_.Append(machine_.PopToMark()), true;
    case Opcode::kSetItem:
      return machine_.SetItems(machine_.Pop(2)), true;
    case Opcode::kSetItems:
      return machine_.SetItems(machine_.PopToMark()), true;
    default:
      return false;
  }
}

bool PickleParser::DoObject(Opcode opcode) {
  switch (opcode) {
    case Opcode::kProto:
      if (reader_.Number<std::uint8_t>() > kNewestProtocol) {
        machine_.Fail("has a protocol above 5; save it with protocol 2");
      }
      return true;
    case Opcode::kFrame:
      // The size of the next frame: a hint for buffering, not needed here.
      return reader_.Bytes(sizeof(std::uint64_t)), true;
    case Opcode::kGlobal: {
      const std::string_view module = reader_.Line();
      return machine_.PushGlobal({module, reader_.Line()}), true;
    }
    case Opcode::kStackGlobal:
      return machine_.PushNamedGlobal(), true;
    case Opcode::kBinPersId:
      return machine_.Push(PicklePersistentId{machine_.Pop()}), true;
    case Opcode::kNewObjEx:
      machine_.Pop();  // arguments by name
      return machine_.Call(), true;
    case Opcode::kReduce:
    case Opcode::kNewObj:
      return machine_.Call(), true;
    case Opcode::kBuild:
      return machine_.Build(), true;
    default:
      return false;
  }
}

}  // namespace

std::string PickleGlobal::FullName() const {
  const std::string full = std::string(module) + "." + std::string(name);
  return Truncate(EscapeForTerminal(full), 100);
}

Pickle::Pickle(std::span<const std::byte> bytes, const std::string& what) {
  PickleParser parser(bytes, what);
  parser.Parse();
  root_ = parser.machine().Pop();
  values_ = parser.machine().ReleaseValues();
  size_ = parser.position();
}

}  // namespace dtrain
