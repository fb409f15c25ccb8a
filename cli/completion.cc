// Completions for bash, zsh and fish. The scripts only pass the command line to
// `dtrain __complete SHELL`, which knows the options from the table of commands
// and the experiments from the store, and insert what it prints: first the kind
// of the completion (":values", ":files" or ":directories"), then one candidate
// a line, with a tab and an explanation.
//
// zsh and fish hand over the words without their quotes, and quote candidates
// themselves. Bash does neither, and it replaces only the part of a word after
// the last of certain characters, such as '=' and ':'. For bash the line is
// therefore split here, and each candidate is quoted and cut for its place.
//
// A completion prints nothing if something goes wrong.

#include <algorithm>
#include <exception>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/command_help.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/determined.h"
#include "engine/analysis/search_axes.h"
#include "engine/app/notices.h"
#include "engine/app/stores.h"
#include "engine/app/trial_fields.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/config/read_config.h"
#include "engine/config/schema.h"
#include "engine/os/files.h"
#include "engine/store/store_names.h"

namespace dtrain {
namespace {

constexpr std::string_view kBashScript =
    R"(# Completions of dtrain for bash, from `dtrain completion bash`.
_dtrain() {
  local IFS=$'\n' kind
  COMPREPLY=()
  {
    read -r kind
    mapfile -t COMPREPLY
    [[ ${#COMPREPLY[@]} -ne 1 || ${COMPREPLY[0]} != *= ]] || compopt -o nospace 2>/dev/null
  } < <(command dtrain __complete bash "${COMP_LINE:0:COMP_POINT}" "$COMP_WORDBREAKS" 2>/dev/null)
  case $kind in
    :files) compopt -o default 2>/dev/null ;;
    :directories) compopt -o dirnames 2>/dev/null ;;
  esac
}
complete -o nosort -F _dtrain dtrain 2>/dev/null || complete -F _dtrain dtrain
)";

constexpr std::string_view kZshScript =
    R"(#compdef dtrain
# Completions of dtrain for zsh, from `dtrain completion zsh`.
_dtrain() {
  local kind line
  local -a lines values shown
  lines=("${(@f)$(command dtrain __complete zsh "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
  kind=$lines[1]
  case $kind in
    :files|:directories)
      compset -P '--[a-z-]#='
      if [[ $kind == :files ]]; then _files; else _files -/; fi
      return ;;
  esac
  for line in "${(@)lines[2,-1]}"; do
    values+=("${line%%$'\t'*}")
    shown+=("${line/$'\t'/  -- }")
  done
  local -a end
  [[ $values[-1] == *= ]] && end=(-S '')
  (( $#values )) && compadd -l "${end[@]}" -V dtrain -d shown -a values
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _dtrain "$@"; else compdef _dtrain dtrain; fi
)";

constexpr std::string_view kFishScript =
    R"(# Completions of dtrain for fish, from `dtrain completion fish`.
function __dtrain_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l lines (command dtrain __complete fish $words[2..-1] "$current" 2>/dev/null)
    switch "$lines[1]"
        case :files
            __fish_complete_path "$current"
        case :directories
            __fish_complete_directories "$current" ''
        case '*'
            string join \n -- $lines[2..-1]
    end
end
complete -c dtrain -f -k -a '(__dtrain_complete)'
)";

/// The last word of a command line of bash, and the ones before it.
struct BashLine {
  std::vector<std::string> words;  // without quotes; the last may be empty
  char quote = '\0';               // that is still open in the last word
  std::size_t start = 0;  // of the part of the last word that bash replaces
};

// Splits the line as a POSIX shell does. `breaks` are COMP_WORDBREAKS.
BashLine SplitBashLine(std::string_view line, std::string_view breaks) {
  BashLine split{.words = {""}};
  bool in_word = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    std::string& word = split.words.back();
    if (split.quote == '\0' && (c == ' ' || c == '\t' || c == '\n')) {
      if (in_word) split.words.emplace_back();
      in_word = false;
      split.start = 0;
      continue;
    }
    in_word = true;
    if (split.quote != '\0' && c == split.quote) {
      split.quote = '\0';
    } else if (split.quote == '\0' && (c == '\'' || c == '"')) {
      split.quote = c;
      split.start = word.size();
    } else if (c == '\\' && split.quote != '\'' && i + 1 < line.size()) {
      const char next = line[++i];
      const bool kept = split.quote == '"' && next != '"' && next != '\\' &&
                        next != '$' && next != '`';
      if (kept) word += c;
      word += next;
    } else {
      word += c;
      if (split.quote == '\0' && breaks.find(c) != breaks.npos) {
        split.start = word.size();
      }
    }
  }
  return split;
}

bool IsPlain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || c < '\0' ||
         std::string_view("_-./:=@%+,").find(c) != std::string_view::npos;
}

// Quotes the rest of a word for bash, which stands after the open quote, if
// there is one. Nothing if that is impossible.
std::optional<std::string> QuoteForBash(std::string_view text, char quote) {
  std::string quoted;
  for (const char c : text) {
    if (quote == '\'') {
      quoted += c == '\'' ? "'\\''" : std::string(1, c);
    } else if (quote == '"') {
      if (c == '!') return std::nullopt;  // the history cannot be turned off
      if (c == '"' || c == '\\' || c == '$' || c == '`') quoted += '\\';
      quoted += c;
    } else {
      if (!IsPlain(c)) quoted += '\\';
      quoted += c;
    }
  }
  return quoted;
}

/// A word that may stand for the last one.
struct Candidate {
  std::string word;
  std::string text = {};  // explains it
};

/// Candidates for the next word of a command line.
struct Completion {
  std::string_view kind = ":values";
  std::vector<Candidate> candidates;
};

// Takes the words one by one as the command line is parsed.
class Completer {
 public:
  explicit Completer(const std::vector<std::string>& words)
      : program_(DescribeProgram(words)), command_(&program_) {}

  void Pass(const std::string& word);
  Completion Finish(const std::string& word);

 private:
  const OptionInfo* FindOption(const std::string& name) const;
  void AddOptions(const CommandInfo& command, const std::string& prefix);
  void AddCommands(const std::string& prefix);
  // Adds values of the option or argument that start with `prefix`.
  void AddValues(const OptionInfo& option, const std::string& prefix);
  void AddNames(const OptionInfo& option, const std::string& prefix);
  void AddTrials(const StoreNames& names, const std::string& prefix);
  void AddHparams(const StoreNames& names, const std::string& prefix);
  void AddKeys(const std::string& prefix);
  void Add(std::string word, std::string text, const std::string& prefix);
  void AddAll(std::vector<StoreName> names, const std::string& prefix);
  std::optional<std::int64_t> Experiment(const StoreNames& names) const;

  CommandInfo program_;
  const CommandInfo* command_;
  const OptionInfo* awaited_ = nullptr;  // whose value is the next word
  bool only_arguments_ = false;          // after "--"
  std::vector<std::string> arguments_;
  std::string store_;
  std::string lead_;  // "--metric=", which candidates begin with
  Completion completion_;
};

const OptionInfo* Completer::FindOption(const std::string& name) const {
  for (const CommandInfo* command : {command_, &program_}) {
    for (const OptionInfo& option : command->options) {
      const bool is =
          std::ranges::find(option.names, name) != option.names.end();
      if (is) return &option;
    }
  }
  return nullptr;
}

void Completer::Pass(const std::string& word) {
  if (awaited_ != nullptr) {
    if (awaited_->names.front() == "--store") store_ = word;
    awaited_ = nullptr;
  } else if (only_arguments_) {
    arguments_.push_back(word);
  } else if (word == "--") {
    only_arguments_ = true;
  } else if (word.starts_with("-") && word.size() > 1) {
    const std::size_t equals = word.find('=');
    const OptionInfo* option = FindOption(word.substr(0, equals));
    if (option == nullptr || option->value.empty()) return;
    if (equals == word.npos) {
      awaited_ = option;
    } else if (option->names.front() == "--store") {
      store_ = word.substr(equals + 1);
    }
  } else if (command_ == &program_ && word == "help" && arguments_.empty()) {
    // `dtrain help COMMAND`: the command follows.
  } else {
    for (const CommandInfo& sub : command_->subcommands) {
      if (word != sub.name && (word != sub.alias || word.empty())) continue;
      command_ = &sub;
      return;
    }
    arguments_.push_back(word);
  }
}

Completion Completer::Finish(const std::string& word) {
  if (awaited_ != nullptr) {
    AddValues(*awaited_, word);
  } else if (!only_arguments_ && word.starts_with("--") &&
             word.find('=') != word.npos) {
    const std::size_t equals = word.find('=');
    const OptionInfo* option = FindOption(word.substr(0, equals));
    if (option == nullptr) return completion_;
    lead_ = word.substr(0, equals + 1);
    AddValues(*option, word.substr(equals + 1));
  } else if (!only_arguments_ && word.starts_with("-")) {
    AddOptions(*command_, word);
    if (command_ != &program_) AddOptions(program_, word);
  } else if (!command_->subcommands.empty()) {
    AddCommands(word);
  } else if (!command_->arguments.empty()) {
    const auto& known = command_->arguments;
    const bool more = arguments_.size() < known.size();
    const OptionInfo& argument = more ? known[arguments_.size()] : known.back();
    if (more || argument.repeats) AddValues(argument, word);
  }
  return completion_;
}

void Completer::Add(std::string word, std::string text,
                    const std::string& prefix) {
  // A control character would break the protocol, or act on the terminal.
  if (!word.starts_with(prefix) || EscapeForTerminal(word) != word) return;
  completion_.candidates.push_back(
      {.word = lead_ + word, .text = EscapeForTerminal(text)});
}

void Completer::AddAll(std::vector<StoreName> names,
                       const std::string& prefix) {
  for (StoreName& name : names) {
    // The line contains this id already.
    if (std::ranges::find(arguments_, name.id) != arguments_.end()) continue;
    Add(std::move(name.id), std::move(name.about), prefix);
  }
}

void Completer::AddOptions(const CommandInfo& command,
                           const std::string& prefix) {
  for (const OptionInfo& option : command.options) {
    const std::string& name = option.names.back();
    if (prefix == "-" || !name.starts_with(prefix)) {
      for (const std::string& other : option.names) {
        if (other != name) Add(other, option.text, prefix);
      }
    }
    const bool again =
        command_ != &program_ && &command == &program_ && name == "--help";
    if (!again) Add(name, option.text, prefix);
  }
}

void Completer::AddCommands(const std::string& prefix) {
  for (const CommandInfo& sub : command_->subcommands) {
    Add(sub.name, sub.summary, prefix);
  }
}

void Completer::AddValues(const OptionInfo& option, const std::string& prefix) {
  // The last name of a list such as -hp.lr,loss.
  std::string last = prefix;
  if (option.kind == ValueKind::kField) {
    const std::size_t comma = prefix.rfind(',');
    std::size_t begin = comma == prefix.npos ? 0 : comma + 1;
    if (begin < prefix.size() && prefix[begin] == '-') ++begin;
    lead_ += prefix.substr(0, begin);
    last = prefix.substr(begin);
  }
  for (const std::string& word : option.words) Add(word, "", last);
  switch (option.kind) {
    case ValueKind::kText:
      return;
    case ValueKind::kFile:
      completion_.kind = ":files";
      return;
    case ValueKind::kDirectory:
      completion_.kind = ":directories";
      return;
    case ValueKind::kExperiment:
    case ValueKind::kTarget:
    case ValueKind::kTrial:
    case ValueKind::kCheckpoint:
    case ValueKind::kSource:
    case ValueKind::kMetric:
    case ValueKind::kField:
    case ValueKind::kLabel:
    case ValueKind::kHparam:
      AddNames(option, last);
      return;
    case ValueKind::kKey:
      AddKeys(prefix);
  }
}

void Completer::AddNames(const OptionInfo& option, const std::string& prefix) {
  const GlobalOptions globals{
      .store = store_, .quiet = true, .write_notice = IgnoreNotice};
  const auto names = StoreNames::Open(FindStore(globals));
  if (!names) return;
  const ValueKind kind = option.kind;
  const bool has_dot = prefix.find('.') != prefix.npos;
  const bool trials = kind == ValueKind::kTarget || kind == ValueKind::kTrial ||
                      kind == ValueKind::kSource;
  if (kind == ValueKind::kMetric) {
    for (auto& name : names->Metrics(Experiment(*names))) Add(name, "", prefix);
  } else if (kind == ValueKind::kField) {
    for (auto& name : names->Metrics(Experiment(*names))) {
      Add(IsTrialColumn(name) ? std::string(kMetricPrefix) + name : name, "",
          prefix);
    }
    AddHparams(*names, prefix);
  } else if (kind == ValueKind::kLabel) {
    for (auto& label : names->Labels()) Add(label, "", prefix);
  } else if (kind == ValueKind::kHparam) {
    AddHparams(*names, prefix);
  } else if (has_dot || kind == ValueKind::kTrial) {
    if (trials) AddTrials(*names, prefix);
  } else if (kind != ValueKind::kCheckpoint) {
    AddAll(names->Experiments(prefix), prefix);
    if (!prefix.empty()) Add("last", "the newest experiment", prefix);
  }
  // Every experiment before thousands of checkpoints: those need a character.
  const bool checkpoints =
      kind == ValueKind::kCheckpoint ||
      (kind == ValueKind::kSource && !prefix.empty() && !has_dot);
  if (checkpoints) AddAll(names->Checkpoints(prefix), prefix);
}

void Completer::AddTrials(const StoreNames& names, const std::string& prefix) {
  const std::size_t dot = prefix.find('.');
  const std::string number = dot == prefix.npos ? "" : prefix.substr(dot + 1);
  for (const StoreName& one : names.Experiments(prefix.substr(0, dot))) {
    if (dot != prefix.npos && one.id != prefix.substr(0, dot)) continue;
    AddAll(names.Trials(std::stoll(one.id), number), prefix);
    if (completion_.candidates.size() >= 1000) return;
  }
}

void Completer::AddHparams(const StoreNames& names, const std::string& prefix) {
  const nlohmann::json config = names.Configuration(Experiment(names));
  if (!config.is_object()) return;
  const auto axes = SearchAxes(
      config.value("hyperparameters", nlohmann::json::object()), false);
  for (const SearchAxis& axis : axes) Add("hp." + axis.name, "", prefix);
}

// Keys of the YAML, and the hyperparameters of the file or experiment that the
// arguments name.
void Completer::AddKeys(const std::string& prefix) {
  for (const KeySpec& key : Schema()) {
    const bool is_section =
        key.type == KeyType::kSection || key.type == KeyType::kOptionalSection;
    if (!is_section && !key.ignored()) {
      Add(std::string(key.path) + "=", "", prefix);
    }
  }
  nlohmann::json config;
  if (command_->name == "continue") {
    const auto names = StoreNames::Open(FindStore(
        {.store = store_, .quiet = true, .write_notice = IgnoreNotice}));
    if (names) config = names->Configuration(Experiment(*names));
  } else if (!arguments_.empty()) {
    const auto text = ReadFile(arguments_.front(), kMaxConfigBytes);
    const auto result =
        ReadConfig(text.value_or(""), {.file_name = arguments_.front()});
    if (result.config) config = result.config->effective;
  }
  if (!config.is_object()) return;
  const nlohmann::json space =
      config.value("hyperparameters", nlohmann::json::object());
  for (const auto& [name, value] : space.items()) {
    Add("hyperparameters." + name + "=", "", prefix);
  }
}

// The experiment that the arguments before the last word name.
std::optional<std::int64_t> Completer::Experiment(
    const StoreNames& names) const {
  for (const std::string& argument : arguments_) {
    try {
      return ParseTarget(argument).experiment;
    } catch (const Error&) {
      // A name, a file or the start of a UUID.
      for (const StoreName& one : names.Experiments("")) {
        const std::string name = one.about.substr(0, one.about.rfind(", "));
        const bool is_it = argument == "last" || name == argument;
        if (is_it) return std::stoll(one.id);
      }
    }
  }
  return std::nullopt;
}

Completion CompleteWords(const std::vector<std::string>& words) {
  const DeterminedLine line =
      CompleteDetermined({words.begin(), words.end() - 1});
  if (line.names && !words.back().starts_with("-")) {
    Completion completion;
    for (const auto& [name, command] : *line.names) {
      if (!name.starts_with(words.back())) continue;
      completion.candidates.push_back({.word = name, .text = command});
    }
    return completion;
  }
  Completer completer(line.words);
  for (const std::string& word : line.words) completer.Pass(word);
  return completer.Finish(words.back());
}

void PrintForBash(const std::string& line, const std::string& breaks) {
  BashLine split = SplitBashLine(line, breaks);
  split.words.erase(split.words.begin());  // the program
  if (split.words.empty()) return;
  const Completion completion = CompleteWords(split.words);
  std::cout << completion.kind << '\n';
  for (const Candidate& candidate : completion.candidates) {
    const auto rest = QuoteForBash(
        std::string_view(candidate.word).substr(split.start), split.quote);
    if (rest) std::cout << *rest << '\n';
  }
}

// The last word of fish as it is typed, with its quotes.
std::string WithoutQuotes(const std::string& word) {
  return SplitBashLine(word, "").words.back();
}

struct CompletionOptions {
  std::string shell;
};

int PrintScript(const CompletionOptions& options, const GlobalOptions&) {
  std::cout << CompletionScript(options.shell);
  return kExitDone;
}

}  // namespace

std::string_view CompletionScript(std::string_view shell) {
  return shell == "bash"  ? kBashScript
         : shell == "zsh" ? kZshScript
                          : kFishScript;
}

int Complete(const std::vector<std::string>& words) {
  if (words.size() < 2) return kExitUsage;
  try {
    if (words[0] == "bash") {
      PrintForBash(words[1], words.size() > 2 ? words[2] : "");
      return kExitDone;
    }
    std::vector<std::string> rest(words.begin() + 1, words.end());
    if (words[0] == "fish") rest.back() = WithoutQuotes(rest.back());
    const Completion completion = CompleteWords(rest);
    std::cout << completion.kind << '\n';
    for (const Candidate& candidate : completion.candidates) {
      std::cout << candidate.word
                << (candidate.text.empty() ? "" : "\t" + candidate.text)
                << '\n';
    }
  } catch (const Error&) {
    // No store can be found, for example.
  }
  return kExitDone;
}

CommandRun SetUpCompletion(CLI::App& app) {
  auto options = std::make_shared<CompletionOptions>();
  AddOption(app, "SHELL", options->shell, "bash, zsh or fish")
      .Required()
      .OneOf({"bash", "zsh", "fish"});
  SetHelp(app,
          {.notes = "Completes commands, options and their values, and from "
                    "the store experiments, trials, checkpoints, metrics and "
                    "labels. 'dtrain' must be in the PATH.",
           .exits = {{kExitDone}, {kExitUsage, "invalid usage"}},
           .examples = {
               {"Complete in this bash", "source <(dtrain completion bash)"},
               {"Complete in every fish",
                "dtrain completion fish > "
                "~/.config/fish/completions/dtrain.fish"}}});
  return RunWith(PrintScript, options);
}

}  // namespace dtrain
