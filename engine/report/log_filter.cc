#include "engine/report/log_filter.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <ctime>

#include <regex.h>

#include "engine/base/error.h"
#include "engine/base/text.h"

namespace dtrain {
namespace {

// Takes a fraction such as ".25" from the front of `text`.
Timestamp TakeFraction(std::string_view& text) {
  if (!text.starts_with('.')) return Timestamp(0);
  const std::size_t end =
      std::min(text.find_first_not_of("0123456789", 1), text.size());
  std::string digits(text.substr(1, end - 1));
  digits.resize(6, '0');  // microseconds
  text.remove_prefix(end);
  return Timestamp(std::stoll(digits));
}

// The offset that `text` is: "Z", nothing (UTC) or "+01:00".
std::optional<std::chrono::seconds> ParseOffset(std::string_view text) {
  if (text.empty() || text == "Z" || text == "z")
    return std::chrono::seconds(0);
  const auto digit = [&](std::size_t at) { return text[at] - '0'; };
  const bool valid = text.size() == 6 && (text[0] == '+' || text[0] == '-') &&
                     text[3] == ':' &&
                     text.find_first_not_of("0123456789+-:", 0) == text.npos &&
                     std::isdigit(text[1]) != 0 && std::isdigit(text[2]) != 0 &&
                     std::isdigit(text[4]) != 0 && std::isdigit(text[5]) != 0;
  if (!valid) return std::nullopt;
  const int minutes =
      (digit(1) * 10 + digit(2)) * 60 + digit(4) * 10 + digit(5);
  return std::chrono::minutes(text[0] == '-' ? -minutes : minutes);
}

// The time that `text` is in one of the forms we take, or none.
std::optional<Timestamp> ParseTime(const std::string& text) {
  for (const char* form : {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%dt%H:%M:%S",
                           "%Y-%m-%d %H:%M:%S", "%Y-%m-%d"}) {
    std::tm time{};
    const char* end = strptime(text.c_str(), form, &time);
    if (end == nullptr) continue;
    std::string_view rest = end;
    const Timestamp fraction = TakeFraction(rest);
    const auto offset = ParseOffset(rest);
    if (!offset) continue;
    return std::chrono::seconds(timegm(&time)) + fraction - *offset;
  }
  return std::nullopt;
}

}  // namespace

struct LineRegex::Compiled {
  explicit Compiled(const std::string& pattern) {
    const int error =
        regcomp(&regex, pattern.c_str(), REG_EXTENDED | REG_NOSUB);
    if (error == 0) return;
    std::array<char, 128> text{};
    regerror(error, &regex, text.data(), text.size());
    throw Error(ErrorKind::kUsage,
                "--grep: '" + pattern + "': " + text.data() +
                    "; give a POSIX extended regular expression");
  }
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;
  ~Compiled() { regfree(&regex); }

  regex_t regex{};
};

LineRegex::LineRegex(const std::string& pattern)
    : compiled_(std::make_shared<const Compiled>(pattern)) {}

bool LineRegex::Matches(std::string_view line) const {
  // The bounds are given, so that a NUL byte does not end the line.
  regmatch_t bounds{};
  bounds.rm_eo = static_cast<regoff_t>(line.size());
  return regexec(&compiled_->regex, line.data(), 1, &bounds, REG_STARTEND) == 0;
}

bool LogFilter::Accepts(const LogRecord& record) const {
  return (!least || record.level >= *least) &&
         (!rank || record.rank == *rank) && (!since || record.time >= *since) &&
         (!grep || grep->Matches(record.text));
}

Timestamp ParseSince(const std::string& text, Timestamp now) {
  if (const auto time = ParseTime(text)) return *time;
  constexpr std::string_view kAgo = " ago";
  std::string_view duration = text;
  if (duration.ends_with(kAgo)) duration.remove_suffix(kAgo.size());
  try {
    return now - std::chrono::duration_cast<Timestamp>(
                     ParseDuration(duration, "--since"));
  } catch (const Error&) {
    throw Error(ErrorKind::kUsage,
                "--since: '" + text +
                    "' is neither a time nor a duration; write 10m, 2h or "
                    "2026-11-21T07:35:44Z");
  }
}

}  // namespace dtrain
