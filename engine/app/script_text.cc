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
#include "engine/config/inline_command.h"
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
        FollowImports(*text, file.parent_path());
      } else if (text->find('\0') == text->npos) {
        FollowWords(*text, file.parent_path());
      }
    }
    result_.is_python = all_python && files_.size() <= kMaxFiles;
    return std::move(result_);
  }

 private:
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
      } else if (IsScript(word) || word.find('/') != word.npos) {
        added = (IsScript(word) || i == 0) &&
                (Add(from / word) || Add(context_ / word));
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

  void FollowWords(const std::string& text, const fs::path& directory) {
    std::vector<std::string> words;
    constexpr std::string_view kBetween = " \t\r\n\"'`;|&()=<>";
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = text.find_first_of(kBetween, at);
      if (end > at) words.push_back(text.substr(at, end - at));
      if (end == text.npos) break;
      at = end + 1;
    }
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
