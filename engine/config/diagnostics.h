#pragma once

#include <string>
#include <vector>

namespace dtrain {

enum class Severity {
  kError,    // the configuration is refused
  kWarning,  // obeyed, but probably not what was meant
  kNote,     // accepted and ignored, said once
  kNotYet,   // valid; `create` refuses it until the feature is there
};

/// One finding about a configuration text.
struct Diagnostic {
  Severity severity = Severity::kError;
  std::string file;  // or `--set KEY`, for what an override says
  int line = 0;      // from 1; 0: the whole file, or an override
  int column = 0;    // from 1, in bytes
  std::string key;   // dotted path, "searcher.max_length.epochs"; may be empty
  std::string message;  // lowercase: what; what to do

  /// `file:line:col: key: message`, with "warning: ", "note: " or "not yet: "
  /// before the message for what is no error. What a terminal would obey is
  /// escaped.
  std::string ToString() const;
};

using Diagnostics = std::vector<Diagnostic>;

}  // namespace dtrain
