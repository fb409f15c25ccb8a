// An entrypoint is the name of a model (`module:Trial`) or the command line of
// a program. A command line in one string is split at blanks, with quotes as in
// a shell, but nothing is expanded; characters that only a shell would
// interpret are refused, because they would otherwise reach the program
// unchanged.
//
// In a string, braces are placeholders. Lists took braces literally before
// there were placeholders, so there a brace is literal unless it encloses a
// known name. Stored experiments of that time have lists, too, and these must
// stay as they are: in an effective configuration, a list is always literal,
// and a command with placeholders is a map.

#include "engine/config/entrypoint.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/base/json.h"
#include "engine/base/placeholders.h"
#include "engine/base/text.h"
#include "engine/config/hyperparameters.h"
#include "engine/config/value_reader.h"
#include "searchers/hparam_space.h"

namespace dtrain {
namespace {

constexpr std::string_view kPath = "entrypoint";
constexpr std::size_t kLongest = 4096;
constexpr const char* kCommand = "command";

bool IsIdentifier(std::string_view text, std::string_view also) {
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  if (text.empty() || !letter(text[0])) return false;
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return letter(c) || (c >= '0' && c <= '9') || also.find(c) != also.npos;
  });
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

// True for NAME=VALUE, which sets a variable in a shell.
bool IsAssignment(const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  const auto is_part = [](char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
           (c >= 'A' && c <= 'Z');
  };
  return name.size() < word.size() && !name.empty() &&
         std::ranges::all_of(name, is_part) && !(name[0] <= '9');
}

std::optional<nlohmann::json> ReadCommandText(const Node& node,
                                              Findings& findings) {
  const std::string path(kPath);
  // `{bn:--bn|--no-bn}` is no pipe.
  std::string outside;
  for (std::size_t at = 0; at < node.text.size();) {
    const std::size_t bytes =
        node.text[at] == '{' ? FindPlaceholder(node.text, at).second : 0;
    if (bytes == 0) outside += node.text[at];
    at += std::max<std::size_t>(bytes, 1);
  }
  if (outside.find_first_of(";|&<>$`\\*") != outside.npos) {
    findings.Error(node.mark, path,
                   "commands are not run by a shell; write a list: [sh, -c, "
                   "'...']");
    return std::nullopt;
  }
  const auto words = Words(node.text);
  if (words && !words->empty() && IsAssignment(words->front())) {
    findings.Error(node.mark, path,
                   "commands are not run by a shell, which would set '" +
                       EscapeForTerminal(Truncate(words->front(), 60)) +
                       "'; set it under environment.environment_variables, or "
                       "write a list: [sh, -c, '...']");
    return std::nullopt;
  }
  if (!words || words->empty() || words->front().empty()) {
    findings.Error(node.mark, path,
                   words ? "is empty; name a model or a command"
                         : "unclosed quote; close it");
    return std::nullopt;
  }
  if (node.text.find_first_of("{}") == node.text.npos) return *words;
  return nlohmann::json{{kCommand, *words}};
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

// --- Placeholders ---

// Returns the names that placeholders may have: hyperparameters and their parts
// by their dotted paths, and those of dtrain. Nothing if the hyperparameters
// are invalid.
std::optional<std::vector<std::string>> KnownNames(
    const Node& root, const nlohmann::json& space) {
  std::vector<std::string> names = {"checkpoint", "directory", "seed", "trial"};
  if (const Node* searcher = root.Find("searcher")) {
    for (const auto* key : {"max_length", "max_time"}) {
      const Node* length = searcher->Find(key);
      if (length != nullptr && !length->is_null()) names.emplace_back("length");
    }
  }
  const Node* hparams = root.Find("hyperparameters");
  if (hparams == nullptr || hparams->is_null()) return names;
  Findings discarded = Findings::Discarding();
  ReadHyperparameters(*hparams, discarded);
  if (discarded.errors() > 0) return std::nullopt;
  for (HparamName& one : HparamNames(space)) {
    names.push_back(std::move(one.name));
  }
  return names;
}

// Returns the same list of words as templates. The program, and the code after
// -c, keep their braces.
nlohmann::json TemplatesOfList(
    const nlohmann::json& words,
    const std::function<bool(std::string_view)>& is_known) {
  const auto never = [](std::string_view) { return false; };
  auto templates = nlohmann::json::array();
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool literal = i == 0 || words[i - 1] == "-c";
    const auto word = words[i].get<std::string>();
    templates.push_back(literal ? TemplateOfLiteral(word, never)
                                : TemplateOfLiteral(word, is_known));
  }
  return templates;
}

bool HasPlaceholder(const std::string& word) {
  const auto parsed = ParseTemplate(word);
  const auto* parts = std::get_if<std::vector<TemplatePart>>(&parsed);
  return parts != nullptr &&
         std::ranges::any_of(*parts, &TemplatePart::is_name);
}

// Checks the placeholders in one text of the configuration.
class PlaceholderCheck {
 public:
  PlaceholderCheck(const std::vector<std::string>& names,
                   const nlohmann::json& space, Findings& findings)
      : names_(names), space_(space), findings_(findings) {}

  // Checks the template `word` of the value at `path`.
  void Check(const Node& node, const std::string& word,
             const std::string& path) const {
    const auto parsed = ParseTemplate(word);
    if (const auto* problem = std::get_if<TemplateProblem>(&parsed)) {
      return Report(node, path, problem->at, problem->what);
    }
    for (const TemplatePart& part : std::get<0>(parsed)) {
      if (!part.is_name) continue;
      if (std::ranges::find(names_, part.text) == names_.end()) {
        Report(node, path, part.at, UnknownNameText(part.text));
      } else if (part.is_flag()) {
        CheckFlag(node, path, part);
      }
    }
  }

  // Reports a flag with text around it.
  void CheckAlone(const Node& node, const std::string& word,
                  const std::string& path) const {
    const auto parsed = ParseTemplate(word);
    const auto* parts = std::get_if<std::vector<TemplatePart>>(&parsed);
    if (parts == nullptr || parts->size() < 2) return;
    const auto flag = std::ranges::find_if(*parts, &TemplatePart::is_flag);
    if (flag == parts->end()) return;
    findings_.Error(node.mark, path,
                    "'" + word + "': {" + flag->text + ":" + flag->on +
                        "} must be an argument of its own, without text "
                        "around it");
  }

 private:
  std::string UnknownNameText(const std::string& name) const {
    if (name == "length") {
      return "{length} needs searcher.max_length; add it, such as {epochs: 10}";
    }
    const std::string hint = DidYouMean(name, names_);
    return "no hyperparameter '" + name + "' for {" + name + "}" + hint +
           (hint.empty() ? "; known are " + Join(names_, ", ") : "") +
           "; write {{ and }} for braces";
  }

  void CheckFlag(const Node& node, const std::string& path,
                 const TemplatePart& part) const {
    const auto values = HparamChoices(space_, part.text);
    std::string fault;
    if (!values) {
      fault = "is not a hyperparameter";
    } else if (values->is_null()) {
      fault = "can be a range of numbers";
    } else {
      const auto other = std::ranges::find_if(*values, [](const auto& value) {
        return !value.is_boolean() && !value.is_null();
      });
      if (other == values->end()) return;
      fault = "can be " + Describe(NodeFromJson(*other));
    }
    Report(node, path, part.at,
           "{" + part.text + ":" + part.on + "} needs true or false, but '" +
               part.text + "' " + fault + "; write " + part.on + " {" +
               part.text + "} for an option with a value");
  }

  void Report(const Node& node, const std::string& path, std::size_t at,
              const std::string& what) const {
    findings_.Error(node.mark, path,
                    "character " + std::to_string(at + 1) + ": " + what);
  }

  const std::vector<std::string>& names_;
  const nlohmann::json& space_;
  Findings& findings_;
};

// Reports placeholders of parts of categories that not every category has.
// `entrypoint`: the words as templates.
void CheckParts(const std::vector<std::string>& words,
                const nlohmann::json& space, const Node& entrypoint,
                Findings& findings) {
  const auto names = HparamNames(space);
  for (const std::string& word : words) {
    FillTemplate(word, [&](const TemplatePart& placeholder) {
      const std::string& name = placeholder.text;
      const auto found = std::ranges::find(names, name, &HparamName::name);
      if (found == names.end() || found->whole.empty()) return std::string();
      const nlohmann::json& range = *FindMember(space, found->whole);
      const auto parts = HparamParts(found->whole, range);
      const auto part = std::ranges::find(parts, name, &HparamPart::name);
      if (part != parts.end() && part->lacking != nullptr) {
        findings.Error(entrypoint.mark, std::string(kPath),
                       "the category " + part->lacking->dump() + " of '" +
                           found->whole + "' has no value for {" + name +
                           "}; add '" + name.substr(found->whole.size() + 1) +
                           "' to it");
      }
      return std::string();
    });
  }
}

// Checks the templates `words` of a command.
void CheckPlaceholders(const Node& root, const nlohmann::json& words,
                       const std::vector<std::string>& names,
                       const nlohmann::json& space, Findings& findings) {
  const PlaceholderCheck check(names, space, findings);
  const Node& node = *root.Find(kPath);
  const std::string path(kPath);
  const Node* list = node.is_list() ? &node : node.Find(kCommand);
  if (list == nullptr) check.Check(node, node.text, path);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto word = words[i].get<std::string>();
    const bool has_place = list != nullptr && i < list->items.size();
    const Node& place = has_place ? list->items[i] : node;
    const std::string at =
        !has_place ? path
                   : (node.is_list() ? path : JoinPath(path, kCommand)) + '[' +
                         std::to_string(i) + ']';
    if (has_place) check.Check(place, word, at);
    check.CheckAlone(place, word, at);
  }
}

}  // namespace

void SettlePlaceholders(const Node& root, const ReadOptions& options,
                        nlohmann::json& effective, Findings& findings) {
  nlohmann::json& entrypoint = effective.at(std::string(kPath));
  if (!IsCommandEntrypoint(entrypoint)) return;
  if (entrypoint.is_array() && options.stored) return;
  const nlohmann::json space =
      effective.value("hyperparameters", nlohmann::json::object());
  const auto names = KnownNames(root, space);
  if (!names) return;
  if (entrypoint.is_array()) {
    const auto is_known = [&](std::string_view name) {
      return std::ranges::find(*names, name) != names->end();
    };
    entrypoint = {{kCommand, TemplatesOfList(entrypoint, is_known)}};
  }
  const int before = findings.errors();
  CheckPlaceholders(root, entrypoint.at(kCommand), *names, space, findings);
  if (findings.errors() > before) return;
  const auto words = entrypoint.at(kCommand).get<std::vector<std::string>>();
  if (HasPlaceholder(words.front())) {
    findings.Error(root.Find(kPath)->mark, std::string(kPath),
                   "the program is a placeholder, '" + words.front() +
                       "'; name the program, and use placeholders in its "
                       "arguments");
    return;
  }
  if (std::ranges::any_of(words, HasPlaceholder)) {
    CheckParts(words, space, *root.Find(kPath), findings);
    return;
  }
  entrypoint = nlohmann::json::array();
  for (const std::string& word : words) {
    entrypoint.push_back(FillTemplate(word, nullptr));
  }
}

nlohmann::json EntrypointForYaml(const nlohmann::json& entrypoint) {
  const auto is_text = [](const auto& word) { return word.is_string(); };
  if (!entrypoint.is_array() || !std::ranges::all_of(entrypoint, is_text)) {
    return entrypoint;
  }
  bool any = false;
  TemplatesOfList(entrypoint, [&](std::string_view) {
    any = true;
    return false;
  });
  if (!any) return entrypoint;
  const auto never = [](std::string_view) { return false; };
  return {{kCommand, TemplatesOfList(entrypoint, never)}};
}

std::optional<nlohmann::json> ReadEntrypoint(const Node& node,
                                             Findings& findings) {
  const std::string path(kPath);
  if (node.is_list()) return ReadCommandList(node, findings);
  if (node.is_map()) {
    const Node* words = node.Find(kCommand);
    if (words == nullptr || !words->is_list() || node.entries.size() != 1) {
      ReportType(
          node, path,
          "module:Trial as a string, a command, or {command: [WORD, ...]}",
          findings);
      return std::nullopt;
    }
    const auto list = ReadCommandList(*words, findings);
    if (!list) return std::nullopt;
    return nlohmann::json{{kCommand, *list}};
  }
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
  // `model_def:Trial`; the module may be in packages: `a.b:Trial`.
  const std::string_view text = node.text;
  const std::size_t colon = text.find(':');
  if (colon != text.npos && IsIdentifier(text.substr(0, colon), ".-") &&
      IsIdentifier(text.substr(colon + 1), "")) {
    return node.text;
  }
  const bool one_word = node.text.find_first_of(" \t\n") == node.text.npos;
  if (one_word && node.text.find(':') != node.text.npos) {
    findings.Error(node.mark, path,
                   "expected module:Trial or a command, got " + Describe(node) +
                       "; name a model such as digits:LeNetTrial");
    return std::nullopt;
  }
  return ReadCommandText(node, findings);
}

namespace {

// Reports a launcher of Determined, which asks its cluster for the processes to
// start.
void CheckLauncher(const nlohmann::json& entrypoint, Mark mark,
                   const ReadOptions& options, Findings& findings) {
  const nlohmann::json& words =
      entrypoint.is_object() ? entrypoint.at("command") : entrypoint;
  if (!words.is_array()) return;
  for (const nlohmann::json& word : words) {
    const auto text = word.is_string() ? word.get<std::string>() : "";
    if (!text.starts_with("determined.launch.")) continue;
    const std::string advice =
        text +
        " needs a cluster of Determined; start the processes with 'torchrun "
        "--nproc_per_node=N SCRIPT', and the script with 'import dtrain' or "
        "'from dtrain import core' (docs/python.md)";
    if (options.refuse_unknown_entrypoint) {
      findings.Error(mark, std::string(kPath), advice);
    } else {
      findings.Warning(mark, std::string(kPath), advice);
    }
    return;
  }
}

}  // namespace

void CheckEntrypoint(const nlohmann::json& entrypoint, Mark mark,
                     const ReadOptions& options, Findings& findings) {
  CheckLauncher(entrypoint, mark, options, findings);
  const std::vector<std::string>& entrypoints = options.known_entrypoints;
  if (entrypoints.empty() || !entrypoint.is_string()) return;
  const auto name = entrypoint.get<std::string>();
  const std::string module = name.substr(0, name.find(':'));
  if (std::ranges::find(entrypoints, module + ":*") != entrypoints.end())
    return;
  const std::string python =
      options.find_python ? options.find_python(module) : "";
  if (std::ranges::find(entrypoints, name) != entrypoints.end()) {
    if (python.empty()) return;
    findings.Error(mark, std::string(kPath),
                   "'" + name + "' is a model of dtrain, and " + python +
                       ", which may be meant, would not run; to run it, write "
                       "entrypoint: python3 SCRIPT (docs/python.md); to train "
                       "dtrain's model, rename that file or give another "
                       "CONTEXT");
    return;
  }
  if (!python.empty()) {
    const std::string advice =
        python +
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
  // A class of this name in another module is meant rather than a similar name.
  std::string hint = DidYouMean(name, entrypoints);
  const std::size_t colon = name.find(':');
  const auto same_class =
      std::ranges::find_if(entrypoints, [&](const std::string& one) {
        return colon != name.npos && one.ends_with(name.substr(colon));
      });
  if (same_class != entrypoints.end()) {
    hint = "; did you mean '" + *same_class + "'?";
  }
  if (options.refuse_unknown_entrypoint) {
    findings.Error(mark, std::string(kPath),
                   "unknown model '" + name + "'" + hint + "; this build has " +
                       Join(entrypoints, ", ") + " (see 'dtrain models')");
    return;
  }
  findings.Warning(mark, std::string(kPath),
                   "unknown model '" + name + "'" +
                       (hint.empty() ? "; see 'dtrain models'" : hint));
}

}  // namespace dtrain
