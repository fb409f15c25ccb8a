#include "engine/checkpoint/pickle.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstring>

#include "engine/checkpoint/byte_reader.h"
#include "engine/checkpoint/pickle_machine.h"

namespace dtrain {

namespace {

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

std::int64_t Signed64(std::string_view bytes) {
  // The sign goes on to the left.
  std::uint64_t number = 0;
  if (!bytes.empty() && (bytes.back() & 0x80) != 0) number = ~number;
  std::memcpy(&number, bytes.data(), bytes.size());
  return static_cast<std::int64_t>(number);
}

// Numbers stand highest byte first here, and nowhere else.
double BigEndianDouble(std::span<const std::byte> bytes) {
  std::array<std::byte, sizeof(double)> reversed{};
  std::reverse_copy(bytes.begin(), bytes.end(), reversed.begin());
  return std::bit_cast<double>(reversed);
}

std::string Hex(Opcode opcode) {
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), "0x%02x",
                static_cast<unsigned>(opcode));
  return text.data();
}

// Reads opcodes and has the machine do what they say.
class PickleParser {
 public:
  PickleParser(std::span<const std::byte> bytes, const std::string& what)
      : reader_(bytes, what + ": its pickle ends too early; fetch it anew"),
        machine_(what) {}

  void Parse() {
    for (;;) {
      const auto opcode = static_cast<Opcode>(reader_.Number<std::uint8_t>());
      if (opcode == Opcode::kStop) return;
      if (PushNumber(opcode) || PushText(opcode) || DoStack(opcode) ||
          DoContainer(opcode) || DoObject(opcode)) {
        continue;
      }
      machine_.Fail("has the opcode " + Hex(opcode) + " at byte " +
                    std::to_string(reader_.position() - 1) +
                    ", which torch.save does not write; fetch the file anew");
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
  // A stretch of bytes behind its length.
  template <typename T>
  std::string_view Counted() {
    return reader_.Text(reader_.Number<T>());
  }
  void PushLong(std::string_view bytes) {
    if (bytes.size() > sizeof(std::int64_t)) {
      machine_.Push(PickleLong{bytes});
    } else {
      machine_.Push(Signed64(bytes));
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
    case Opcode::kBinFloat:
      return machine_.Push(BigEndianDouble(reader_.Bytes(8))), true;
    default:
      return false;
  }
}

bool PickleParser::PushText(Opcode opcode) {
  switch (opcode) {
    // What Python 2 called a string; PyTorch 0.x wrote names so.
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
        machine_.Fail("is of a protocol above 5; save it with protocol 2");
      }
      return true;
    case Opcode::kFrame:
      // Says how much to read ahead, which is all here already.
      return reader_.Bytes(sizeof(std::uint64_t)), true;
    case Opcode::kGlobal: {
      const std::string_view module = reader_.Line();
      return machine_.PushGlobal({module, reader_.Line()}), true;
    }
    case Opcode::kStackGlobal:
      return machine_.PushNamedGlobal(), true;
    case Opcode::kBinPersId:
      return machine_.Push(PicklePersistentId{machine_.Pop()}), true;
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

Pickle::Pickle(std::span<const std::byte> bytes, const std::string& what) {
  PickleParser parser(bytes, what);
  parser.Parse();
  root_ = parser.machine().Pop();
  values_ = parser.machine().TakeValues();
  size_ = parser.position();
}

}  // namespace dtrain
