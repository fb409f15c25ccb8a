#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/config/node.h"

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
  /// before the message unless it is an error. Escaped for terminals.
  std::string ToString() const;
};

using Diagnostics = std::vector<Diagnostic>;

/// Collects what is found about one configuration. After 100 errors the rest
/// is counted only, so that a hostile file cannot make a flood of them.
class Findings {
 public:
  /// `overrides` are those of ReadOptions; marks refer to them by index.
  Findings(std::string file, std::span<const std::string> overrides);

  /// Findings that nobody will hear: of what is read a second time.
  static Findings Unheard() { return {"", {}}; }

  /// A finding at `mark` about the key with the dotted path `key`.
  void Error(Mark mark, std::string key, std::string message);
  void Warning(Mark mark, std::string key, std::string message);
  void Note(Mark mark, std::string key, std::string message);
  void NotYet(Mark mark, std::string key, std::string message);

  /// Reports an unknown key. Suggests `elsewhere`, the path of a key of that
  /// name; where that is empty, the nearest of `candidates`.
  void UnknownKey(Mark mark, std::string key, std::string_view name,
                  std::span<const std::string> candidates,
                  std::string_view elsewhere = {});

  /// Adds all that `other` has; with `as_warnings`, errors of the file become
  /// warnings, those of overrides stay errors.
  void Append(Findings other, bool as_warnings);

  int errors() const { return errors_; }

  /// Everything found, in the order of the file, then of the overrides.
  Diagnostics Take();

 private:
  void Add(Severity severity, Mark mark, std::string key, std::string message);

  std::string file_;
  std::vector<std::string> overrides_;  // as they are named in messages
  int errors_ = 0;
  std::vector<std::pair<Mark, Diagnostic>> found_;
};

/// `path` with `name` behind a dot, or `name` alone.
std::string JoinPath(std::string_view path, std::string_view name);

}  // namespace dtrain
