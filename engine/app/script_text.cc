// Finds out from its text whether a program uses dtrain. Python modules are
// followed through `import`, shell scripts through the names of scripts in
// their text. It is an approximation that errs on the side of use: a mention of
// a variable counts as its use.

#include "engine/app/script_text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <deque>
#include <optional>
#include <string_view>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/convert/inline_command.h"
#include "engine/os/files.h"
#include "engine/os/process.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxFiles = 500;
constexpr std::size_t kMaxScriptBytes = std::size_t{16} << 20;

bool IsNamePart(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

bool HasAny(std::string_view text,
            std::initializer_list<std::string_view> words) {
  return std::ranges::any_of(words, [&](std::string_view word) {
    return text.find(word) != text.npos;
  });
}

// Returns the names of the modules that a line of Python imports, with leading
// dots; for `from a import b` also a.b.
std::vector<std::string> ImportsIn(std::string_view line) {
  const auto is_module = [](char c) { return IsNamePart(c) || c == '.'; };
  std::vector<std::string> words;
  for (const char c : line) {
    if (c == '#') break;
    const bool joins = is_module(c) && !words.empty();
    if (joins) {
      words.back() += c;
    } else if (words.empty() || !words.back().empty()) {
      words.emplace_back(is_module(c) ? std::string(1, c) : "");
    }
  }
  std::erase(words, "");
  const auto first = std::ranges::find_if(words, [](const std::string& word) {
    return word == "import" || word == "from";
  });
  if (first == words.end() || first + 1 == words.end()) return {};
  std::vector<std::string> modules(first + 1, words.end());
  if (*first == "import") return modules;
  const std::string base = modules.front();
  const auto names = std::ranges::find(modules, "import");
  std::vector<std::string> all = {base};
  for (auto name = names; name != modules.end(); ++name) {
    if (name == names) continue;
    all.push_back(base + (base.ends_with('.') ? "" : ".") + *name);
  }
  return all;
}

// True if the line has an import statement and no other code, as far as its
// beginning shows: `try: import dtrain` has one.
bool IsImport(std::string_view line) {
  const std::string_view code = Trim(line);
  return code.starts_with("import ") || code.starts_with("from ") ||
         HasAny(code, {": import ", "; import ", ": from ", "; from "});
}

// Returns what is between the bracket at `open` and its counterpart, outside
// quotes; empty if there is none.
std::string_view InBrackets(std::string_view text, std::size_t open) {
  int depth = 0;
  char quote = 0;
  for (std::size_t i = open; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0) {
      if (c == '\\') ++i;
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '(') {
      ++depth;
    } else if (c == ')' && --depth == 0) {
      return text.substr(open + 1, i - open - 1);
    }
  }
  return {};
}

// One option that a Python script defines.
struct DefinedOption {
  std::vector<std::string> names;  // -a, --amp
  bool takes_value = true;
  std::string off;  // --no-amp
};

// Reads the arguments of `add_argument(…)` or `click.option(…)`.
DefinedOption ReadDefinedOption(std::string_view arguments) {
  DefinedOption option;
  const std::size_t named = arguments.find('=');
  std::string_view names = arguments.substr(0, named);
  for (std::size_t at = names.find_first_of("\"'"); at != names.npos;
       at = names.find_first_of("\"'", at + 1)) {
    const std::size_t end = names.find(names[at], at + 1);
    if (end == names.npos) break;
    std::string name(names.substr(at + 1, end - at - 1));
    at = end;
    if (!name.starts_with('-')) continue;
    if (const std::size_t slash = name.find('/'); slash != name.npos) {
      option.off = Trim(name.substr(slash + 1));
      name = Trim(name.substr(0, slash));
      option.takes_value = false;
    }
    option.names.push_back(std::move(name));
  }
  std::string rest(arguments);
  std::erase_if(rest, [](unsigned char c) { return std::isspace(c) != 0; });
  std::ranges::replace(rest, '\'', '"');
  if (HasAny(rest, {"action=\"store_true\"", "action=\"store_false\"",
                    "action=\"store_const\"", "action=\"append_const\"",
                    "action=\"count\"", "is_flag=True"})) {
    option.takes_value = false;
  }
  if (HasAny(rest, {"BooleanOptionalAction"})) {
    option.takes_value = false;
    for (const std::string& name : option.names) {
      if (name.starts_with("--")) option.off = "--no-" + name.substr(2);
    }
  }
  return option;
}

class ScriptReader {
 public:
  ScriptReader(const std::vector<std::string>& command, fs::path context)
      : context_(std::move(context)) {
    AddWords(command, context_);
    for (std::size_t i = 0; i < command.size(); ++i) {
      Scan(command[i]);
      if (!IsCode(command, i)) continue;
      FollowImports(command[i], context_);
      FollowWords(command[i], context_);
    }
    // A program without a script is the file that is executed.
    if (files_.empty()) AddProgram(command.front());
    result_.name = script_.empty() ? command.front() : script_;
  }

  ScriptText Read() {
    bool all_python = !files_.empty();
    // Grows while it is read.
    for (std::size_t i = 0; i < files_.size() && i < kMaxFiles; ++i) {
      const fs::path file = files_[i];
      const auto text = ReadFile(file, kMaxScriptBytes);
      if (!text) continue;
      Scan(*text);
      const bool python = IsPython(file, *text);
      all_python = all_python && python;
      if (python) {
        FindOptions(*text);
        FindStrings(*text);
        FollowImports(*text, file.parent_path());
      } else if (text->find('\0') == text->npos) {
        FollowWords(*text, file.parent_path());
      }
    }
    result_.is_python = all_python && files_.size() <= kMaxFiles;
    for (const std::string& option : with_value_) result_.flags.erase(option);
    if (result_.imports_dtrain) FindModuleThatHides();
    return std::move(result_);
  }

 private:
  static fs::path RealPath(const fs::path& path) {
    std::error_code ignored;
    return fs::weakly_canonical(path, ignored);
  }

  static bool IsPython(const fs::path& file, std::string_view text) {
    const std::string_view line = text.substr(0, text.find('\n'));
    return file.extension() == ".py" ||
           (line.starts_with("#!") && line.find("python") != line.npos);
  }

  // Adds a file once. True if it exists.
  bool Add(const fs::path& file) {
    std::error_code error;
    if (!fs::is_regular_file(file, error)) return false;
    const fs::path path = fs::weakly_canonical(file, error);
    if (seen_.insert(path.string()).second) files_.push_back(path);
    return true;
  }

  static bool IsScript(const fs::path& file) {
    constexpr std::array<std::string_view, 9> kExtensions = {
        ".py", ".sh", ".bash", ".pl", ".R", ".jl", ".rb", ".lua", ".js"};
    return std::ranges::find(kExtensions, file.extension().string()) !=
           kExtensions.end();
  }

  // Adds the scripts, modules and programs that the words name.
  void AddWords(const std::vector<std::string>& words, const fs::path& from) {
    for (std::size_t i = 0; i < words.size(); ++i) {
      const std::string& word = words[i];
      if (word.empty() || word.size() > 4096) continue;
      bool added = false;
      if (i > 0 && words[i - 1] == "-m") {
        added = AddModule(word, from);
        // Python looks for modules in the working directory first.
        if (added) search_paths_.insert(RealPath(context_));
      } else if (IsScript(word) || word.find('/') != word.npos) {
        added = (IsScript(word) || i == 0) &&
                (Add(from / word) || Add(context_ / word));
        if (added && word.ends_with(".py")) {
          std::error_code ignored;
          const bool is_beside = fs::exists(from / word, ignored);
          search_paths_.insert(RealPath(
              (is_beside ? from / word : context_ / word).parent_path()));
        }
      }
      if (added && script_.empty()) script_ = word;
    }
  }

  void AddProgram(const std::string& word) {
    try {
      Add(FindProgram(word, context_, ProcessVariable("PATH").value_or("")));
    } catch (const Error&) {
      // The check of the entrypoint reports it.
    }
  }

  // Adds the module, which may be a package, if it is in the context or beside
  // the file that imports it.
  bool AddModule(std::string name, const fs::path& beside) {
    fs::path from = beside;
    const std::size_t dots = name.find_first_not_of('.');
    if (dots == name.npos) return false;
    for (std::size_t i = 1; i < dots; ++i) from = from.parent_path();
    name.erase(0, dots);
    std::ranges::replace(name, '.', '/');
    bool added = false;
    for (const fs::path& root : {from, context_, context_ / "src"}) {
      const fs::path path = root / name;
      added |= Add(path.string() + ".py");
      added |= Add(path / "__init__.py");
      added |= Add(path / "__main__.py");
      // The packages around it are imported too.
      for (std::size_t at = name.find('/'); at != name.npos;
           at = name.find('/', at + 1)) {
        Add(root / name.substr(0, at) / "__init__.py");
      }
    }
    return added;
  }

  void FollowImports(const std::string& text, const fs::path& directory) {
    for (const std::string& line : Split(text, '\n')) {
      if (line.size() > 1000 || !IsImport(line)) continue;
      for (const std::string& module : ImportsIn(line)) {
        if (module == "dtrain" || module.starts_with("dtrain.")) {
          result_.imports_dtrain = true;
        } else {
          AddModule(module, directory);
        }
      }
    }
    result_.imports_dtrain |=
        HasAny(text, {"import_module(\"dtrain", "import_module('dtrain",
                      "__import__(\"dtrain", "__import__('dtrain"});
  }

  void FindOptions(std::string_view text) {
    for (const std::string_view word : {"add_argument(", ".option("}) {
      for (std::size_t at = text.find(word); at != text.npos;
           at = text.find(word, at + 1)) {
        const std::size_t line = text.rfind('\n', at) + 1;  // 0: the first
        if (text.substr(line, at - line).find('#') != text.npos) continue;
        const DefinedOption option =
            ReadDefinedOption(InBrackets(text, at + word.size() - 1));
        for (const std::string& name : option.names) {
          if (option.takes_value) {
            with_value_.insert(name);
          } else {
            result_.flags.emplace(name, option.off);
          }
        }
      }
    }
  }

  void AddString(std::string_view text) {
    constexpr std::size_t kMaxStrings = 10'000;
    constexpr std::size_t kLongest = 256;
    if (!text.empty() && text.size() <= kLongest &&
        result_.strings.size() < kMaxStrings) {
      result_.strings.emplace(text);
    }
  }

  // Quotes of one line only: a quotation mark in a comment must not turn what
  // follows it inside out.
  void FindStrings(std::string_view text) {
    for (std::size_t at = text.find_first_of("\"'"); at != text.npos;
         at = text.find_first_of("\"'", at + 1)) {
      const std::size_t end = text.find_first_of("\n", at);
      const std::size_t close = text.find(text[at], at + 1);
      if (close > end) {
        if (end == text.npos) return;
        at = end;
        continue;
      }
      AddString(text.substr(at + 1, close - at - 1));
      at = close;
    }
  }

  void FindModuleThatHides() {
    std::error_code ignored;
    for (const fs::path& directory : search_paths_) {
      const fs::path package = directory / "dtrain";
      // A copy of dtrain's own module hides nothing.
      if (fs::exists(package / "_trial.py", ignored)) continue;
      for (const fs::path& file :
           {directory / "dtrain.py", package / "__init__.py"}) {
        if (!fs::exists(file, ignored)) continue;
        result_.hides_dtrain =
            file.lexically_relative(fs::weakly_canonical(context_, ignored));
        return;
      }
    }
  }

  void FollowWords(const std::string& text, const fs::path& directory) {
    std::vector<std::string> words;
    constexpr std::string_view kBetween = " \t\r\n\"'`;|&()=<>";
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = text.find_first_of(kBetween, at);
      if (end > at) words.push_back(text.substr(at, end - at));
      if (end == text.npos) break;
      at = end + 1;
    }
    for (const std::string& word : words) AddString(word);
    // AddWords takes the first word for the program; this text has none.
    words.insert(words.begin(), "");
    AddWords(words, directory);
  }

  // Looks for the variables of docs/protocol.md.
  void Scan(std::string_view text) {
    constexpr std::string_view kPrefix = "DTRAIN_HPARAM_";
    for (std::size_t at = text.find(kPrefix); at != text.npos;
         at = text.find(kPrefix, at)) {
      at += kPrefix.size();
      std::size_t end = at;
      while (end < text.size() && IsNamePart(text[end])) ++end;
      if (end == at) result_.reads_all = true;
      if (end > at) result_.variables.emplace(text.substr(at, end - at));
    }
    const bool file = HasAny(text, {"DTRAIN_TRIAL"});
    result_.reads_all |= file;
    result_.reads_length |=
        file || HasAny(text, {"DTRAIN_UNTIL", "DTRAIN_CHECKPOINT"});
    result_.reports |= HasAny(
        text, {"DTRAIN_REPORT_FD", "DTRAIN_SOCKET", ">&3", ">& 3", "&=3",
               "open(3", "write(3", "/fd/3", "import dtrain", "from dtrain"});
  }

  fs::path context_;
  std::string script_;  // the first one, as in the command
  std::deque<fs::path> files_;
  std::set<std::string> seen_;
  std::set<fs::path> search_paths_;   // of the modules that scripts import
  std::set<std::string> with_value_;  // options that take one, somewhere
  ScriptText result_;
};

}  // namespace

bool ScriptText::MayRead(const std::string& name) const {
  if (imports_dtrain || reads_all) return true;
  std::string variable = name;
  for (char& c : variable) {
    if (!IsNamePart(c)) c = '_';
  }
  return variables.contains(variable);
}

ScriptText ReadScriptText(const std::vector<std::string>& command,
                          const fs::path& context) {
  return ScriptReader(command, fs::absolute(context)).Read();
}

}  // namespace dtrain
