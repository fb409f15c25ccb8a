// yaml-cpp accepts texts that YAML forbids, such as control characters, invalid
// UTF-8 and unclosed quotes. The checks here run before it, so that it only
// gets valid text. They are ordered by what they protect from: size first, then
// encoding, then the number of brackets, and only the first fault is reported,
// because others may follow from it.
//
// The second half types plain scalars by the core schema of YAML 1.2.2
// (10.3.2), so `yes` and `012` are a word and twelve; in YAML 1.1, and with
// yaml-cpp, they are a boolean and ten. Numbers may also have underscores
// between digits, as in Python. std::from_chars reads them, which depends on no
// locale.

#include "engine/config/yaml_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "engine/base/text.h"
#include "engine/config/experiment_config.h"

namespace dtrain {
namespace {

struct Fault {
  std::size_t offset = 0;
  std::string message;
};

bool IsControl(unsigned char c) {
  return (c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7F;
}

std::optional<Fault> ControlCharacter(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    // U+0080 to U+009F, except NEL, are two bytes that start with C2.
    const bool c1 = c == 0xC2 && i + 1 < text.size() &&
                    static_cast<unsigned char>(text[i + 1]) < 0xA0 &&
                    static_cast<unsigned char>(text[i + 1]) != 0x85;
    if (IsControl(c) || c1) {
      return Fault{i,
                   "control character; remove it, or write it as an escape "
                   "in double quotes"};
    }
  }
  return std::nullopt;
}

// Checks line by line, since no sequence spans the end of a line.
std::optional<Fault> InvalidUtf8(std::string_view text) {
  std::size_t start = 0;
  while (start < text.size()) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    if (!IsValidUtf8(text.substr(start, end - start))) {
      return Fault{start,
                   "this line is not valid UTF-8; save the file as "
                   "UTF-8"};
    }
    start = end + 1;
  }
  return std::nullopt;
}

// yaml-cpp allocates 240 bytes for every bracket until it is closed.
std::optional<Fault> TooManyBrackets(std::string_view text) {
  constexpr std::size_t kMaxBrackets = 100'000;
  std::size_t brackets = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if ((text[i] == '[' || text[i] == '{') && ++brackets > kMaxBrackets) {
      return Fault{i, "more than " + std::to_string(kMaxBrackets) +
                          " brackets; simplify it"};
    }
  }
  return std::nullopt;
}

// Returns the index of the quote that closes the one at `i`.
std::size_t ClosingQuote(std::string_view text, std::size_t i) {
  const char quote = text[i];
  for (++i; i < text.size(); ++i) {
    if (text[i] == '\\' && quote == '"') {
      ++i;
    } else if (text[i] == quote) {
      if (quote == '"' || i + 1 >= text.size() || text[i + 1] != quote) {
        return i;
      }
      ++i;  // '' stands for one quote
    }
  }
  return std::string_view::npos;
}

}  // namespace

Mark MarkAt(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const std::size_t newline = before.rfind('\n');
  const std::size_t start = newline == before.npos ? 0 : newline + 1;
  const auto lines = std::count(before.begin(), before.end(), '\n');
  return {static_cast<int>(lines) + 1, static_cast<int>(offset - start) + 1};
}

bool CheckText(std::string_view text, Mark origin, Findings& findings) {
  std::optional<Fault> fault;
  const bool too_large = text.size() > kMaxConfigBytes;
  if (too_large) {
    fault = Fault{text.size(), "has " + std::to_string(text.size()) +
                                   " bytes; a configuration may have at most " +
                                   std::to_string(kMaxConfigBytes)};
  } else if (text.starts_with("\xEF\xBB\xBF")) {
    fault = Fault{0, "starts with a byte order mark; save it as UTF-8 without"};
  } else if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")) {
    fault = Fault{0, "is UTF-16; save it as UTF-8"};
  }
  if (!fault) fault = ControlCharacter(text);
  if (!fault) fault = InvalidUtf8(text);
  if (!fault) fault = TooManyBrackets(text);
  if (!fault) return true;
  Mark mark = origin;
  if (origin.override_index < 0 && !too_large) {
    mark = MarkAt(text, fault->offset);
  }
  findings.Error(mark, "", fault->message);
  return false;
}

// Skips what may precede a quote: blanks, a tag and an anchor.
bool IsUnclosedQuote(std::string_view text, std::size_t offset) {
  std::size_t i = offset;
  while (i < text.size() && text[i] != '"' && text[i] != '\'') {
    if (text[i] == '!' || text[i] == '&') {
      i = std::min(text.find_first_of(" \t\r\n", i), text.size());
    } else if (text[i] == ' ' || text[i] == '\t' || text[i] == '\r' ||
               text[i] == '\n') {
      ++i;
    } else {
      return false;
    }
  }
  return i < text.size() && ClosingQuote(text, i) == std::string_view::npos;
}

namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Drops underscores between digits; nothing if there is one elsewhere.
std::optional<std::string> WithoutUnderscores(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
      continue;
    }
    const bool between = i > 0 && i + 1 < text.size() && IsDigit(text[i - 1]) &&
                         IsDigit(text[i + 1]);
    if (!between) return std::nullopt;
  }
  return out;
}

void SetInteger(Node& node, std::string_view digits, int base, bool negative) {
  std::uint64_t magnitude = 0;
  const auto [end, error] = std::from_chars(
      digits.data(), digits.data() + digits.size(), magnitude, base);
  const auto limit =
      std::uint64_t{std::numeric_limits<std::int64_t>::max()} + negative;
  if (error != std::errc() || magnitude > limit) {
    node.kind = Node::Kind::kOverflow;
    return;
  }
  node.kind = Node::Kind::kInt;
  node.integer =
      static_cast<std::int64_t>(negative ? ~magnitude + 1 : magnitude);
  node.number = static_cast<double>(node.integer);
}

// Skips digits from `i` on and returns their number.
std::size_t SkipDigits(std::string_view text, std::size_t& i) {
  const std::size_t start = i;
  while (i < text.size() && IsDigit(text[i])) ++i;
  return i - start;
}

enum class Shape { kNoNumber, kInteger, kDecimal };

// Returns the shape of an unsigned number: [0-9]+, or with a point, an exponent
// or both.
Shape NumberShape(std::string_view text) {
  std::size_t i = 0;
  std::size_t digits = SkipDigits(text, i);
  if (i == text.size()) return digits ? Shape::kInteger : Shape::kNoNumber;
  if (text[i] == '.') digits += SkipDigits(text, ++i);
  if (digits == 0) return Shape::kNoNumber;
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    ++i;
    if (i < text.size() && (text[i] == '+' || text[i] == '-')) ++i;
    if (SkipDigits(text, i) == 0) return Shape::kNoNumber;
  }
  return i == text.size() ? Shape::kDecimal : Shape::kNoNumber;
}

bool ReadWord(Node& node, std::string_view text) {
  const bool yes = text == "true" || text == "True" || text == "TRUE";
  const bool no = text == "false" || text == "False" || text == "FALSE";
  const bool null = text.empty() || text == "~" || text == "null" ||
                    text == "Null" || text == "NULL";
  const bool nan = text == ".nan" || text == ".NaN" || text == ".NAN";
  if (yes || no) {
    node.kind = Node::Kind::kBool;
    node.boolean = yes;
  } else if (null) {
    node.kind = Node::Kind::kNull;
  } else if (nan) {
    node.kind = Node::Kind::kDouble;
    node.number = std::numeric_limits<double>::quiet_NaN();
  }
  return yes || no || null || nan;
}

bool ReadNumber(Node& node, std::string_view text) {
  // `0x1F` and `0o17` have no sign.
  const int base = !text.starts_with('0') || text.size() < 3 ? 0
                   : text[1] == 'x'                          ? 16
                   : text[1] == 'o'                          ? 8
                                                             : 0;
  const std::string_view allowed =
      base == 16 ? "0123456789abcdefABCDEF" : "01234567";
  if (base != 0 && text.find_first_not_of(allowed, 2) == text.npos) {
    SetInteger(node, text.substr(2), base, false);
    return true;
  }
  const bool negative = text[0] == '-';
  if (negative || text[0] == '+') text.remove_prefix(1);
  if (text == ".inf" || text == ".Inf" || text == ".INF") {
    const double infinity = std::numeric_limits<double>::infinity();
    node.kind = Node::Kind::kDouble;
    node.number = negative ? -infinity : infinity;
    return true;
  }
  const std::optional<std::string> digits = WithoutUnderscores(text);
  if (!digits) return false;
  const Shape shape = NumberShape(*digits);
  if (shape == Shape::kInteger) SetInteger(node, *digits, 10, negative);
  if (shape == Shape::kDecimal) {
    double value = 0;
    const auto [end, error] =
        std::from_chars(digits->data(), digits->data() + digits->size(), value);
    // A number too small for a double becomes 0; from_chars leaves `value`
    // alone.
    const bool tiny = digits->find("e-") != digits->npos ||
                      digits->find("E-") != digits->npos ||
                      digits->starts_with('0') || digits->starts_with('.');
    if (error == std::errc::result_out_of_range && !tiny) {
      node.kind = Node::Kind::kOverflow;
    } else {
      node.kind = Node::Kind::kDouble;
      node.number = negative ? -value : value;
    }
  }
  return shape != Shape::kNoNumber;
}

}  // namespace

Node PlainScalar(std::string text) {
  Node node;
  // Most scalars are words, so only those that may start a number are parsed.
  const bool numeric = !text.empty() && (IsDigit(text[0]) || text[0] == '.' ||
                                         text[0] == '-' || text[0] == '+');
  if (!ReadWord(node, text) && !(numeric && ReadNumber(node, text))) {
    node.kind = Node::Kind::kString;
  }
  node.text = std::move(text);
  return node;
}

Node QuotedScalar(std::string text) {
  Node node;
  node.kind = Node::Kind::kString;
  node.text = std::move(text);
  node.quoted = true;
  return node;
}

}  // namespace dtrain
