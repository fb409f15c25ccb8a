// Findings are collected in the order in which checks run and sorted by their
// place at the end. An override has no place in the file, so its findings come
// last, in the order of the command line, and name the override instead of the
// file.

#include "engine/config/findings.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

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

namespace {

constexpr int kMaxErrors = 100;

// Orders findings about the whole file after those with a line.
auto OrderKey(const Mark& mark) {
  return std::tuple(mark.override_index, mark.line == 0, mark.line,
                    mark.column);
}

}  // namespace

Findings::Findings(std::string file, std::span<const std::string> overrides,
                   bool has_places)
    : file_(std::move(file)), has_places_(has_places) {
  for (const std::string& text : overrides) {
    // Without the value, which may be a secret of the environment.
    overrides_.push_back("--set " +
                         Truncate(text.substr(0, text.find('=')), 200));
  }
}

void Findings::Error(Mark mark, std::string key, std::string message) {
  if (++errors_ > kMaxErrors) return;
  Add(Severity::kError, mark, std::move(key), std::move(message));
}

void Findings::Warning(Mark mark, std::string key, std::string message) {
  Add(Severity::kWarning, mark, std::move(key), std::move(message));
}

void Findings::AddNote(Mark mark, std::string key, std::string message) {
  Add(Severity::kNote, mark, std::move(key), std::move(message));
}

void Findings::Ignored(Mark mark, std::string key, std::string_view why) {
  Add(Severity::kNote, mark, std::move(key), "ignored: " + std::string(why));
  found_.back().second.is_ignored_key = true;
}

void Findings::NotYet(Mark mark, std::string key, std::string message) {
  Add(Severity::kNotYet, mark, std::move(key), std::move(message));
}

void Findings::UnknownKey(Mark mark, std::string key, std::string_view name,
                          std::span<const std::string> candidates,
                          std::string_view elsewhere) {
  if (errors_ >= kMaxErrors) {
    ++errors_;
    return;
  }
  std::string hint = elsewhere.empty()
                         ? DidYouMean(name, candidates)
                         : "; did you mean '" + std::string(elsewhere) + "'?";
  const bool is_set = mark.override_index >= 0 && key == name;
  if (hint.empty()) {
    hint = is_set ? "; a hyperparameter is set as hyperparameters." + key
                  : "; remove it";
  }
  Error(mark, std::move(key), "unknown key" + hint);
}

void Findings::Append(Findings other, bool as_warnings) {
  int kept = 0;
  for (auto& [mark, diagnostic] : other.found_) {
    const bool error = diagnostic.severity == Severity::kError;
    if (error && as_warnings && mark.override_index < 0) {
      diagnostic.severity = Severity::kWarning;
    } else if (error) {
      ++kept;
      if (++errors_ > kMaxErrors) continue;
    }
    found_.emplace_back(mark, std::move(diagnostic));
  }
  // Errors that `other` counted but did not keep.
  if (!as_warnings) errors_ += other.errors_ - kept;
}

Diagnostics Findings::Release() {
  std::stable_sort(found_.begin(), found_.end(),
                   [](const auto& a, const auto& b) {
                     return OrderKey(a.first) < OrderKey(b.first);
                   });
  Diagnostics all;
  for (auto& [mark, diagnostic] : found_) all.push_back(std::move(diagnostic));
  found_.clear();
  if (errors_ > kMaxErrors) {
    Diagnostic rest;
    rest.file = file_;
    rest.message = std::to_string(errors_ - kMaxErrors) +
                   " more errors are not shown; fix those above first";
    all.push_back(std::move(rest));
  }
  return all;
}

void Findings::Add(Severity severity, Mark mark, std::string key,
                   std::string message) {
  Diagnostic diagnostic;
  diagnostic.severity = severity;
  diagnostic.key = std::move(key);
  diagnostic.message = std::move(message);
  const auto index = static_cast<std::size_t>(mark.override_index);
  if (mark.override_index >= 0 && index < overrides_.size()) {
    diagnostic.file = overrides_[index];
  } else {
    diagnostic.file = file_;
    if (has_places_) {
      diagnostic.line = mark.line;
      diagnostic.column = mark.column;
    }
  }
  found_.emplace_back(mark, std::move(diagnostic));
}

std::string JoinPath(std::string_view path, std::string_view name) {
  std::string joined(path);
  if (!joined.empty()) joined += '.';
  return joined.append(name);
}

}  // namespace dtrain
