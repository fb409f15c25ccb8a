#include "engine/config/yaml_text.h"

#include <algorithm>
#include <optional>
#include <string>

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

std::optional<Fault> ByteOrderMark(std::string_view text) {
  if (text.substr(0, 3) == "\xEF\xBB\xBF") {
    return Fault{0, "begins with a byte order mark; save it as UTF-8 without"};
  }
  if (text.substr(0, 2) == "\xFF\xFE" || text.substr(0, 2) == "\xFE\xFF") {
    return Fault{0, "is UTF-16; save it as UTF-8"};
  }
  return std::nullopt;
}

std::optional<Fault> ControlCharacter(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    // U+0080 to U+009F, but for NEL, are two bytes that begin with C2.
    const bool c1 = c == 0xC2 && i + 1 < text.size() &&
                    static_cast<unsigned char>(text[i + 1]) < 0xA0 &&
                    static_cast<unsigned char>(text[i + 1]) != 0x85;
    if (IsControl(c) || c1) {
      return Fault{i,
                   "a control character; remove it, or write it as an "
                   "escape in double quotes"};
    }
  }
  return std::nullopt;
}

// Invalid UTF-8 is looked for line by line: no sequence spans a line's end.
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

std::optional<Fault> TooLarge(std::string_view text) {
  if (text.size() <= kMaxConfigBytes) return std::nullopt;
  return Fault{text.size(), "has " + std::to_string(text.size()) +
                                " bytes; a configuration may have at most " +
                                std::to_string(kMaxConfigBytes)};
}

// yaml-cpp takes 240 bytes for every bracket until it is closed.
std::optional<Fault> TooManyBrackets(std::string_view text) {
  constexpr std::size_t kMostBrackets = 100'000;
  std::size_t brackets = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if ((text[i] == '[' || text[i] == '{') && ++brackets > kMostBrackets) {
      return Fault{i, "more than " + std::to_string(kMostBrackets) +
                          " brackets; make it smaller"};
    }
  }
  return std::nullopt;
}

// Where a quoted text ends that opens at `i`: the index of its last quote.
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
  std::optional<Fault> fault = TooLarge(text);
  const bool too_large = fault.has_value();
  if (!fault) fault = ByteOrderMark(text);
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

}  // namespace dtrain
