#include "engine/convert/inline_command.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/placeholders.h"
#include "engine/base/text.h"

namespace dtrain {
namespace {

bool IsNameStart(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// Returns the placeholder whose brace opens at `at`, and its size; 0 if these
// braces do not look like one.
std::pair<TemplatePart, std::size_t> PlaceholderAt(std::string_view word,
                                                   std::size_t at) {
  auto found = FindPlaceholder(word, at);
  if (found.second > 0 && !IsNameStart(found.first.text[0])) found.second = 0;
  return found;
}

// Use of a placeholder in a word.
enum class WordUse {
  kArgument,
  kProgram,  // never filled
  kCode,     // neither; code has braces of its own
};

// Returns what code reads instead of the placeholder.
std::string VariableName(const std::string& name) {
  if (name == "checkpoint" || name == "seed") {
    return name == "seed" ? "DTRAIN_SEED" : "DTRAIN_CHECKPOINT";
  }
  if (name == "length") return "DTRAIN_UNTIL";
  if (name == "directory") return "PWD";
  if (name == "trial") return "DTRAIN_TRIAL";
  std::string variable = "DTRAIN_HPARAM_" + name;
  std::ranges::replace_if(
      variable, [](char c) { return c == '.' || c == '-'; }, '_');
  return variable;
}

// Reads one word.
class WordReader {
 public:
  WordReader(std::size_t position, const std::string& word,
             const std::vector<std::string>& placeholders)
      : where_("word " + std::to_string(position + 1) + " of the command, '" +
               word + "'"),
        word_(word),
        known_(placeholders) {}

  // Returns the word as a template.
  std::string Template(WordUse use, std::set<std::string>& names) const {
    std::string out;
    for (std::size_t at = 0; at < word_.size(); ++at) {
      const char c = word_[at];
      const bool opens = c == '{' && (at == 0 || word_[at - 1] != '$');
      std::string escaped;  // what is in `{{NAME}}`
      if (opens && at + 1 < word_.size() && word_[at + 1] == '{') {
        const std::size_t name = PlaceholderAt(word_, at + 1).second;
        const std::size_t end = at + 1 + name;
        const bool closes = name > 0 && end < word_.size() && word_[end] == '}';
        if (closes) escaped = word_.substr(at + 2, name - 2);
      }
      const auto [part, bytes] = opens ? PlaceholderAt(word_, at)
                                       : std::pair<TemplatePart, std::size_t>();
      if (!escaped.empty()) {
        out += "{{" + escaped + "}}";
        at += escaped.size() + 3;
      } else if (bytes > 0 && IsPlaceholder(part.text, use)) {
        names.insert(part.text);
        out += word_.substr(at, bytes);
        at += bytes - 1;
      } else {
        out.append(c == '{' || c == '}' ? 2 : 1, c);
      }
    }
    return out;
  }

 private:
  bool IsPlaceholder(const std::string& name, WordUse use) const {
    const bool is_known = std::ranges::find(known_, name) != known_.end();
    if (use == WordUse::kArgument && is_known) return true;
    if (use == WordUse::kCode && !is_known) return false;
    std::string why = UnknownNameText(name);
    if (is_known && use == WordUse::kProgram) {
      why = "the program cannot be a placeholder";
    } else if (is_known) {
      why = "{" + name + "} is not filled in code; read the variable " +
            VariableName(name) + " (docs/protocol.md)";
    }
    throw Error(ErrorKind::kUsage, where_ + ": " + why + "; write {{" + name +
                                       "}} for the text {" + name + "}");
  }

  std::string UnknownNameText(const std::string& name) const {
    if (name == "length") return "{length} needs --max-length UNIT=N";
    const std::string hint = DidYouMean(name, known_);
    return "no hyperparameter '" + name + "' for {" + name + "}" +
           (hint.empty() ? "; known are " + Join(known_, ", ") : hint);
  }

  std::string where_;
  const std::string& word_;
  const std::vector<std::string>& known_;
};

}  // namespace

bool IsCode(const std::vector<std::string>& words, std::size_t at) {
  if (at < 2 || words[at - 1] != "-c") return false;
  std::size_t program = at - 2;
  while (program > 0 && words[program].starts_with('-')) --program;
  std::string name = words[program].substr(words[program].rfind('/') + 1);
  // python3, python3.12
  while (!name.empty() && !IsNameStart(name.back())) name.pop_back();
  constexpr std::array<std::string_view, 8> kInterpreters = {
      "bash", "dash", "fish", "ksh", "python", "sh", "zsh", "pypy"};
  return std::ranges::find(kInterpreters, name) != kInterpreters.end();
}

InlineCommand ReadInlineCommand(const std::vector<std::string>& words,
                                const std::vector<std::string>& placeholders) {
  InlineCommand command;
  nlohmann::json templates = nlohmann::json::array();
  for (std::size_t i = 0; i < words.size(); ++i) {
    const WordUse use = i == 0             ? WordUse::kProgram
                        : IsCode(words, i) ? WordUse::kCode
                                           : WordUse::kArgument;
    templates.push_back(
        WordReader(i, words[i], placeholders).Template(use, command.names));
  }
  if (command.names.empty()) {
    for (auto& word : templates) {
      word = FillTemplate(word.get<std::string>(), nullptr);
    }
    command.entrypoint = std::move(templates);
  } else {
    command.entrypoint = {{"command", std::move(templates)}};
  }
  return command;
}

}  // namespace dtrain
