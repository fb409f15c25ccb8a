// TensorBoard's event files, written and read: records, events and the messages
// of its plugin hparams.
//
// A file is a sequence of records: length, checksum of the length, data,
// checksum of the data (CRC-32C, masked). The data is an Event, a protocol
// buffer. Messages are built and walked field by field, so no library is
// needed; the numbers of fields are those of TensorFlow's event.proto and
// summary.proto and of TensorBoard's plugin_data.proto.
//
// Writing appends to a string, so that the caller decides how a file grows
// (cli/tensorboard.cc). Of an event that a program wrote only the
// step and the scalars are read (engine/program/event_metrics.cc). A scalar is
// a float (`simple_value`) or a tensor of one element, which TensorFlow writes
// in one of several fields by type.

#include "engine/base/tfevents.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "engine/base/error.h"
#include "engine/base/text.h"

namespace dtrain {
namespace {

using nlohmann::json;

constexpr std::size_t kHeader = 12;  // length and its checksum
constexpr std::size_t kFooter = 4;
constexpr std::size_t kMaxTag = 1'000;

// Fields that are both written and read.
constexpr int kEventStep = 2;
constexpr int kEventSummary = 5;
constexpr int kSummaryValue = 1;
constexpr int kValueTag = 1;
constexpr int kValueFloat = 2;
constexpr int kValueTensor = 8;
constexpr int kValueMetadata = 9;
constexpr int kSessionStart = 3;
constexpr int kSessionEnd = 4;
constexpr int kTensorType = 1;

// https://protobuf.dev/programming-guides/encoding/
enum WireType { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };

// Types of tensors (tensorflow/core/framework/types.proto).
enum TensorType : std::uint64_t {
  kFloatTensor = 1,
  kDoubleTensor = 2,
  kInt32Tensor = 3,
  kInt64Tensor = 9,
  kBfloat16Tensor = 14,
  kHalfTensor = 19,
};

// Table of the reflected polynomial 0x82F63B78, a byte at a time.
constexpr std::array<std::uint32_t, 256> kCrcTable = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) {
      crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82F63B78U : 0U);
    }
    table[i] = crc;
  }
  return table;
}();

void AppendLittleEndian(std::string& to, std::uint64_t value, int size) {
  for (int i = 0; i < size; ++i) {
    to += static_cast<char>(value >> (8 * i) & 0xFF);
  }
}

// Writes a message of protocol buffers: fields in any order, those with default
// values left out.
class ProtoMessage {
 public:
  ProtoMessage& Varint(int field, std::uint64_t value) {
    Key(field, kVarint);
    Raw(value);
    return *this;
  }
  ProtoMessage& Double(int field, double value) {
    Key(field, kFixed64);
    AppendLittleEndian(bytes_, std::bit_cast<std::uint64_t>(value), 8);
    return *this;
  }
  ProtoMessage& Float(int field, float value) {
    Key(field, kFixed32);
    AppendLittleEndian(bytes_, std::bit_cast<std::uint32_t>(value), 4);
    return *this;
  }
  ProtoMessage& Bytes(int field, std::string_view bytes) {
    Key(field, kLengthDelimited);
    Raw(bytes.size());
    bytes_ += bytes;
    return *this;
  }
  ProtoMessage& Text(int field, std::string_view text) {
    return Bytes(field, ToValidUtf8(text));
  }
  ProtoMessage& Part(int field, const ProtoMessage& part) {
    return Bytes(field, part.bytes_);
  }

  const std::string& bytes() const { return bytes_; }

 private:
  void Key(int field, WireType type) {
    Raw(static_cast<std::uint64_t>(field) << 3 |
        static_cast<std::uint64_t>(type));
  }
  void Raw(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) {
      bytes_ += static_cast<char>((value & 0x7F) | 0x80);
    }
    bytes_ += static_cast<char>(value);
  }
  std::string bytes_;
};

void AppendRecord(std::string& to, const std::string& data) {
  const std::size_t start = to.size();
  AppendLittleEndian(to, data.size(), 8);
  AppendLittleEndian(to, MaskedCrc32c(std::string_view(to).substr(start)), 4);
  to += data;
  AppendLittleEndian(to, MaskedCrc32c(data), 4);
}

ProtoMessage EventAt(double time, std::int64_t step) {
  ProtoMessage event;
  event.Double(1, time);
  if (step != 0) event.Varint(kEventStep, static_cast<std::uint64_t>(step));
  return event;
}

// A record of `event` with a summary of one value.
void AppendValue(std::string& to, ProtoMessage event,
                 const ProtoMessage& value) {
  event.Part(kEventSummary, ProtoMessage().Part(kSummaryValue, value));
  AppendRecord(to, event.bytes());
}

// A record of the plugin hparams: in the metadata of a summary without a value,
// for which TensorBoard wants an empty tensor.
void AppendPluginData(std::string& to, double time, std::string_view tag,
                      const ProtoMessage& data) {
  const ProtoMessage plugin = ProtoMessage().Text(1, "hparams").Part(2, data);
  const ProtoMessage shape = ProtoMessage().Part(2, ProtoMessage());
  const ProtoMessage tensor =
      ProtoMessage().Varint(kTensorType, kFloatTensor).Part(2, shape);
  AppendValue(to, EventAt(time, 0),
              ProtoMessage()
                  .Text(kValueTag, tag)
                  .Part(kValueMetadata, ProtoMessage().Part(1, plugin))
                  .Part(kValueTensor, tensor));
}

enum DataType { kNoType = 0, kString = 1, kBool = 2, kNumber = 3 };

DataType ToDataType(const json& value) {
  if (value.is_number()) {
    // TensorBoard's numbers are doubles. An integer that is none is a text.
    const bool is_exact =
        !value.is_number_integer() || std::abs(value.get<double>()) < 0x1p53;
    return is_exact ? kNumber : kString;
  }
  return value.is_boolean() ? kBool : kString;
}

// google.protobuf.Value of a scalar; others as their JSON.
ProtoMessage ToProtoValue(const json& value) {
  switch (ToDataType(value)) {
    case kNumber:
      return ProtoMessage().Double(2, value.get<double>());
    case kBool:
      return ProtoMessage().Varint(4, value.get<bool>() ? 1 : 0);
    case kNoType:
    case kString:
      break;
  }
  return ProtoMessage().Text(
      3, value.is_string()
             ? value.get<std::string>()
             : value.dump(-1, ' ', false, json::error_handler_t::replace));
}

ProtoMessage ColumnInfo(const HparamColumn& column) {
  ProtoMessage info;
  info.Text(1, column.name);
  if (column.range) {
    info.Varint(4, kNumber);
    info.Part(6, ProtoMessage()
                     .Double(1, column.range->first)
                     .Double(2, column.range->second));
  } else {
    std::vector<json> choices = column.choices;
    std::erase(choices, json(nullptr));
    if (choices.empty()) return info;
    const DataType type = ToDataType(choices[0]);
    const bool equal = std::ranges::all_of(choices, [&](const json& choice) {
      return ToDataType(choice) == type;
    });
    if (!equal) return info;
    ProtoMessage list;
    for (const json& choice : choices) list.Part(1, ToProtoValue(choice));
    info.Varint(4, type).Part(5, list);
  }
  return info;
}

[[noreturn]] void FailEvent(const std::string& what) {
  throw Error(ErrorKind::kFailed, what);
}

std::uint64_t ReadLittleEndian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i > 0; --i) {
    value = value << 8 | static_cast<unsigned char>(bytes[i - 1]);
  }
  return value;
}

// Reads the fields of a protocol buffer one after another.
class ProtoReader {
 public:
  explicit ProtoReader(std::string_view bytes) : rest_(bytes) {}

  // Moves to the next field. False at the end.
  bool Next() {
    if (rest_.empty()) return false;
    const std::uint64_t key = ReadVarint();
    field_ = key >> 3;
    type_ = static_cast<int>(key & 7);
    switch (type_) {
      case kVarint:
        number_ = ReadVarint();
        return true;
      case kFixed64:
        bytes_ = ReadBytes(8);
        number_ = ReadLittleEndian(bytes_);
        return true;
      case kLengthDelimited:
        bytes_ = ReadBytes(ReadVarint());
        return true;
      case kFixed32:
        bytes_ = ReadBytes(4);
        number_ = ReadLittleEndian(bytes_);
        return true;
      default:
        FailEvent("is not a valid event: a field has wire type " +
                  std::to_string(type_));
    }
  }

  // True after the last field.
  bool at_end() const { return rest_.empty(); }
  bool Is(std::uint64_t field, WireType type) const {
    return field == field_ && type == type_;
  }
  std::uint64_t number() const { return number_; }
  std::string_view bytes() const { return bytes_; }
  float AsFloat() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(number_));
  }
  double AsDouble() const { return std::bit_cast<double>(number_); }

 private:
  std::uint64_t ReadVarint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (rest_.empty())
        FailEvent("is not a valid event: a number is truncated");
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    FailEvent("is not a valid event: a number has more than 64 bits");
  }
  std::string_view ReadBytes(std::uint64_t size) {
    if (size > rest_.size())
      FailEvent("is not a valid event: a field is truncated");
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }

  std::string_view rest_;
  std::uint64_t field_ = 0;
  int type_ = 0;
  std::uint64_t number_ = 0;
  std::string_view bytes_;
};

// Half precision, IEEE 754 binary16, or bfloat16.
double HalfValue(std::uint32_t bits, bool brain) {
  if (brain) return std::bit_cast<float>(bits << 16);
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  const int exponent = static_cast<int>(bits >> 10 & 0x1F);
  const double fraction = bits & 0x3FF;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  if (exponent == 31) {
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  }
  return sign * std::ldexp(fraction + 1024, exponent - 25);
}

std::optional<double> ContentValue(std::uint64_t type, std::string_view bytes) {
  const std::uint64_t bits = ReadLittleEndian(bytes.substr(0, 8));
  const std::size_t size = bytes.size();
  const auto low = static_cast<std::uint32_t>(bits);
  if (type == kFloatTensor && size == 4) return std::bit_cast<float>(low);
  if (type == kDoubleTensor && size == 8) return std::bit_cast<double>(bits);
  if (type == kInt32Tensor && size == 4) return static_cast<std::int32_t>(low);
  if (type == kInt64Tensor && size == 8) {
    return static_cast<double>(static_cast<std::int64_t>(bits));
  }
  if (type == kHalfTensor && size == 2) return HalfValue(low, false);
  if (type == kBfloat16Tensor && size == 2) return HalfValue(low, true);
  return std::nullopt;
}

// Returns the number in a packed list of one; nothing if it has several.
std::optional<std::uint64_t> PackedValue(std::string_view list) {
  // A packed list has no keys; the one that is put before it makes it a field
  // of type varint, and what is left after one number shows that there are
  // more.
  std::string field("\x08", 1);
  field += list;
  ProtoReader reader(field);
  if (list.empty() || !reader.Next()) return std::nullopt;
  if (!reader.at_end()) return std::nullopt;
  return reader.number();
}

// Returns the one number in a TensorProto; nothing if it has none or several.
// Numbers are in a field for their type, packed or not, or in its content.
std::optional<double> TensorValue(std::string_view tensor) {
  std::uint64_t type = 0;
  std::optional<std::uint64_t> integer;
  std::string_view content;
  for (ProtoReader field(tensor); field.Next();) {
    if (field.Is(kTensorType, kVarint)) type = field.number();
    if (field.Is(5, kFixed32)) return field.AsFloat();
    if (field.Is(6, kFixed64)) return field.AsDouble();
    for (const int name : {4, 5, 6}) {
      if (field.Is(name, kLengthDelimited)) content = field.bytes();
    }
    for (const int name : {7, 10, 13}) {
      if (field.Is(name, kLengthDelimited)) {
        integer = PackedValue(field.bytes());
      }
      if (field.Is(name, kVarint)) integer = field.number();
    }
  }
  if (!integer) return ContentValue(type, content);
  if (type == kHalfTensor || type == kBfloat16Tensor) {
    return HalfValue(static_cast<std::uint32_t>(*integer & 0xFFFF),
                     type == kBfloat16Tensor);
  }
  if (type != kInt32Tensor && type != kInt64Tensor) return std::nullopt;
  return static_cast<double>(static_cast<std::int64_t>(*integer));
}

// Adds a hyperparameter, an entry of the map of a SessionStartInfo.
void AddSessionHparam(std::string_view entry, EventScalars& scalars) {
  std::string name;
  json value;
  for (ProtoReader field(entry); field.Next();) {
    if (field.Is(1, kLengthDelimited)) name = ToValidUtf8(field.bytes());
    if (!field.Is(2, kLengthDelimited)) continue;
    for (ProtoReader one(field.bytes()); one.Next();) {
      if (one.Is(2, kFixed64)) value = one.AsDouble();
      if (one.Is(3, kLengthDelimited)) value = ToValidUtf8(one.bytes());
      if (one.Is(4, kVarint)) value = one.number() != 0;
    }
  }
  const bool is_usable =
      !name.empty() && name.size() <= kMaxTag && !value.is_null();
  if (is_usable) scalars.hparams[name] = value;
}

// Adds the hyperparameters or the outcome in the data of a plugin, if it is
// hparams.
void AddPluginData(std::string_view plugin, EventScalars& scalars) {
  bool is_hparams = false;
  std::string_view content;
  for (ProtoReader field(plugin); field.Next();) {
    if (field.Is(1, kLengthDelimited)) is_hparams = field.bytes() == "hparams";
    if (field.Is(2, kLengthDelimited)) content = field.bytes();
  }
  if (!is_hparams) return;
  for (ProtoReader part(content); part.Next();) {
    const bool is_start = part.Is(kSessionStart, kLengthDelimited);
    if (!is_start && !part.Is(kSessionEnd, kLengthDelimited)) continue;
    for (ProtoReader field(part.bytes()); field.Next();) {
      if (is_start && field.Is(1, kLengthDelimited)) {
        AddSessionHparam(field.bytes(), scalars);
      }
      if (!is_start && field.Is(1, kVarint)) {
        scalars.is_failure = field.number() == static_cast<std::uint64_t>(
                                                   SessionStatus::kFailure);
      }
    }
  }
}

void AddSummaryValue(std::string_view summary_value, EventScalars& scalars) {
  std::string tag;
  std::optional<double> value;
  for (ProtoReader field(summary_value); field.Next();) {
    if (field.Is(kValueTag, kLengthDelimited)) tag = ToValidUtf8(field.bytes());
    if (field.Is(kValueFloat, kFixed32)) value = field.AsFloat();
    if (field.Is(kValueTensor, kLengthDelimited)) {
      value = TensorValue(field.bytes());
    }
    if (!field.Is(kValueMetadata, kLengthDelimited)) continue;
    for (ProtoReader data(field.bytes()); data.Next();) {
      if (data.Is(1, kLengthDelimited)) AddPluginData(data.bytes(), scalars);
    }
  }
  if (!value || tag.empty() || tag.size() > kMaxTag) return;
  scalars.values.emplace_back(std::move(tag), *value);
}

}  // namespace

std::uint32_t MaskedCrc32c(std::string_view bytes) {
  std::uint32_t crc = 0xFFFFFFFFU;
  for (const char byte : bytes) {
    crc = crc >> 8 ^ kCrcTable[(crc ^ static_cast<unsigned char>(byte)) & 0xFF];
  }
  return std::rotr(~crc, 15) + 0xA282EAD8U;
}

void EventRecords::Append(std::string_view bytes) {
  buffer_.erase(0, start_);
  start_ = 0;
  buffer_ += bytes;
}

std::optional<std::string_view> EventRecords::Next() {
  const std::string_view rest = std::string_view(buffer_).substr(start_);
  if (rest.size() < kHeader) return std::nullopt;
  const std::string_view length = rest.substr(0, 8);
  const std::uint64_t size = ReadLittleEndian(length);
  if (ReadLittleEndian(rest.substr(8, 4)) != MaskedCrc32c(length)) {
    FailEvent("the length of a record has a wrong checksum");
  }
  if (size > kMaxRecord) FailEvent("a record is longer than 64 MiB");
  if (rest.size() < kHeader + size + kFooter) return std::nullopt;
  const std::string_view record = rest.substr(kHeader, size);
  if (ReadLittleEndian(rest.substr(kHeader + size, kFooter)) !=
      MaskedCrc32c(record)) {
    FailEvent("a record has a wrong checksum");
  }
  start_ += kHeader + size + kFooter;
  return record;
}

EventScalars ParseEvent(std::string_view record) {
  EventScalars scalars;
  for (ProtoReader field(record); field.Next();) {
    if (field.Is(kEventStep, kVarint)) {
      scalars.step = static_cast<std::int64_t>(field.number());
    }
    if (!field.Is(kEventSummary, kLengthDelimited)) continue;
    for (ProtoReader value(field.bytes()); value.Next();) {
      if (value.Is(kSummaryValue, kLengthDelimited)) {
        AddSummaryValue(value.bytes(), scalars);
      }
    }
  }
  return scalars;
}

void AppendFileVersion(std::string& to, double time) {
  AppendRecord(to, EventAt(time, 0).Text(3, "brain.Event:2").bytes());
}

void AppendRestart(std::string& to, double time, std::int64_t step) {
  constexpr int kStart = 1;
  AppendRecord(
      to,
      EventAt(time, step).Part(7, ProtoMessage().Varint(1, kStart)).bytes());
}

void AppendScalar(std::string& to, std::string_view tag, std::int64_t step,
                  double time, double value) {
  AppendValue(to, EventAt(time, step),
              ProtoMessage()
                  .Text(kValueTag, tag)
                  .Float(kValueFloat, static_cast<float>(value)));
}

void AppendHparamTable(std::string& to, double time, const std::string& title,
                       const std::vector<HparamColumn>& columns,
                       const std::vector<std::string>& metrics) {
  ProtoMessage table;
  table.Text(6, title).Double(3, time);
  for (const HparamColumn& column : columns) table.Part(4, ColumnInfo(column));
  for (const std::string& metric : metrics) {
    table.Part(5, ProtoMessage().Part(1, ProtoMessage().Text(2, metric)));
  }
  AppendPluginData(to, time, "_hparams_/experiment",
                   ProtoMessage().Part(2, table));
}

void AppendTrialStart(std::string& to, double time,
                      const std::map<std::string, json>& hparams) {
  ProtoMessage start;
  for (const auto& [name, value] : hparams) {
    if (value.is_null()) continue;  // TensorBoard has no value for none
    start.Part(1, ProtoMessage().Text(1, name).Part(2, ToProtoValue(value)));
  }
  start.Double(5, time);
  AppendPluginData(to, time, "_hparams_/session_start_info",
                   ProtoMessage().Part(kSessionStart, start));
}

void AppendTrialEnd(std::string& to, double time, SessionStatus outcome) {
  const ProtoMessage end = ProtoMessage()
                               .Varint(1, static_cast<std::uint64_t>(outcome))
                               .Double(2, time);
  AppendPluginData(to, time, "_hparams_/session_end_info",
                   ProtoMessage().Part(kSessionEnd, end));
}

}  // namespace dtrain
