// An entrypoint is the name of a model (`module:Trial`) or the command line of
// a program. A command line in one string is split at blanks, with quotes as in
// a shell, but nothing is expanded; characters that only a shell would
// interpret are refused, because they would otherwise reach the program
// unchanged.

#include "engine/config/entrypoint.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "engine/base/text.h"
#include "engine/config/value_reader.h"

namespace dtrain {
namespace {

constexpr std::string_view kPath = "entrypoint";
constexpr std::size_t kLongest = 4096;

bool IsIdentifier(std::string_view text, std::string_view also) {
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  if (text.empty() || !letter(text[0])) return false;
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return letter(c) || (c >= '0' && c <= '9') || also.find(c) != also.npos;
  });
}

// True for `model_def:Trial`; the module may be in packages: `a.b:Trial`.
bool IsTrialName(std::string_view text) {
  const std::size_t colon = text.find(':');
  return colon != text.npos && IsIdentifier(text.substr(0, colon), ".-") &&
         IsIdentifier(text.substr(colon + 1), "");
}

// Returns the words of a command, or nothing if a quote is not closed.
std::optional<std::vector<std::string>> Words(std::string_view text) {
  std::vector<std::string> words;
  char quote = 0;
  bool inside = false;
  for (const char c : text) {
    if (quote == 0 && (c == ' ' || c == '\t' || c == '\n')) {
      inside = false;
      continue;
    }
    if (!inside) words.emplace_back();
    inside = true;
    if (quote == 0 && (c == '"' || c == '\'')) {
      quote = c;
    } else if (c == quote) {
      quote = 0;
    } else {
      words.back() += c;
    }
  }
  if (quote != 0) return std::nullopt;
  return words;
}

std::optional<nlohmann::json> ReadCommandText(const Node& node,
                                              Findings& findings) {
  const std::string path(kPath);
  if (node.text.find_first_of(";|&<>$`\\*") != node.text.npos) {
    findings.Error(node.mark, path,
                   "commands are not run by a shell; write a list: [sh, -c, "
                   "'...']");
    return std::nullopt;
  }
  const auto words = Words(node.text);
  if (!words || words->empty() || words->front().empty()) {
    findings.Error(node.mark, path,
                   words ? "is empty; name a model or a command"
                         : "unclosed quote; close it");
    return std::nullopt;
  }
  return *words;
}

std::optional<nlohmann::json> ReadCommandList(const Node& node,
                                              Findings& findings) {
  const std::string path(kPath);
  auto words = nlohmann::json::array();
  for (const Node& item : node.items) {
    const std::string place = path + '[' + std::to_string(words.size()) + ']';
    if (!item.IsScalar() || item.is_null()) {
      ReportType(item, place, "a string", findings);
      return std::nullopt;
    }
    // `[./train, --epochs, 5]` means the word 5.
    words.push_back(item.text);
  }
  if (!words.empty() && !words[0].get<std::string>().empty()) return words;
  findings.Error(node.mark, path, "is empty; name a model or a command");
  return std::nullopt;
}

}  // namespace

std::optional<nlohmann::json> ReadEntrypoint(const Node& node,
                                             Findings& findings) {
  const std::string path(kPath);
  if (node.is_list()) return ReadCommandList(node, findings);
  if (!node.is_string()) {
    ReportType(node, path, "module:Trial as a string, or a command", findings);
    return std::nullopt;
  }
  if (node.text.size() > kLongest) {
    findings.Error(node.mark, path,
                   "has " + std::to_string(node.text.size()) +
                       " bytes; use at most " + std::to_string(kLongest));
    return std::nullopt;
  }
  if (IsTrialName(node.text)) return node.text;
  const bool one_word = node.text.find_first_of(" \t\n") == node.text.npos;
  if (one_word && node.text.find(':') != node.text.npos) {
    findings.Error(node.mark, path,
                   "expected module:Trial or a command, got " + Describe(node) +
                       "; name a model such as digits:LeNetTrial");
    return std::nullopt;
  }
  return ReadCommandText(node, findings);
}

void CheckEntrypoint(const nlohmann::json& entrypoint, Mark mark,
                     const ReadOptions& options, Findings& findings) {
  const std::vector<std::string>& known = options.known_entrypoints;
  if (known.empty() || !entrypoint.is_string()) return;
  const auto name = entrypoint.get<std::string>();
  const std::string all = name.substr(0, name.find(':')) + ":*";
  const auto is_it = [&](const std::string& one) {
    return one == name || one == all;
  };
  if (std::any_of(known.begin(), known.end(), is_it)) return;
  if (!options.python_model.empty() && name.starts_with("model_def:")) {
    const std::string advice =
        options.python_model +
        " is Python, but models named like this are written in C++; run a "
        "script, entrypoint: python3 train.py, with 'import dtrain', or with "
        "'from dtrain import core' if it uses Determined's Core API "
        "(docs/python.md); or write a model_def.cpp ('dtrain init', "
        "docs/models.md)";
    if (options.refuse_unknown_entrypoint) {
      findings.Error(mark, std::string(kPath), advice);
    } else {
      findings.Warning(mark, std::string(kPath), advice);
    }
    return;
  }
  const std::string hint = DidYouMean(name, known);
  if (options.refuse_unknown_entrypoint) {
    findings.Error(mark, std::string(kPath),
                   "unknown model '" + name + "'" + hint + "; this build has " +
                       Join(known, ", ") + " (see 'dtrain models')");
    return;
  }
  findings.Warning(mark, std::string(kPath),
                   "unknown model '" + name + "'" +
                       (hint.empty() ? "; see 'dtrain models'" : hint));
}

}  // namespace dtrain
