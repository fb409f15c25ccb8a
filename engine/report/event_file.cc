// TensorBoard's event files: records, events and the messages of its plugin
// hparams, as bytes.
//
// A record is the length of the data, a masked CRC-32C of the length, the data,
// and a masked CRC-32C of it. Functions append to a string and never write, so
// that the caller decides how a file grows (engine/app/tensorboard_export.cc).
// The numbers of fields are those of TensorFlow's event.proto and summary.proto
// and of TensorBoard's plugin_data.proto. engine/program/event_reader.cc reads
// the same format.

#include "engine/report/event_file.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "engine/base/crc32c.h"
#include "engine/base/text.h"

namespace dtrain {
namespace {

using nlohmann::json;

void AppendLittleEndian(std::string& to, std::uint64_t value, int size) {
  for (int i = 0; i < size; ++i) {
    to += static_cast<char>(value >> (8 * i) & 0xFF);
  }
}

// Writes a message of protocol buffers: fields in any order, those with default
// values left out (https://protobuf.dev/programming-guides/encoding/).
class ProtoMessage {
 public:
  ProtoMessage& Varint(int field, std::uint64_t value) {
    Key(field, 0);
    Raw(value);
    return *this;
  }
  ProtoMessage& Double(int field, double value) {
    Key(field, 1);
    AppendLittleEndian(bytes_, std::bit_cast<std::uint64_t>(value), 8);
    return *this;
  }
  ProtoMessage& Float(int field, float value) {
    Key(field, 5);
    AppendLittleEndian(bytes_, std::bit_cast<std::uint32_t>(value), 4);
    return *this;
  }
  ProtoMessage& Bytes(int field, std::string_view bytes) {
    Key(field, 2);
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
  void Key(int field, int type) {
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
  if (step != 0) event.Varint(2, static_cast<std::uint64_t>(step));
  return event;
}

// A record of the plugin hparams: in the metadata of a summary without a value,
// for which TensorBoard wants an empty tensor.
void AppendPluginData(std::string& to, double time, std::string_view tag,
                      const ProtoMessage& data) {
  const ProtoMessage plugin = ProtoMessage().Text(1, "hparams").Part(2, data);
  const ProtoMessage shape = ProtoMessage().Part(2, ProtoMessage());
  const ProtoMessage tensor = ProtoMessage().Varint(1, 1).Part(2, shape);
  const ProtoMessage value = ProtoMessage()
                                 .Text(1, tag)
                                 .Part(9, ProtoMessage().Part(1, plugin))
                                 .Part(8, tensor);
  AppendRecord(to,
               EventAt(time, 0).Part(5, ProtoMessage().Part(1, value)).bytes());
}

enum DataType { kNoType = 0, kString = 1, kBool = 2, kNumber = 3 };

// TensorBoard's numbers are doubles. An integer that is none is a text.
bool IsExact(const json& number) {
  return !number.is_number_integer() || std::abs(number.get<double>()) < 0x1p53;
}

DataType ToDataType(const json& value) {
  if (value.is_number()) return IsExact(value) ? kNumber : kString;
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

}  // namespace

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
  const ProtoMessage scalar =
      ProtoMessage().Text(1, tag).Float(2, static_cast<float>(value));
  AppendRecord(
      to, EventAt(time, step).Part(5, ProtoMessage().Part(1, scalar)).bytes());
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
                   ProtoMessage().Part(3, start));
}

void AppendTrialEnd(std::string& to, double time, SessionStatus outcome) {
  const ProtoMessage end = ProtoMessage()
                               .Varint(1, static_cast<std::uint64_t>(outcome))
                               .Double(2, time);
  AppendPluginData(to, time, "_hparams_/session_end_info",
                   ProtoMessage().Part(4, end));
}

}  // namespace dtrain
