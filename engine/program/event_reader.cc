// Metrics from TensorBoard's event files, which the program writes while it
// trains.
//
// A file is a sequence of records: length, checksum of the length, data,
// checksum of the data (CRC-32C, masked). Each record is an Event, a protocol
// buffer; only its step and its scalars are read, so the fields are walked by
// hand and no library is needed. A scalar is a float (`simple_value`) or a
// tensor of one element, which TensorFlow writes in one of several fields by
// type.
//
// Files are looked for below the directory once a second and read from where
// the last Poll ended, in bounded pieces, so that a fast writer cannot hold the
// loop up. What stood in them before this process of the trial began is
// skipped. A record that is not complete yet is left for the next Poll; one
// with a wrong checksum ends the reading of its file.
//
// Values are collected by step and reported in the order of steps, once a step
// has all metrics that the configuration names. Unless the first value of a
// step counts, that is only when a later step has begun. A value for a step
// that was already reported is ignored with a remark. Numbers of files, tags,
// and open steps are limited, since the files are not ours.
//
// Checksums and the writer of the same format are in engine/base/crc32c.h and
// engine/report/event_file.cc.

#include "engine/program/event_reader.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/crc32c.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/program/metric_file.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kHeader = 12;  // length and its checksum
constexpr std::size_t kFooter = 4;
constexpr std::size_t kEventChunk = std::size_t{64} << 10;
constexpr int kEventChunks = 16;
constexpr std::size_t kMaxTag = 1'000;
constexpr std::size_t kMaxTags = 1'000;
constexpr std::size_t kMaxEventFiles = 256;
constexpr std::size_t kMaxOpenSteps = 10'000;
constexpr int kMaxDepth = 4;
constexpr int kMaxEntries = 10'000;
constexpr Duration kLookAgain = std::chrono::seconds(1);

[[noreturn]] void FailEvent(const std::string& what) {
  throw Error(ErrorKind::kFailed, what);
}

std::uint64_t LittleEndian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i > 0; --i) {
    value = value << 8 | static_cast<unsigned char>(bytes[i - 1]);
  }
  return value;
}

// Reads the fields of a protocol buffer one after another
// (https://protobuf.dev/programming-guides/encoding/).
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
      case 0:
        number_ = ReadVarint();
        return true;
      case 1:
        bytes_ = ReadBytes(8);
        number_ = LittleEndian(bytes_);
        return true;
      case 2:
        bytes_ = ReadBytes(ReadVarint());
        return true;
      case 5:
        bytes_ = ReadBytes(4);
        number_ = LittleEndian(bytes_);
        return true;
      default:
        FailEvent("is not a valid event: a field has wire type " +
                  std::to_string(type_));
    }
  }

  // True after the last field.
  bool at_end() const { return rest_.empty(); }
  // The field's number if it has this type, else 0.
  std::uint64_t FieldIfType(int type) const {
    return type == type_ ? field_ : 0;
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

// Types of tensors (tensorflow/core/framework/types.proto).
enum TensorType : std::uint64_t {
  kFloatTensor = 1,
  kDoubleTensor = 2,
  kInt32Tensor = 3,
  kInt64Tensor = 9,
  kBfloat16Tensor = 14,
  kHalfTensor = 19,
};

std::optional<double> ContentValue(std::uint64_t type, std::string_view bytes) {
  const std::uint64_t bits = LittleEndian(bytes.substr(0, 8));
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
    if (field.FieldIfType(0) == 1) type = field.number();
    if (field.FieldIfType(5) == 5) return field.AsFloat();
    if (field.FieldIfType(1) == 6) return field.AsDouble();
    for (const std::uint64_t name : {4, 5, 6}) {
      if (field.FieldIfType(2) == name) content = field.bytes();
    }
    for (const std::uint64_t name : {7, 10, 13}) {
      if (field.FieldIfType(2) == name) integer = PackedValue(field.bytes());
      if (field.FieldIfType(0) == name) integer = field.number();
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

void AddSummaryValue(std::string_view summary_value, EventScalars& scalars) {
  std::string tag;
  std::optional<double> value;
  for (ProtoReader field(summary_value); field.Next();) {
    if (field.FieldIfType(2) == 1) tag = ToValidUtf8(field.bytes());
    if (field.FieldIfType(5) == 2) value = field.AsFloat();
    if (field.FieldIfType(2) == 8) value = TensorValue(field.bytes());
  }
  if (!value || tag.empty() || tag.size() > kMaxTag) return;
  scalars.values.emplace_back(std::move(tag), *value);
}

}  // namespace

void EventRecords::Append(std::string_view bytes) {
  buffer_.erase(0, start_);
  start_ = 0;
  buffer_ += bytes;
}

std::optional<std::string_view> EventRecords::Next() {
  const std::string_view rest = std::string_view(buffer_).substr(start_);
  if (rest.size() < kHeader) return std::nullopt;
  const std::string_view length = rest.substr(0, 8);
  const std::uint64_t size = LittleEndian(length);
  if (LittleEndian(rest.substr(8, 4)) != MaskedCrc32c(length)) {
    FailEvent("the length of a record has a wrong checksum");
  }
  if (size > kMaxRecord) FailEvent("a record is longer than 64 MiB");
  if (rest.size() < kHeader + size + kFooter) return std::nullopt;
  const std::string_view record = rest.substr(kHeader, size);
  if (LittleEndian(rest.substr(kHeader + size, kFooter)) !=
      MaskedCrc32c(record)) {
    FailEvent("a record has a wrong checksum");
  }
  start_ += kHeader + size + kFooter;
  return record;
}

EventScalars ParseEvent(std::string_view record) {
  EventScalars scalars;
  for (ProtoReader field(record); field.Next();) {
    if (field.FieldIfType(0) == 2) {
      scalars.step = static_cast<std::int64_t>(field.number());
    }
    if (field.FieldIfType(2) != 5) continue;
    for (ProtoReader value(field.bytes()); value.Next();) {
      if (value.FieldIfType(2) == 1) AddSummaryValue(value.bytes(), scalars);
    }
  }
  return scalars;
}

EventMetrics::EventMetrics(const MetricSource& source, fs::path directory,
                           std::string searcher_metric, double from,
                           bool refuses_zero, MetricFindings& findings)
    : source_(source),
      directory_(std::move(directory)),
      searcher_metric_(std::move(searcher_metric)),
      findings_(findings),
      steps_(source, from, refuses_zero, findings) {
  FindFiles();
  std::error_code error;
  for (File& file : files_) {
    const auto size = fs::file_size(file.path, error);
    if (!error) file.offset = static_cast<std::int64_t>(size);
  }
}

// Adds the files that are not known yet.
void EventMetrics::FindFiles() {
  const auto refuse = [this](const std::string& problem) {
    if (std::exchange(warned_of_link_, true)) return;
    findings_.remarks.push_back({.text = problem, .ignored = true});
  };
  const std::string problem = FindLink(directory_, source_.tensorboard);
  if (!problem.empty()) return refuse(problem);
  std::error_code error;
  int entries = 0;
  for (auto at = fs::recursive_directory_iterator(
           directory_, fs::directory_options::skip_permission_denied, error);
       !error && at != fs::recursive_directory_iterator();
       at.increment(error)) {
    if (++entries > kMaxEntries || files_.size() >= kMaxEventFiles) return;
    if (at.depth() >= kMaxDepth) at.disable_recursion_pending();
    const fs::path& path = at->path();
    if (path.filename().string().find(".tfevents.") == std::string::npos ||
        !known_.insert(path).second) {
      continue;
    }
    const std::string link = FindLink(path, {});
    if (!link.empty()) refuse(link);
    UniqueFd fd(
        ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
    struct stat status {};
    // Try again later, except what was present at the start: its events are of
    // earlier runs.
    if (!fd && link.empty() && looked_at_) known_.erase(path);
    if (fd && ::fstat(fd.get(), &status) == 0 && S_ISREG(status.st_mode)) {
      files_.push_back({.path = path, .fd = std::move(fd)});
    }
  }
}

bool EventMetrics::Poll(Duration now) {
  if (!looked_at_ || now - *looked_at_ >= kLookAgain) {
    looked_at_ = now;
    FindFiles();
  }
  bool any = false;
  for (File& file : files_) {
    for (int i = 0; i < kEventChunks && Read(file); ++i) any = true;
  }
  ReportComplete();
  return any;
}

void EventMetrics::End(bool whole) {
  looked_at_.reset();
  while (Poll(Duration(0))) {
  }
  if (!whole) return;
  ReportUntil(std::numeric_limits<double>::infinity());
}

bool EventMetrics::Read(File& file) {
  if (file.damaged) return false;
  std::array<char, kEventChunk> chunk;
  const ssize_t count = ::pread(file.fd.get(), chunk.data(), chunk.size(),
                                static_cast<off_t>(file.offset));
  if (count <= 0) return false;
  file.offset += count;
  file.grown = true;
  file.records.Append({chunk.data(), static_cast<std::size_t>(count)});
  try {
    while (const auto record = file.records.Next()) {
      Add(file, ParseEvent(*record));
    }
  } catch (const Error& error) {
    file.damaged = true;
    findings_.remarks.push_back({.text = file.path.filename().string() + ": " +
                                         error.what() +
                                         "; the rest of the file is not read",
                                 .ignored = true});
  }
  return true;
}

void EventMetrics::Add(const File& file, const EventScalars& event) {
  const std::string below =
      file.path.parent_path().lexically_relative(directory_).generic_string();
  for (const auto& [tag, value] : event.values) {
    if (tags_.size() < kMaxTags) tags_.insert(tag);
    const auto metric = FindMetric(tag, below == "." ? tag : below + "/" + tag);
    if (!metric) continue;
    const auto step = static_cast<double>(event.step);
    if (step <= reported_) {
      findings_.remarks.push_back(
          {.text = "'" + *metric + "' at step " + FormatNumber(step) +
                   " was written after step " + FormatNumber(reported_) +
                   " was reported",
           .ignored = true});
      continue;
    }
    UpdateMetrics(waiting_[step], {{*metric, value}});
  }
  // Steps that never become complete must not grow without limit.
  if (waiting_.size() > kMaxOpenSteps) ReportUntil(waiting_.begin()->first);
}

// Returns the metric that has this tag. A directory of the tag may be named
// too: validation/loss. If several have it, the first that was found counts.
std::optional<std::string> EventMetrics::FindMetric(const std::string& tag,
                                                    const std::string& whole) {
  for (const auto& [name, source_tag] : source_.names) {
    if (source_tag != tag && source_tag != whole &&
        !whole.ends_with("/" + source_tag)) {
      continue;
    }
    const auto [chosen, is_new] = chosen_.try_emplace(name, whole);
    if (chosen->second == whole) return name;
    if (tags_.insert(whole).second) {
      findings_.remarks.push_back(
          {.text = "'" + source_tag + "' is in several event files, as " +
                   chosen->second + " and " + whole +
                   "; the first one counts; name the directory too"});
    }
  }
  return std::nullopt;
}

// Reports the steps up to the last one that is complete and, unless the first
// values of a step count, has ended.
void EventMetrics::ReportComplete() {
  double last = -1;
  for (const auto& [step, values] : waiting_) {
    const bool ended = source_.first_value || step < waiting_.rbegin()->first;
    if (ended && values.size() == source_.names.size()) last = step;
  }
  if (last >= 0) ReportUntil(last);
}

std::optional<double> EventMetrics::held() const {
  if (waiting_.empty()) return std::nullopt;
  const auto& [step, values] = *waiting_.rbegin();
  if (values.size() != source_.names.size()) return std::nullopt;
  return source_.first_step == 0 ? step + 1 : step;
}

void EventMetrics::ReportUntil(double step) {
  while (!waiting_.empty() && waiting_.begin()->first <= step) {
    auto first = waiting_.extract(waiting_.begin());
    Report(first.key(), std::move(first.mapped()));
  }
}

void EventMetrics::Report(double step, MetricValues values) {
  reported_ = step;
  const auto count = steps_.MoveTo(step);
  if (!count) return;
  has_result_ =
      has_result_ || std::ranges::any_of(values, [&](const auto& metric) {
        return metric.first == searcher_metric_;
      });
  findings_.reports.push_back({.count = *count, .metrics = std::move(values)});
}

std::string EventMetrics::Hint() const {
  if (has_result_) {
    return steps_.began_with_zero()
               ? "; its first step was 0: if that is the first step of "
                 "training, set metrics.first_step: 0"
               : "";
  }
  if (std::ranges::none_of(files_, &File::grown)) {
    return "; it wrote no event file in " + directory_.string();
  }
  const std::vector<std::string> tags(tags_.begin(), tags_.end());
  const auto source_tag = source_.names.find(searcher_metric_);
  if (source_tag == source_.names.end()) return "";
  const std::string hint = DidYouMean(source_tag->second, tags);
  return "; its event files have no tag '" + source_tag->second + "'" +
         (hint.empty() ? tags.empty() ? "" : "; they have " + Join(tags, ", ")
                       : hint);
}

}  // namespace dtrain
