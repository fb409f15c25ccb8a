// Reports of programs: lines of JSON from a pipe or socket, to typed reports.
//
// A line is checked completely here, since the sender may be any program:
// counts are finite, non-negative and exact in a double, names and lists have
// limits, unknown types are errors. Unknown fields are ignored, so that a
// program may add its own. The caller turns an Error into a remark in the
// trial's log.
//
// The unit of a count is fixed by the search's lengths. Without max_length it
// is open until the first report, which decides by the first of `batches`,
// `epochs` and `records` that it has.

#include "engine/program/program_report.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/base/python_json.h"
#include "engine/base/text.h"
#include "engine/wire/message.h"

namespace dtrain {
namespace {

constexpr std::size_t kChunk = std::size_t{64} << 10;

}  // namespace

ReportLines::ReportLines(UniqueFd fd, std::size_t max_line)
    : fd_(std::move(fd)), lines_(max_line, LineSplitter::Overlong::kDiscard) {
  ::fcntl(fd_.get(), F_SETFL, ::fcntl(fd_.get(), F_GETFL) | O_NONBLOCK);
}

bool ReportLines::Fill() {
  std::array<char, kChunk> chunk;
  const ssize_t count = ::read(fd_.get(), chunk.data(), chunk.size());
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  reset_ = count < 0 && errno == ECONNRESET;
  ended_ = count <= 0;
  if (!ended_) lines_.Append({chunk.data(), static_cast<std::size_t>(count)});
  return !ended_;
}

bool ReportLines::HasUnread() const {
  int unread = 0;
  return reset_ || (::ioctl(fd_.get(), SIOCOUTQ, &unread) == 0 && unread > 0);
}

std::optional<ReportLine> ReportLines::Next() {
  std::optional<LineSplitter::Line> line = lines_.Next();
  if (!line && ended_) line = lines_.Rest();
  if (!line) return std::nullopt;
  return ReportLine{std::string(line->text), line->overlong};
}

namespace {

using nlohmann::json;

// Largest count that a double holds exactly.
constexpr double kMaxCount = 1e15;
constexpr std::size_t kMaxMetrics = 1'000;
constexpr std::size_t kMaxName = 1'000;
constexpr std::size_t kMaxMessage = 2'000;

[[noreturn]] void Fail(const std::string& what) {
  throw Error(ErrorKind::kFailed, what);
}

std::string Shown(const json& value) {
  const std::string text =
      value.is_structured()
          ? (value.is_array() ? "a list" : "an object")
          : value.dump(-1, ' ', false, json::error_handler_t::replace);
  return Truncate(EscapeForTerminal(text), 60);
}

}  // namespace

json ParseJsonLine(std::string_view line) {
  json object = json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (object.is_discarded()) {
    // Only a line that failed is read twice, so that usual ones cost no more.
    object = json::parse(QuoteNonFinite(line), nullptr, false);
  }
  if (object.is_discarded()) Fail("is not JSON");
  if (!object.is_object()) Fail("is not a JSON object");
  return object;
}

namespace {

std::string Text(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) Fail(std::string("has no '") + name + "'");
  if (found->is_string()) return found->get<std::string>();
  Fail(std::string("'") + name + "' must be a string, got " + Shown(*found));
}

// A number of at least 0, or none if the field is missing.
std::optional<double> Count(const json& object, std::string_view name) {
  const auto found = object.find(name);
  if (found == object.end()) return std::nullopt;
  const double count = found->is_number() ? found->get<double>() : -1;
  if (count >= 0 && count <= kMaxCount) return count;
  Fail("'" + std::string(name) + "' must be a number from 0 to 10^15, got " +
       Shown(*found));
}

double Whole(double count, std::string_view name) {
  if (count == std::floor(count)) return count;
  Fail("'" + std::string(name) + "' must be a whole number, got " +
       FormatNumber(count));
}

ProgramPoint ParsePoint(const json& object, const ProgramUnits& units) {
  const auto batches = Count(object, UnitName(Unit::kBatches));
  const auto epochs = Count(object, UnitName(Unit::kEpochs));
  const auto records = Count(object, UnitName(Unit::kRecords));
  Unit counted = units.unit;
  if (units.is_open) {
    if (!batches && !epochs && !records) {
      Fail("has none of 'batches', 'epochs' and 'records'");
    }
    counted = batches  ? Unit::kBatches
              : epochs ? Unit::kEpochs
                       : Unit::kRecords;
  }
  const std::string_view unit = UnitName(counted);
  const auto count = Count(object, unit);
  if (!count) {
    Fail("has no '" + std::string(unit) + "'" +
         (units.planned ? "" : ", which the first report had"));
  }
  ProgramPoint point{.unit = counted, .count = *count};
  // Without batches the record uses the search's count.
  point.batches = static_cast<std::int64_t>(batches ? Whole(*batches, "batches")
                                                    : Whole(*count, unit));
  if (epochs) {
    point.epoch = *epochs;
  } else if (records && units.records_per_epoch > 0) {
    point.epoch = *records / static_cast<double>(units.records_per_epoch);
  }
  return point;
}

MetricValues ParseMetrics(const json& object, const char* field = "metrics") {
  const auto found = object.find(field);
  if (found == object.end()) Fail(std::string("has no '") + field + "'");
  if (!found->is_object()) {
    Fail(std::string("'") + field + "' must be an object of numbers, got " +
         Shown(*found));
  }
  if (found->size() > kMaxMetrics) {
    Fail("has " + std::to_string(found->size()) + " metrics; report at most " +
         std::to_string(kMaxMetrics) + " at once");
  }
  MetricValues metrics;
  for (const auto& [name, value] : found->items()) {
    if (name.empty() || name.size() > kMaxName) {
      Fail("the name of a metric must have 1 to " + std::to_string(kMaxName) +
           " bytes");
    }
    if (value.is_number()) {
      metrics.emplace_back(name, value.get<double>());
    } else if (value == "NaN" || value == "Infinity" || value == "-Infinity") {
      metrics.emplace_back(name, NumberFromJson(value));
    } else {
      Fail("metric '" + Truncate(EscapeForTerminal(name), 60) +
           "' must be a number, got " + Shown(value));
    }
  }
  return metrics;
}

ProgramEnd ParseEnd(const json& object) {
  ProgramEnd end;
  constexpr std::array<std::pair<std::string_view, EndReason>, 4> kReasons = {
      {{"user_stop", EndReason::kUserStop},
       {"invalid_hp", EndReason::kInvalidHp},
       {"fatal", EndReason::kRefused},
       {"error", EndReason::kError}}};
  const std::string reason = Text(object, "reason");
  const auto known = std::ranges::find(
      kReasons, reason, &std::pair<std::string_view, EndReason>::first);
  if (known == kReasons.end()) {
    Fail("'reason' must be user_stop, invalid_hp, fatal or error, got " +
         Shown(reason));
  }
  end.reason = known->second;
  if (object.contains("message")) {
    end.message = Text(object, "message").substr(0, kMaxMessage);
  }
  // The message becomes the reason of the trial.
  if (end.message.empty() && end.reason == EndReason::kRefused) {
    end.message = "the program reported a fatal error";
  }
  return end;
}

ProgramUnread ParseUnread(const json& object) {
  const auto found = object.find("names");
  if (found == object.end() || !found->is_array() ||
      found->size() > kMaxMetrics) {
    Fail("'names' must be a list of at most " + std::to_string(kMaxMetrics) +
         " strings");
  }
  ProgramUnread unread;
  for (const json& name : *found) {
    if (!name.is_string()) Fail("'names' must be strings, got " + Shown(name));
    unread.names.push_back(Truncate(name.get<std::string>(), kMaxName));
  }
  return unread;
}

ProgramReport ReportFrom(const json& object, const ProgramUnits& units) {
  const std::string type = Text(object, "type");
  if (type == "end") return ParseEnd(object);
  if (type == "unread") return ParseUnread(object);
  if (type == "stopping") return ProgramStopping{};
  if (type == "training") {
    return ProgramTraining{ParsePoint(object, units), ParseMetrics(object)};
  }
  if (type == "validation") {
    return ProgramValidation{ParsePoint(object, units), ParseMetrics(object)};
  }
  if (type == "checkpoint") {
    ProgramCheckpoint saved{.point = ParsePoint(object, units),
                            .path = Text(object, "path")};
    if (saved.path.empty()) Fail("has an empty 'path'");
    if (object.contains("validation")) {
      saved.validation = ParseMetrics(object, "validation");
    }
    return saved;
  }
  if (type == "progress") return ProgramProgress{ParsePoint(object, units)};
  Fail("has the unknown type " + Shown(type) +
       "; use training, validation, checkpoint, progress or end");
}

}  // namespace

ProgramReport ParseProgramReport(std::string_view line,
                                 const ProgramUnits& units) {
  try {
    return ReportFrom(ParseJsonLine(line), units);
  } catch (const json::exception& error) {
    Fail("cannot be parsed: " + Truncate(EscapeForTerminal(error.what()), 200));
  }
}

std::optional<std::int64_t> ParseHello(std::string_view line) {
  if (line.find("hello") == line.npos) return std::nullopt;
  const json object = json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object() || object.value("type", json()) != "hello") {
    return std::nullopt;
  }
  const auto rank = object.find("rank");
  if (rank != object.end() && rank->is_number_unsigned() &&
      rank->get<std::uint64_t>() < 1'000'000) {
    return rank->get<std::int64_t>();
  }
  Fail("'rank' must be a whole number of at least 0");
}

bool ReportRate::TryAcquire(Duration now) {
  const std::chrono::duration<double> passed = now - at_;
  at_ = now;
  left_ = std::min(burst_, left_ + passed.count() * per_second_);
  if (left_ < 1) return false;
  left_ -= 1;
  return true;
}

void TrainingMeans::Add(const ProgramTraining& report) {
  point_ = report.point;
  for (const auto& [name, value] : report.metrics) {
    const auto [sum, is_new] = sums_.try_emplace(name);
    if (is_new) names_.push_back(name);
    sum->second.total += value;
    ++sum->second.count;
  }
}

ProgramTraining TrainingMeans::Drain() {
  ProgramTraining report{.point = point_};
  for (const std::string& name : names_) {
    const Sum& sum = sums_.at(name);
    report.metrics.emplace_back(name,
                                sum.total / static_cast<double>(sum.count));
  }
  names_.clear();
  sums_.clear();
  return report;
}

}  // namespace dtrain
