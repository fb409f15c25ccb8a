#include "engine/report/log_filter.h"

#include <array>
#include <ctime>

#include <regex.h>

#include "engine/base/error.h"
#include "engine/base/text.h"

namespace dtrain {
namespace {

// Seconds since 1970 of `text` in one of the forms we take, or none.
std::optional<std::time_t> ParseUtc(const std::string& text) {
  constexpr std::array kForms = {"%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S",
                                 "%Y-%m-%d %H:%M:%S", "%Y-%m-%d"};
  for (const char* form : kForms) {
    std::tm time{};
    const char* rest = strptime(text.c_str(), form, &time);
    if (rest != nullptr && *rest == '\0') return timegm(&time);
  }
  return std::nullopt;
}

// "2026-11-21T07:35:44.25Z" without its fraction.
std::string WithoutFraction(const std::string& text) {
  const std::size_t dot = text.find('.');
  const std::size_t date = text.find('-');
  if (dot == std::string::npos || date == std::string::npos) return text;
  const std::size_t rest = text.find_first_not_of("0123456789", dot + 1);
  return text.substr(0, dot) +
         (rest == std::string::npos ? "" : text.substr(rest));
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
  if (const auto seconds = ParseUtc(WithoutFraction(text))) {
    return std::chrono::seconds(*seconds);
  }
  try {
    return now - std::chrono::duration_cast<Timestamp>(
                     ParseDuration(text, "--since"));
  } catch (const Error&) {
    throw Error(ErrorKind::kUsage,
                "--since: '" + text +
                    "' is neither a time nor a duration; write 10m, 2h or "
                    "2026-11-21T07:35:44Z");
  }
}

}  // namespace dtrain
