// Texts of users' files and programs are shown on terminals, which interpret
// control characters: escape sequences could forge output or run commands in
// some terminals, and bidirectional controls can reorder a line. So every text
// that is not ours passes EscapeForTerminal, byte sequences that are not UTF-8
// included.
//
// Widths on a terminal follow wcwidth(3) in its common ranges. The C library's
// own function depends on the locale, which dtrain does not set.

#include "engine/base/text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <ctime>

#include "engine/base/error.h"

namespace dtrain {
namespace {

struct CodePoint {
  std::uint32_t value = 0;
  std::size_t length = 0;  // 0: the byte begins no valid sequence
};

// Decodes the code point at the start of `text`, strictly as RFC 3629 says.
CodePoint Decode(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return static_cast<unsigned char>(text[i]);
  };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return {};
  std::uint32_t value = lead & (0xFF >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    value = (value << 6) | (byte(i) & 0x3F);
  }
  static constexpr std::array<std::uint32_t, 5> kMin = {0, 0, 0x80, 0x800,
                                                        0x10000};
  const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
  if (value < kMin[length] || value > 0x10FFFF || surrogate) return {};
  return {value, length};
}

bool IsControl(std::uint32_t c) { return c < 0x20 || (c >= 0x7F && c < 0xA0); }

// True if a terminal interprets it instead of showing it.
bool IsInterpreted(std::uint32_t c) {
  const bool bidirectional = c == 0x061C || c == 0x200E || c == 0x200F ||
                             (c >= 0x202A && c <= 0x202E) ||
                             (c >= 0x2066 && c <= 0x2069);
  return IsControl(c) || bidirectional || c == 0x2028 || c == 0x2029;
}

std::string Hex(const char* format, std::uint32_t value) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

std::size_t Columns(std::uint32_t c) {
  const bool is_combining =
      (c >= 0x0300 && c <= 0x036F) || (c >= 0x20D0 && c <= 0x20FF) ||
      (c >= 0xFE00 && c <= 0xFE0F) || c == 0x200B || c == 0x200D;
  const bool is_wide =
      (c >= 0x1100 && c <= 0x115F) || (c >= 0x2E80 && c <= 0xA4CF) ||
      (c >= 0xAC00 && c <= 0xD7A3) || (c >= 0xF900 && c <= 0xFAFF) ||
      (c >= 0xFE30 && c <= 0xFE6F) || (c >= 0xFF00 && c <= 0xFF60) ||
      (c >= 0x1F300 && c <= 0x1FAFF) || (c >= 0x20000 && c <= 0x3FFFD);
  return is_combining ? 0 : is_wide ? 2 : 1;
}

// Optimal string alignment distance: insert, delete, replace, swap neighbours.
std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(
      a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, replace});
      const bool swapped =
          i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

std::string EscapeJsonForTerminal(std::string_view json) {
  std::string out;
  while (!json.empty()) {
    const CodePoint c = Decode(json);
    const std::size_t length = std::max<std::size_t>(c.length, 1);
    // DumpJson leaves no other control characters between the texts.
    const bool layout = c.value == '\n' || c.value == '\t';
    out += c.length == 0 ? "\\ufffd"
           : !layout && IsInterpreted(c.value)
               ? Hex("\\u%04x", c.value)
               : std::string(json.substr(0, length));
    json.remove_prefix(length);
  }
  return out;
}

std::string EscapeForTerminal(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const CodePoint c = Decode(text);
    if (c.length == 0) {
      out += Hex("\\x%02x", static_cast<unsigned char>(text[0]));
      text.remove_prefix(1);
      continue;
    }
    if (c.value == '\t') {
      out += ' ';
    } else if (IsControl(c.value)) {
      out += Hex("\\x%02x", c.value);
    } else if (IsInterpreted(c.value)) {
      out += Hex("\\u%04x", c.value);
    } else {
      out += text.substr(0, c.length);
    }
    text.remove_prefix(c.length);
  }
  return out;
}

std::string QuoteForShell(std::string_view word) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./,:+@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == word.npos) {
    return std::string(word);
  }
  std::string quoted = "'";
  for (const char c : word) {
    quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return quoted + "'";
}

std::string QuotePathForShell(std::string_view path) {
  const bool dashed = path.starts_with('-');
  return QuoteForShell((dashed ? "./" : "") + std::string(path));
}

std::string NamedCommand(std::string_view command) {
  const char* mark = command.find('\'') == command.npos ? "'" : "`";
  return mark + std::string(command) + mark;
}

std::string ToValidUtf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const CodePoint c = Decode(text);
    out += c.length == 0 ? std::string_view("\xEF\xBF\xBD")
                         : text.substr(0, c.length);
    text.remove_prefix(std::max<std::size_t>(c.length, 1));
  }
  return out;
}

bool IsValidUtf8(std::string_view text) {
  while (!text.empty()) {
    const CodePoint c = Decode(text);
    if (c.length == 0) return false;
    text.remove_prefix(c.length);
  }
  return true;
}

std::size_t DisplayWidth(std::string_view text) {
  std::size_t width = 0;
  while (!text.empty()) {
    const CodePoint c = Decode(text);
    width += c.length == 0 ? 1 : Columns(c.value);
    text.remove_prefix(std::max<std::size_t>(c.length, 1));
  }
  return width;
}

std::string Truncate(std::string_view text, std::size_t width,
                     std::string_view ellipsis) {
  if (DisplayWidth(text) <= width) return std::string(text);
  const std::size_t end = DisplayWidth(ellipsis);
  if (end > width) return Truncate(ellipsis, width, "");
  std::string out;
  std::size_t used = 0;
  while (!text.empty()) {
    const CodePoint c = Decode(text);
    const std::size_t columns = c.length == 0 ? 1 : Columns(c.value);
    if (used + columns + end > width) break;
    used += columns;
    const std::size_t length = std::max<std::size_t>(c.length, 1);
    out += text.substr(0, length);
    text.remove_prefix(length);
  }
  return out + std::string(ellipsis);
}

std::string NearestName(std::string_view word,
                        std::span<const std::string> candidates) {
  // A third of the word may be wrong, and never all of it.
  std::size_t best = std::max<std::size_t>(1, word.size() / 3) + 1;
  std::string nearest;
  for (const std::string& candidate : candidates) {
    const std::size_t longer = std::max(word.size(), candidate.size());
    const std::size_t shorter = std::min(word.size(), candidate.size());
    if (longer - shorter >= best || longer > 256) continue;
    const std::size_t distance = EditDistance(word, candidate);
    if (distance >= best || distance >= longer) continue;
    best = distance;
    nearest = candidate;
  }
  constexpr std::size_t kMinBeginning = 3;
  if (!nearest.empty() || word.size() < kMinBeginning) return nearest;
  // The only name that begins with the word.
  for (const std::string& candidate : candidates) {
    if (!candidate.starts_with(word)) continue;
    if (!nearest.empty()) return "";
    nearest = candidate;
  }
  return nearest;
}

std::string DidYouMean(std::string_view word,
                       std::span<const std::string> candidates) {
  const std::string nearest = NearestName(word, candidates);
  return nearest.empty() ? "" : "; did you mean '" + nearest + "'?";
}

std::string FormatTimestamp(Timestamp time) {
  const std::int64_t micros = time.count();
  std::int64_t fraction = micros % 1'000'000;
  std::time_t seconds = micros / 1'000'000;
  if (fraction < 0) {
    fraction += 1'000'000;
    --seconds;
  }
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  std::array<char, 80> text{};
  std::snprintf(text.data(), text.size(), "%04d-%02d-%02dT%02d:%02d:%02d.%06dZ",
                utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday, utc.tm_hour,
                utc.tm_min, utc.tm_sec, static_cast<int>(fraction));
  return text.data();
}

namespace {

// Parses an offset: "Z", nothing (UTC) or "+01:00".
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

}  // namespace

std::optional<Timestamp> ParseTimestamp(const std::string& text) {
  for (const char* form : {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%dt%H:%M:%S",
                           "%Y-%m-%d %H:%M:%S", "%Y-%m-%d"}) {
    std::tm time{};
    const char* end = strptime(text.c_str(), form, &time);
    if (end == nullptr) continue;
    std::tm day{};  // strptime() takes February 30
    day.tm_year = time.tm_year;
    day.tm_mon = time.tm_mon;
    day.tm_mday = time.tm_mday;
    (void)timegm(&day);  // makes it March 2
    if (day.tm_mday != time.tm_mday) continue;
    std::string_view rest = end;
    Timestamp fraction(0);
    if (rest.starts_with('.')) {
      const std::size_t after =
          std::min(rest.find_first_not_of("0123456789", 1), rest.size());
      std::string digits(rest.substr(1, after - 1));
      digits.resize(6, '0');  // microseconds
      rest.remove_prefix(after);
      fraction = Timestamp(std::stoll(digits));
    }
    const auto offset = ParseOffset(rest);
    if (!offset) continue;
    return std::chrono::seconds(timegm(&time)) + fraction - *offset;
  }
  return std::nullopt;
}

std::string FormatBytes(std::int64_t bytes) {
  if (bytes < 1000) return std::to_string(bytes) + " B";
  constexpr std::array kUnits = {"kB", "MB", "GB", "TB", "PB", "EB"};
  double value = static_cast<double>(bytes) / 1000;
  std::size_t unit = 0;
  while (value >= 999.95 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f %s", value, kUnits[unit]);
  return text.data();
}

std::string FormatElapsed(Duration duration) {
  const auto whole = std::max<std::int64_t>(
      0, std::chrono::duration_cast<std::chrono::seconds>(duration).count());
  const auto two = [](std::int64_t number) {
    return (number < 10 ? ":0" : ":") + std::to_string(number);
  };
  return std::to_string(whole / 3600) + two(whole / 60 % 60) + two(whole % 60);
}

std::string FormatDuration(Duration duration) {
  const double seconds = std::chrono::duration<double>(duration).count();
  std::array<char, 64> text{};
  const auto print = [&](const char* format, auto... values) {
    std::snprintf(text.data(), text.size(), format, values...);
    return std::string(text.data());
  };
  if (seconds < 9.95) return print("%.1fs", std::max(seconds, 0.0));
  const auto whole = static_cast<long long>(std::llround(seconds));
  if (whole < 60) return print("%llds", whole);
  if (whole < 3600) return print("%lldm%02llds", whole / 60, whole % 60);
  if (whole < 86400) {
    return print("%lldh%02lldm", whole / 3600, whole / 60 % 60);
  }
  return print("%lldd%02lldh", whole / 86400, whole / 3600 % 24);
}

std::string FormatNumber(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  std::array<char, 32> text{};
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

Duration ParseDuration(std::string_view text, std::string_view what) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  const std::string_view suffix(rest, static_cast<std::size_t>(end - rest));
  const double scale = suffix == "ms"                    ? 1e-3
                       : suffix.empty() || suffix == "s" ? 1
                       : suffix == "m"                   ? 60
                       : suffix == "h"                   ? 3600
                       : suffix == "d"                   ? 86400
                                                         : 0;
  const double seconds = number * scale;
  // 1e9 seconds are 31 years: more is a slip of the keyboard.
  const bool valid =
      error == std::errc() && scale > 0 && seconds >= 0 && seconds <= 1e9;
  if (!valid) {
    throw Error(
        ErrorKind::kUsage,
        std::string(what) + ": '" + EscapeForTerminal(text) +
            "' is not a duration; write seconds or a number with ms, s, "
            "m, h or d, such as 90, 1.5h or 250ms");
  }
  return std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(seconds));
}

std::optional<double> ParseFinite(std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  std::size_t start = 0;
  while (true) {
    const std::size_t end = text.find(separator, start);
    parts.emplace_back(text.substr(start, end - start));
    if (end == std::string_view::npos) return parts;
    start = end + 1;
  }
}

std::string Join(std::span<const std::string> parts,
                 std::string_view separator) {
  std::string out;
  for (const std::string& part : parts) {
    if (&part != parts.data()) out += separator;
    out += part;
  }
  return out;
}

std::string JoinFirst(std::span<const std::string> parts, std::size_t most) {
  const std::size_t shown = std::min(parts.size(), most);
  const std::string text = Join(parts.first(shown), ", ");
  const std::size_t more = parts.size() - shown;
  return more == 0 ? text : text + " and " + std::to_string(more) + " more";
}

constexpr std::string_view kHexDigits = "0123456789abcdef";

std::string ToHex(std::span<const std::byte> bytes) {
  std::string text;
  text.reserve(2 * bytes.size());
  for (const std::byte byte : bytes) {
    text += kHexDigits[std::to_integer<unsigned>(byte >> 4)];
    text += kHexDigits[std::to_integer<unsigned>(byte) & 0xF];
  }
  return text;
}

std::optional<std::vector<std::byte>> FromHex(std::string_view text) {
  if (text.size() % 2 != 0) return std::nullopt;
  std::vector<std::byte> bytes;
  bytes.reserve(text.size() / 2);
  for (std::size_t i = 0; i < text.size(); i += 2) {
    const auto high = kHexDigits.find(text[i]);
    const auto low = kHexDigits.find(text[i + 1]);
    if (high == kHexDigits.npos || low == kHexDigits.npos) return std::nullopt;
    bytes.push_back(static_cast<std::byte>(high << 4 | low));
  }
  return bytes;
}

}  // namespace dtrain
