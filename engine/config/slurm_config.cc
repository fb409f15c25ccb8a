// Times as Slurm writes them. The meaning of a text depends on the number of
// its parts: "90" is minutes, "90:00" minutes and seconds, "1:30:00" hours
// first, and after a dash, "1-12", hours come first with any number of parts.
// Options of sbatch that a job's script depends on are reserved here.

#include "engine/config/slurm_config.h"

#include <array>
#include <charconv>
#include <cstdio>

#include "engine/base/text.h"

namespace dtrain {
namespace {

constexpr std::int64_t kMinute = 60;
constexpr std::int64_t kHour = 60 * kMinute;
constexpr std::int64_t kDay = 24 * kHour;
constexpr std::int64_t kMaxJobSeconds = 366 * kDay;

// Returns the numbers of "4:00:00"; nothing unless it has digits and colons
// only.
std::optional<std::vector<std::int64_t>> ParseNumbers(std::string_view text) {
  std::vector<std::int64_t> numbers;
  for (const std::string& part : Split(text, ':')) {
    std::uint32_t number = 0;
    const char* const end = part.data() + part.size();
    const auto [at, error] = std::from_chars(part.data(), end, number);
    if (error != std::errc() || at != end) return std::nullopt;
    numbers.push_back(number);
  }
  return numbers;
}

// Returns the seconds of numbers with these units, in order; there may be fewer
// numbers than units.
std::optional<std::int64_t> SumUnits(const std::vector<std::int64_t>& numbers,
                                     const std::vector<std::int64_t>& units) {
  if (numbers.size() > units.size()) return std::nullopt;
  std::int64_t seconds = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    seconds += numbers[i] * units[i];
  }
  return seconds;
}

std::optional<std::int64_t> ParseSlurmSeconds(std::string_view text) {
  const std::size_t dash = text.find('-');
  if (dash != text.npos) {
    const auto days = ParseNumbers(text.substr(0, dash));
    const auto rest = ParseNumbers(text.substr(dash + 1));
    if (!days || days->size() != 1 || !rest) return std::nullopt;
    const auto seconds = SumUnits(*rest, {kHour, kMinute, 1});
    if (!seconds) return std::nullopt;
    return days->front() * kDay + *seconds;
  }
  const auto numbers = ParseNumbers(text);
  if (!numbers) return std::nullopt;
  if (numbers->size() == 3) return SumUnits(*numbers, {kHour, kMinute, 1});
  return SumUnits(*numbers, {kMinute, 1});
}

struct SbatchOption {
  std::string_view name;
  char letter = '\0';
};

constexpr std::array<SbatchOption, 19> kReserved = {{
    {"--account", 'A'},
    {"--array", 'a'},
    {"--comment"},
    {"--constraint", 'C'},
    {"--cpus-per-task", 'c'},
    {"--job-name", 'J'},
    {"--mem"},
    {"--no-requeue"},
    {"--nodes", 'N'},
    {"--ntasks", 'n'},
    {"--ntasks-per-node"},
    {"--open-mode"},
    {"--output", 'o'},
    {"--parsable"},
    {"--partition", 'p'},
    {"--qos", 'q'},
    {"--requeue"},
    {"--signal"},
    {"--time", 't'},
}};

}  // namespace

std::optional<Duration> ReadSlurmTime(std::string_view text) {
  const auto seconds = ParseSlurmSeconds(text);
  if (!seconds) return std::nullopt;
  return std::chrono::seconds(*seconds);
}

std::optional<Duration> ParseSlurmTime(std::string_view text) {
  const auto seconds = ParseSlurmSeconds(text);
  if (!seconds || *seconds < kMinute || *seconds > kMaxJobSeconds) {
    return std::nullopt;
  }
  return std::chrono::minutes((*seconds + kMinute - 1) / kMinute);
}

std::string FormatSlurmTime(Duration time) {
  const std::int64_t seconds =
      std::chrono::duration_cast<std::chrono::seconds>(time).count();
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%02lld:%02lld:%02lld",
                static_cast<long long>(seconds % kDay / kHour),
                static_cast<long long>(seconds % kHour / kMinute),
                static_cast<long long>(seconds % kMinute));
  const std::string clock = text.data();
  return seconds < kDay ? clock : std::to_string(seconds / kDay) + "-" + clock;
}

std::string_view ReservedOption(std::string_view word) {
  const bool has_letter = word.size() > 1 && word[0] == '-' && word[1] != '-';
  const std::string_view name = word.substr(0, word.find('='));
  for (const SbatchOption& option : kReserved) {
    if (has_letter ? word[1] == option.letter : name == option.name) {
      return option.name;
    }
  }
  return {};
}

}  // namespace dtrain
