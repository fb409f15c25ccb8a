#include "engine/report/xml_text.h"

#include <utility>

#include "engine/base/text.h"

namespace dtrain {
namespace {

// XML has no way to say U+FFFE and U+FFFF, which UTF-8 has.
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
