#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dtrain {

/// A place in the file or in an override.
struct Mark {
  int line = 0;             // from 1; 0: the file as a whole
  int column = 0;           // from 1, in bytes
  int override_index = -1;  // of ReadOptions::overrides; -1: in the file
};

enum class Severity {
  kError,    // the configuration is refused
  kWarning,  // applied, but possibly unintended
  kNote,     // accepted and ignored
  kNotYet,   // valid, but not implemented yet: `create` refuses it
};

/// One finding about a configuration text.
struct Diagnostic {
  Severity severity = Severity::kError;
  std::string file;  // or `--set KEY` for an override
  int line = 0;      // from 1; 0: the whole file, or an override
  int column = 0;    // from 1, in bytes
  std::string key;   // dotted path, "searcher.max_length.epochs"; may be empty
  std::string message;          // lowercase: what; what to do
  bool is_ignored_key = false;  // a note about a key without effect here

  /// Returns `file:line:col: key: message`, with "warning: ", "note: " or
  /// "not yet: " before the message unless it is an error. Escaped for
  /// terminals.
  std::string ToString() const;
};

using Diagnostics = std::vector<Diagnostic>;

/// Collects the findings about one configuration. After 100 errors, further
/// ones are only counted, so that a hostile file cannot cause a flood.
class Findings {
 public:
  /// `overrides`: those of ReadOptions; marks refer to them by index. Without
  /// `has_places`, findings name the key, but no line: for a text that users
  /// have not seen.
  Findings(std::string file, std::span<const std::string> overrides,
           bool has_places = true);

  /// Returns a sink whose findings are dropped, for values that are read twice.
  static Findings Discarding() { return {"", {}}; }

  /// Add a finding at `mark` about the key with the dotted path `key`.
  void Error(Mark mark, std::string key, std::string message);
  void Warning(Mark mark, std::string key, std::string message);
  void AddNote(Mark mark, std::string key, std::string message);
  /// Adds a note about a key of Determined that has no effect here; `why` says
  /// what is done instead.
  void Ignored(Mark mark, std::string key, std::string_view why);
  void NotYet(Mark mark, std::string key, std::string message);

  /// Reports an unknown key. Suggests `elsewhere`, the path of a key of that
  /// name; where that is empty, the nearest of `candidates`.
  void UnknownKey(Mark mark, std::string key, std::string_view name,
                  std::span<const std::string> candidates,
                  std::string_view elsewhere = {});

  /// Adds the findings of `other`. With `as_warnings`, errors in the file
  /// become warnings; errors in overrides stay errors.
  void Append(Findings other, bool as_warnings);

  int errors() const { return errors_; }

  /// Returns all findings in the order of the file, then of the overrides.
  Diagnostics Release();

 private:
  void Add(Severity severity, Mark mark, std::string key, std::string message);

  std::string file_;
  bool has_places_;
  std::vector<std::string> overrides_;  // their names in messages
  int errors_ = 0;
  std::vector<std::pair<Mark, Diagnostic>> found_;
};

/// Returns `path`, a dot and `name`, or `name` alone if `path` is empty.
std::string JoinPath(std::string_view path, std::string_view name);

}  // namespace dtrain
