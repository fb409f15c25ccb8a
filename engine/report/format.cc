// Values as text for people: numbers, times, hyperparameters, states.
//
// Numbers that are compared by eye have six significant digits (FormatMetric),
// hyperparameters in narrow places four (FormatBriefly); FormatValue gives a
// text that reads back to the same value, so a string is quoted where YAML
// would take it for another type. Times are UTC, except in FormatLocalTime,
// which is for terminals only: a local time does not belong in a file or a
// pipe.

#include "engine/report/format.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "engine/base/rounding.h"
#include "engine/base/text.h"

namespace dtrain {
namespace {

using nlohmann::json;

template <typename... Values>
std::string Print(const char* format, Values... values) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, values...);
  return text.data();
}

// True if YAML reads the text without quotes as a number, a Boolean or null.
bool ReadsAsAnotherType(std::string_view text) {
  if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
  constexpr std::array<std::string_view, 16> kWords = {
      "true", "True", "TRUE", "false", "False", "FALSE", "null", "Null",
      "NULL", "~",    ".nan", ".NaN",  ".NAN",  ".inf",  ".Inf", ".INF"};
  if (std::ranges::find(kWords, text) != kWords.end()) return true;
  std::string digits(text);
  std::erase(digits, '_');
  return ParseFinite(digits).has_value() || text.starts_with("0x") ||
         text.starts_with("0o");
}

bool NeedsQuotes(const std::string& text) {
  return text.empty() ||
         text.find_first_of(" \t\n\r\"'=,:{}[]#") != std::string::npos ||
         ReadsAsAnotherType(text);
}

using ValueFormat = std::string (*)(const json& value);

void AppendHparams(const std::string& prefix, const json& value,
                   ValueFormat format, std::string& out) {
  if (value.is_object() && !value.empty()) {
    for (const auto& [name, inner] : value.items()) {
      AppendHparams(prefix.empty() ? name : prefix + "." + name, inner, format,
                    out);
    }
    return;
  }
  if (prefix.empty()) return;
  if (!out.empty()) out += ' ';
  out += prefix + "=" + format(value);
}

bool IsSearched(const json& space) {
  return space.is_object() && space.contains("type") &&
         space.at("type").is_string() && space.at("type") != "const";
}

json Searched(const json& space, const json& hparams) {
  json searched = json::object();
  if (!space.is_object() || !hparams.is_object()) return searched;
  for (const auto& [name, value] : hparams.items()) {
    if (!space.contains(name)) continue;
    if (IsSearched(space.at(name))) {
      searched[name] = value;
    } else if (json inner = Searched(space.at(name), value); !inner.empty()) {
      searched[name] = std::move(inner);
    }
  }
  return searched;
}

// Returns the entries of `all` that are not in `part`.
json Rest(const json& all, const json& part) {
  json rest = json::object();
  for (const auto& [name, value] : all.items()) {
    if (!part.contains(name)) {
      rest[name] = value;
    } else if (value.is_object() && part.at(name).is_object()) {
      json inner = Rest(value, part.at(name));
      if (!inner.empty()) rest[name] = std::move(inner);
    }
  }
  return rest;
}

template <typename Row>
double Elapsed(const Row& row, Timestamp now) {
  const bool first_run =
      row.state == State::kRunning && row.started && row.seconds == 0;
  if (!first_run) return row.seconds;
  const Timestamp since = std::max(now - *row.started, Timestamp(0));
  return std::chrono::duration<double>(since).count();
}

}  // namespace

std::string FormatMetric(double value) { return FormatRounded(value, 6); }

std::string FormatFixed(double value, int digits) {
  return Print("%.*f", digits, value);
}

std::string FormatPercent(double progress) {
  const double percent = std::floor(progress * 100 + 1e-9);
  return Print("%.0f%%", std::isfinite(percent) ? percent : 0.0);
}

std::string FormatProgress(const ExperimentRow& row) {
  return row.state == State::kError ? "-" : FormatPercent(row.progress);
}

std::string FormatTime(const std::optional<Timestamp>& time) {
  if (!time) return "-";
  // Remove the fraction: "2026-11-21T07:35:44" and "Z".
  const std::string whole = FormatTimestamp(*time);
  return whole.substr(0, whole.find('.')) + "Z";
}

std::string FormatLocalTime(Timestamp time, Timestamp now) {
  const auto local = [](Timestamp moment) {
    const std::time_t seconds =
        std::chrono::floor<std::chrono::seconds>(moment).count();
    std::tm fields{};
    localtime_r(&seconds, &fields);
    return fields;
  };
  const auto is_day = [](const std::tm& a, const std::tm& b) {
    return a.tm_year == b.tm_year && a.tm_yday == b.tm_yday;
  };
  constexpr std::chrono::hours kHour{1};
  const Timestamp age = now - time;
  if (age >= Timestamp(0) && age < kHour) {
    const auto minutes =
        std::chrono::duration_cast<std::chrono::minutes>(age).count();
    return minutes == 0 ? "just now" : std::to_string(minutes) + " min ago";
  }
  const std::tm then = local(time);
  const std::tm today = local(now);
  std::tm yesterday = today;
  --yesterday.tm_mday;
  yesterday.tm_isdst = -1;
  (void)std::mktime(&yesterday);
  constexpr std::chrono::hours kMostOfAYear{24 * 300};
  const bool is_near = age >= Timestamp(0) && age < kMostOfAYear;
  const char* format = is_day(then, today)       ? "today %H:%M"
                       : is_day(then, yesterday) ? "yesterday %H:%M"
                       : is_near                 ? "%b %e %H:%M"
                                                 : "%Y-%m-%d %H:%M";
  std::array<char, 64> text{};
  std::strftime(text.data(), text.size(), format, &then);
  return text.data();
}

std::string FormatSeconds(double seconds) {
  return FormatDuration(std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(std::isfinite(seconds) ? seconds : 0)));
}

std::string FormatValue(const json& value) {
  if (value.is_number_float()) return FormatNumber(value.get<double>());
  if (value.is_string() && !NeedsQuotes(value.get_ref<const std::string&>())) {
    return value.get<std::string>();
  }
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string FormatBriefly(const json& value) {
  if (!value.is_number_float()) return FormatValue(value);
  return FormatRounded(value.get<double>(), 4);
}

std::string FormatHparams(const json& hparams) {
  std::string text;
  AppendHparams("", hparams, FormatValue, text);
  return text;
}

std::string FormatHparamsBriefly(const json& hparams) {
  std::string text;
  AppendHparams("", hparams, FormatBriefly, text);
  return text;
}

std::string FormatMetrics(const MetricValues& values) {
  std::string text;
  for (const auto& [name, value] : values) {
    if (!text.empty()) text += ", ";
    text += name + " " + FormatMetric(value);
  }
  return text;
}

std::string FormatBest(const std::optional<BestValidation>& best,
                       const Units& units) {
  if (!best) return "-";
  return FormatMetric(best->value) + " at " + PositionText(best->at(), units);
}

json SearchedHparams(const json& space, const json& hparams) {
  json searched = Searched(space, hparams);
  return searched.empty() ? hparams : searched;
}

json ConstantHparams(const json& space, const json& hparams) {
  if (!hparams.is_object()) return json::object();
  return Rest(hparams, SearchedHparams(space, hparams));
}

double ElapsedSeconds(const ExperimentRow& row, Timestamp now) {
  return Elapsed(row, now);
}

double ElapsedSeconds(const TrialRow& row, Timestamp now) {
  return Elapsed(row, now);
}

std::string SlotsText(const std::string& slots) {
  std::string text, kind;
  for (const std::string& slot : Split(slots, ',')) {
    const std::size_t number = slot.rfind(':') + 1;
    if (!text.empty()) text += slot.substr(0, number) == kind ? "," : " ";
    text += slot.substr(0, number) == kind ? slot.substr(number) : slot;
    kind = slot.substr(0, number);
  }
  return text;
}

Tone ChooseTone(State state) {
  switch (state) {
    case State::kCompleted:
      return Tone::kGood;
    case State::kError:
    case State::kCanceled:
      return Tone::kBad;
    case State::kPaused:
    case State::kInterrupted:
      return Tone::kWarning;
    case State::kPending:
    case State::kStopped:
    case State::kInvalid:
      return Tone::kDim;
    case State::kRunning:
      return Tone::kStrong;
  }
  return Tone::kPlain;
}

namespace {

constexpr std::array kBlocks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::array kAsciiLevels = {"_", ".", "-", "^"};

// Returns the mean of the finite values, or NaN without one.
double FiniteMean(std::span<const double> values) {
  std::vector<double> finite;
  std::ranges::copy_if(values, std::back_inserter(finite),
                       [](double value) { return std::isfinite(value); });
  if (finite.empty()) return std::nan("");
  double mean = 0;  // of parts, since the sum may overflow
  for (const double value : finite) {
    mean += value / static_cast<double>(finite.size());
  }
  // The mean of equal values is that value, in spite of rounding.
  return std::clamp(mean, std::ranges::min(finite), std::ranges::max(finite));
}

}  // namespace

void CurveRange::Add(std::span<const double> values) {
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    least = std::min(least, value);
    most = std::max(most, value);
  }
}

std::string Sparkline(std::span<const double> values, std::size_t width,
                      bool utf8, std::optional<CurveRange> range) {
  const std::size_t columns = std::min(width, values.size());
  std::vector<double> means;
  for (std::size_t i = 0; i < columns; ++i) {
    const std::size_t begin = values.size() * i / columns;
    const std::size_t end = values.size() * (i + 1) / columns;
    means.push_back(FiniteMean(values.subspan(begin, end - begin)));
  }
  CurveRange drawn;
  drawn.Add(means);
  if (drawn.least > drawn.most) return "";
  const auto [least, most] = range.value_or(drawn);
  const std::span<const char* const> levels =
      utf8 ? std::span<const char* const>(kBlocks) : kAsciiLevels;
  const double half = most / 2 - least / 2;  // all of it may overflow
  std::string line;
  for (const double mean : means) {
    if (!std::isfinite(mean)) {
      line += ' ';
      continue;
    }
    const double share =
        half > 0 ? std::clamp((mean / 2 - least / 2) / half, 0.0, 1.0) : 0.5;
    const double level = share * static_cast<double>(levels.size());
    line +=
        levels[std::min(static_cast<std::size_t>(level), levels.size() - 1)];
  }
  return line;
}

namespace {

// XML does not allow U+FFFE and U+FFFF, which UTF-8 can encode.
std::string WithoutNoncharacters(std::string text) {
  for (const auto& [bytes, shown] : {std::pair("\xEF\xBF\xBE", "\\ufffe"),
                                     std::pair("\xEF\xBF\xBF", "\\uffff")}) {
    for (std::size_t at = text.find(bytes); at != std::string::npos;
         at = text.find(bytes, at)) {
      text.replace(at, 3, shown);
    }
  }
  return text;
}

}  // namespace

std::string EscapeXml(const std::string& text) {
  std::string out;
  bool first = true;
  for (const std::string& line : Split(text, '\n')) {
    if (!std::exchange(first, false)) out += "&#10;";
    for (const char c : WithoutNoncharacters(EscapeForTerminal(line))) {
      switch (c) {
        case '&':
          out += "&amp;";
          break;
        case '<':
          out += "&lt;";
          break;
        case '>':
          out += "&gt;";
          break;
        case '"':
          out += "&quot;";
          break;
        default:
          out += c;
      }
    }
  }
  return out;
}

}  // namespace dtrain
