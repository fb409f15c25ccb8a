#include "engine/config/diagnostics.h"

#include "engine/base/text.h"

namespace dtrain {
namespace {

std::string_view Prefix(Severity severity) {
  switch (severity) {
    case Severity::kError:
      return "";
    case Severity::kWarning:
      return "warning: ";
    case Severity::kNote:
      return "note: ";
    case Severity::kNotYet:
      return "not yet: ";
  }
  return "";
}

}  // namespace

std::string Diagnostic::ToString() const {
  std::string text = EscapeForTerminal(file);
  if (line > 0) {
    text += ':' + std::to_string(line) + ':' + std::to_string(column);
  }
  text += ": ";
  if (!key.empty()) text += EscapeForTerminal(key) + ": ";
  text += Prefix(severity);
  return text + EscapeForTerminal(message);
}

}  // namespace dtrain
