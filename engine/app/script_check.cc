// A check that is wrong about a valid command would be worse than none, so each
// form that is not understood is accepted: options with unknown arguments,
// launchers, placeholders in the name of the script, an interpreter that does
// not answer.
//
// A Python script is compiled by the interpreter that will run it, because
// syntax depends on the version; nothing of it is executed. Before that come
// the cheap checks: the program and the script exist, lines end as Unix has it,
// no file hides the module dtrain, no flag gets a value. PythonQuery starts an
// interpreter, too, and reads its answer later, so that it works during the
// other checks.

#include "engine/app/script_check.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <csignal>
#include <functional>
#include <set>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "engine/app/script_text.h"
#include "engine/app/trial_files.h"
#include "engine/base/clock.h"
#include "engine/base/error.h"
#include "engine/base/placeholders.h"
#include "engine/base/text.h"
#include "engine/config/experiment_config.h"
#include "engine/context/context_links.h"
#include "engine/context/context_list.h"
#include "engine/os/files.h"
#include "engine/os/process.h"
#include "engine/os/spawn.h"
#include "searchers/hparam_space.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

using Words = std::vector<std::string>;

// Returns the value of a variable that trials get, or an empty text.
std::string VariableOfTrials(const char* name, const ExperimentConfig& config) {
  const auto reader = VariablesWith(config.environment.For(/*on_gpus=*/false));
  return reader(name).value_or("");
}

std::string PathOfTrials(const ExperimentConfig& config) {
  return VariableOfTrials("PATH", config);
}

// True for NAME=value.
bool IsAssignment(std::string_view word) {
  const std::size_t equals = word.find('=');
  return equals != word.npos && equals > 0 &&
         std::ranges::all_of(word.substr(0, equals), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '_';
         });
}

// Removes `env NAME=value...` from the words, unless it changes where programs
// are found or has options.
Words WithoutEnv(const Words& words) {
  if (words.empty() || fs::path(words.front()).filename() != "env") {
    return words;
  }
  const auto command = std::find_if_not(
      words.begin() + 1, words.end(), [](const std::string& word) {
        return IsAssignment(word) && !word.starts_with("PATH=");
      });
  if (command == words.end() || command->starts_with('-') ||
      IsAssignment(*command)) {
    return words;
  }
  return {command, words.end()};
}

// Returns the name of a program without its version: python for python3.12.
std::string PlainName(const std::string& program) {
  std::string name = fs::path(program).filename();
  while (!name.empty() &&
         (std::isdigit(name.back()) != 0 || name.back() == '.')) {
    name.pop_back();
  }
  return name;
}

// Returns the number of words that an option of an interpreter takes, itself
// included; 0 if it is unknown, and what follows may be its argument.
std::size_t OptionLength(const std::string& interpreter,
                         const std::string& option) {
  static constexpr std::array<std::string_view, 6> kOfShells = {
      "-e", "-x", "-u", "-ex", "-eu", "-eux"};
  static constexpr std::array<std::string_view, 8> kOfPython = {
      "-u", "-O", "-OO", "-B", "-E", "-I", "-s", "-S"};
  const auto has = [&](const auto& options) {
    return std::ranges::find(options, option) != options.end();
  };
  if (interpreter.ends_with("sh")) return has(kOfShells) ? 1 : 0;
  if (interpreter != "python") return 0;
  if (option == "-W" || option == "-X") return 2;
  return has(kOfPython) || option.starts_with("-W") || option.starts_with("-X")
             ? 1
             : 0;
}

// Returns the script that an interpreter executes, as in the command; empty if
// there is none or it cannot be determined.
std::string FindScript(const Words& words) {
  static constexpr std::array<std::string_view, 12> kInterpreters = {
      "bash", "dash",   "julia",   "ksh",  "lua", "node",
      "perl", "python", "Rscript", "ruby", "sh",  "zsh"};
  if (words.empty()) return "";
  const std::string interpreter = PlainName(words.front());
  if (std::ranges::find(kInterpreters, interpreter) == kInterpreters.end()) {
    return "";
  }
  for (std::size_t i = 1; i < words.size();) {
    if (!words[i].starts_with('-')) return words[i];
    const std::size_t length = OptionLength(interpreter, words[i]);
    if (length == 0) return "";
    i += length;
  }
  return "";
}

// True if the word is a path within the context.
bool IsInContext(const std::string& word) {
  return !word.starts_with('/') && word.find('/') != std::string::npos;
}

std::optional<std::string> ProgramProblem(const std::string& program,
                                          const fs::path& context,
                                          const std::string& path) {
  try {
    FindProgramOfTrial(program, context, path);
    return std::nullopt;
  } catch (const Error& error) {
    return error.what();
  }
}

// Returns the names of the files beside `file`, written as `word` is.
Words ListNeighbours(const std::string& word, const fs::path& file) {
  Words names;
  std::error_code error;
  for (fs::directory_iterator entry(file.parent_path(), error), end;
       !error && entry != end; entry.increment(error)) {
    names.push_back(
        (fs::path(word).parent_path() / entry->path().filename()).string());
  }
  return names;
}

// Checks that a script exists. One outside of the context may exist on another
// machine only.
std::optional<std::string> MissingScript(const std::string& script,
                                         const fs::path& context,
                                         bool outside) {
  std::error_code ignored;
  const fs::path file = context / script;
  if (script.empty() || script.starts_with('/') != outside ||
      fs::exists(file, ignored)) {
    return std::nullopt;
  }
  return "no script '" + script + "'" +
         (outside ? "" : " in " + context.string()) +
         DidYouMean(script, ListNeighbours(script, file)) +
         "; correct its name, or give its directory as CONTEXT";
}

// The first line of a script that the kernel executes: #!PROGRAM [ARGUMENT].
struct InterpreterLine {
  std::string text;
  Words words;  // of the command, without env
};

std::optional<InterpreterLine> ReadInterpreterLine(const fs::path& file) {
  constexpr std::size_t kMaxBytes = 256;
  const std::string text = ReadFile(file, kMaxBytes).value_or("");
  if (!text.starts_with("#!")) return std::nullopt;
  InterpreterLine line{.text = text.substr(0, text.find('\n')), .words = {}};
  std::string command = line.text.substr(2);
  std::ranges::replace(command, '\t', ' ');
  for (std::string& word : Split(command, ' ')) {
    if (!word.empty() && word != "-S") line.words.push_back(std::move(word));
  }
  line.words = WithoutEnv(line.words);
  return line;
}

// Returns the first line of a program in the context, if it has one.
std::optional<InterpreterLine> FindInterpreterLine(const Words& words,
                                                   const fs::path& context) {
  if (words.empty() || !IsInContext(words.front())) return std::nullopt;
  return ReadInterpreterLine(context / words.front());
}

std::optional<std::string> LineEndProblem(const Words& words,
                                          const fs::path& context) {
  const auto line = FindInterpreterLine(words, context);
  if (!line || !line->text.ends_with('\r')) return std::nullopt;
  return words.front() +
         ":1: the line ends with a carriage return, which becomes part of the "
         "interpreter's name; convert the file to Unix line ends: dos2unix " +
         words.front();
}

// A Python script and the interpreter that will run it.
struct PythonScript {
  std::string name;    // as in the command
  fs::path directory;  // the working directory, absolute
  fs::path file;
  fs::path interpreter;
};

// Returns the Python script of a command, if it has one that can be compiled: a
// file of text, not a directory or an archive.
std::optional<PythonScript> FindPythonScript(const Words& words,
                                             const fs::path& context,
                                             const std::string& path) {
  std::string interpreter = words.empty() ? "" : words.front();
  std::string script = FindScript(words);
  if (const auto line = FindInterpreterLine(words, context);
      script.empty() && line && !line->words.empty()) {
    interpreter = line->words.front();
    script = words.front();
  }
  if (PlainName(interpreter) != "python" || script.empty()) {
    return std::nullopt;
  }
  const fs::path directory = fs::absolute(context);
  const fs::path file = directory / script;
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) return std::nullopt;
  const std::optional<std::string> text = ReadFile(file);
  if (!text || text->find('\0') != text->npos) return std::nullopt;
  try {
    return PythonScript{script, directory, file,
                        FindProgramOfTrial(interpreter, directory, path)};
  } catch (const Error&) {
    return std::nullopt;  // reported elsewhere
  }
}

// Runs under every Python, 2 too, and imports nothing that PYTHONPATH or a file
// beside the script could replace. Imports count where they are neither
// conditional nor in a `try` statement. Whether `determined` can be imported is
// looked up in the paths of a trial. A name of Determined that dtrain does not
// have, also in dtrain's place, is named as Determined's.
constexpr char kCompile[] = R"(import sys
out = getattr(sys.stdout, "buffer", sys.stdout)
def say(*words):
    out.write(("\t".join(str(w) for w in words) + "\n").encode("utf-8"))
def kind(node):
    return type(node).__name__
def dotted(node, aliases):
    if kind(node) == "Name":
        return aliases.get(node.id, "")
    if kind(node) != "Attribute":
        return ""
    owner = dotted(node.value, aliases)
    return owner and owner + "." + node.attr
def below(node):
    found = []
    for field in node._fields:
        value = getattr(node, field, None)
        for one in value if isinstance(value, list) else [value]:
            if hasattr(one, "_fields"):
                found.append(one)
    return found
def lacks(name):
    first, second, third = (name.split(".") + ["", ""])[:3]
    if first == "determined":
        return second not in ("", "*", "core", "get_cluster_info", "LOG_FORMAT")
    return first == "dtrain" and (second in ("pytorch", "experimental") or second == "keras" and third in
        ("init", "callbacks", "DeterminedCallback", "TFKerasTrial", "TFKerasContext", "TFKerasTrialContext"))
say("version", *sys.version_info[:3])
with open(sys.argv[-1], "rb") as file:
    text = file.read()
try:
    tree = compile(text, sys.argv[-1], "exec", 1024, True)
    compile(text, sys.argv[-1], "exec", 0, True)
    aliases, imports, lacking = {}, [], []
    for node in tree.body:
        if kind(node) == "Import":
            for name in node.names:
                imports.append((node.lineno, name.name))
                root = name.name.split(".")[0]
                aliases[name.asname or root] = name.name if name.asname else root
        elif kind(node) == "ImportFrom" and not getattr(node, "level", 0):
            for name in node.names:
                imports.append((node.lineno, node.module + "." + name.name))
                aliases[name.asname or name.name] = imports[-1][1]
    if "dtrain" in [name.split(".")[0] for line, name in imports]:
        say("imports")
    lacking = [(line, name, "imports") for line, name in imports if lacks(name)]
    nodes = [] if lacking else [tree]
    for node in nodes:
        nodes.extend(below(node))
        if lacks(dotted(node, aliases)):
            lacking = [(node.lineno, dotted(node, aliases), "uses")]
            break
    for line, name, how in lacking[:1]:
        first, second = name.split(".")[:2]
        say("lacks", line, "determined." + second, first if how == "imports" else "")
    for line, name in imports:
        if name.split(".")[0] == "determined":
            sys.path = [path for path in sys.path if path]
            import importlib.util, os, site
            site.main()
            sys.path[:0] = [os.path.dirname(sys.argv[-1])] + sys.argv[1].split(os.pathsep)
            found = importlib.util.find_spec("determined") is not None
            say("determined", line, "found" if found else "")
            break
except SyntaxError as error:
    say("error", error.lineno or 0, error.offset or 0, error.msg)
)";

// Result of kCompile.
struct Compiled {
  std::string version;  // empty: the interpreter did not answer
  bool is_old = false;  // below 3.8, which the module dtrain needs
  bool imports_dtrain = false;
  std::string error;       // [LINE:[COLUMN:] ]MESSAGE
  std::string determined;  // LINE: of its import, or empty
  bool finds_determined = false;
  std::string lacks;   // LINE: of a name that dtrain has no counterpart of
  std::string lacked;  // that name, such as determined.pytorch
  bool cannot_start = false;  // it is imported from dtrain
};

int PartOfVersion(const std::string& text) {
  int number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

Compiled ParseCompiled(const std::string& text) {
  Compiled result;
  for (const std::string& line : Split(text, '\n')) {
    const Words fields = Split(line, '\t');
    if (fields.front() == "version" && fields.size() == 4) {
      result.version = fields[1] + "." + fields[2] + "." + fields[3];
      result.is_old = std::pair(PartOfVersion(fields[1]),
                                PartOfVersion(fields[2])) < std::pair(3, 8);
    } else if (fields.front() == "imports") {
      result.imports_dtrain = true;
    } else if (fields.front() == "determined" && fields.size() == 3) {
      result.determined = std::to_string(PartOfVersion(fields[1])) + ": ";
      result.finds_determined = !fields[2].empty();
    } else if (fields.front() == "lacks" && fields.size() == 4) {
      result.lacks = std::to_string(PartOfVersion(fields[1])) + ": ";
      result.lacked = EscapeForTerminal(ToValidUtf8(fields[2]));
      result.cannot_start = fields[3] == "dtrain";
    } else if (fields.front() == "error" && fields.size() >= 4) {
      if (PartOfVersion(fields[1]) > 0) result.error = fields[1] + ":";
      if (PartOfVersion(fields[2]) > 0) result.error += fields[2] + ":";
      if (!result.error.empty()) result.error += " ";
      result.error += Truncate(EscapeForTerminal(ToValidUtf8(fields[3])), 200);
    }
  }
  return result;
}

constexpr Duration kPythonLimit = std::chrono::seconds(10);

// Starts an interpreter with these arguments in the environment of trials,
// changed by `variables`; in the directory of the script, which may select the
// version. Its answer can be read from `answer`. Returns -1 on failure.
pid_t StartPython(const fs::path& interpreter, const fs::path& directory,
                  Words arguments, EnvironmentVariables variables,
                  const ExperimentConfig& config, UniqueFd& answer) {
  for (auto& variable : config.environment.For(/*on_gpus=*/false)) {
    variables.push_back(std::move(variable));
  }
  arguments.insert(arguments.begin(), interpreter.string());
  Pipe pipe = MakePipe();
  answer = std::move(pipe.reading);
  return Spawn()
      .NewSession()
      .ResetSignals()
      .ChangeDirectory(directory)
      .Open(STDIN_FILENO, "/dev/null", O_RDONLY)
      .Duplicate(pipe.writing.get(), STDOUT_FILENO)
      .Open(STDERR_FILENO, "/dev/null", O_WRONLY)
      .CloseFrom(STDERR_FILENO + 1)
      .Environment(EnvironmentWith(variables))
      .Run(interpreter, std::move(arguments));
}

// Compiles a script with its interpreter. No module is imported that a file
// beside it could replace.
Compiled Compile(const PythonScript& script, const ExperimentConfig& config) {
  constexpr std::size_t kMaxAnswer = 4096;
  UniqueFd answer;
  const pid_t pid = StartPython(
      script.interpreter, script.directory,
      {"-S", "-W", "ignore", "-c", kCompile,
       VariableOfTrials("PYTHONPATH", config), script.file.string()},
      {{"PYTHONPATH", ""}}, config, answer);
  if (pid < 0) return {};
  const auto text = ReadUntil(
      answer.get(), Clock::System().monotonic() + kPythonLimit, kMaxAnswer);
  ::kill(-pid, SIGKILL);
  AwaitExit(pid);
  return text ? ParseCompiled(*text) : Compiled();
}

// Lists what is installed where trials look for modules: the names of the
// directories NAME-VERSION.dist-info have it, so that nothing is imported, and
// hundreds of packages take a millisecond. The first one of a name counts, as
// in an import. CUDA is the version that torch was built for.
constexpr char kRecordPython[] = R"(import sys, os
out = getattr(sys.stdout, "buffer", sys.stdout)
def say(*words):
    out.write(("\t".join(str(w) for w in words) + "\n").encode("utf-8", "replace"))
def read(*names):
    try:
        with open(os.path.join(*names), "rb") as file:
            return file.read(65536).decode("utf-8", "replace")
    except (OSError, IOError):
        return ""
def value(text, begin):
    for line in text.splitlines():
        if line.startswith(begin):
            return line[len(begin):].strip()
    return ""
name = getattr(getattr(sys, "implementation", None), "name", "cpython")
say("python", ".".join(str(n) for n in sys.version_info[:3]), name, sys.executable)
known = set()
torch = False
for path in sys.path:
    if not path or not os.path.isdir(path):
        continue
    for entry in sorted(os.listdir(path)):
        stem, end = os.path.splitext(entry)
        if end not in (".dist-info", ".egg-info"):
            continue
        parts = stem.split("-")
        version = parts[1] if len(parts) > 1 else value(
            read(path, entry, "METADATA") or read(path, entry, "PKG-INFO") or read(path, entry), "Version:")
        key = parts[0].lower().replace("_", "-").replace(".", "-")
        if key and key not in known:
            known.add(key)
            say("package", key, version)
    file = "" if torch else read(path, "torch", "version.py")
    if file:
        torch = True
        for begin in ("cuda: Optional[str] = ", "cuda = "):
            if value(file, begin):
                say("cuda", value(file, begin).strip("'\""))
                break
say("end")
)";

// Returns the commands in the text of a shell, without their assignments; none
// if the text may change where Python is found, or cannot be read here.
std::vector<Words> ReadShellCommands(const std::string& text) {
  static constexpr std::array<std::string_view, 20> kSelectPython = {
      ".",           "alias",  "apptainer",  "conda",  "docker",
      "eval",        "mamba",  "micromamba", "ml",     "module",
      "pipenv",      "pixi",   "podman",     "poetry", "pyenv",
      "singularity", "source", "ssh",        "unset",  "uv"};
  static constexpr std::array<std::string_view, 4> kVariables = {
      "PATH=", "PYTHONHOME=", "PYTHONPATH=", "VIRTUAL_ENV="};
  static constexpr std::array<std::string_view, 13> kBeforeCommand = {
      "!",     "command", "do",   "elif",  "else",  "exec", "if",
      "nohup", "then",    "time", "until", "while", "{"};
  const auto has = [](const auto& list, std::string_view word) {
    return std::ranges::find(list, word) != list.end();
  };
  const auto sets_path = [&](const std::string& word) {
    return has(kVariables, word.substr(0, word.find('=') + 1));
  };
  std::vector<Words> commands(1);
  std::string word;
  bool is_word = false;  // an empty one in quotes, too
  char quote = 0;
  const auto end_word = [&] {
    const bool is_prefix =
        commands.back().empty() &&
        (has(kBeforeCommand, word) || (IsAssignment(word) && !sets_path(word)));
    if (is_word && !is_prefix) commands.back().push_back(word);
    word.clear();
    is_word = false;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0 ? c == quote : c == '\'' || c == '"') {
      quote = quote == 0 ? c : 0;
      is_word = true;
    } else if (quote != 0) {
      word += c;
    } else if (c == '\\' && text.substr(i + 1, 1) == "\n") {
      ++i;
    } else if (c == '#' && !is_word) {
      i = std::min(text.find('\n', i), text.size()) - 1;
    } else if (c == ' ' || c == '\t') {
      end_word();
    } else if (std::string_view("\n;&|()`").find(c) != std::string_view::npos) {
      end_word();
      commands.emplace_back();
    } else {
      word += c;
      is_word = true;
    }
  }
  end_word();
  std::erase_if(commands, [](const Words& words) { return words.empty(); });
  const auto is_program = [&](std::string_view name) {
    return std::ranges::find(commands, name, [](const Words& words) {
             return words.front();
           }) != commands.end();
  };
  const bool moves = is_program("cd") || is_program("pushd");
  const bool is_known = std::ranges::all_of(commands, [&](const Words& words) {
    const std::string& program = words.front();
    return !has(kSelectPython, program) &&
           program.find_first_of("$=\\") == std::string::npos &&
           !(moves && IsInContext(program)) &&
           std::ranges::none_of(words, [&](const std::string& one) {
             return one.starts_with("<<") || sets_path(one);
           });
  });
  return is_known && quote == 0 ? commands : std::vector<Words>();
}

// Returns the interpreter of the words, if they start one themselves, by the
// first line of their program, or as the only Python of a shell's text.
std::optional<fs::path> FindPython(Words words, const fs::path& context,
                                   const std::string& path, int depth = 0) {
  constexpr int kMaxDepth = 4;  // of shell scripts that call others
  const auto is_python = [](const std::string& program) {
    const std::string name = PlainName(program);
    return name == "python" || name == "pypy";
  };
  try {
    if (words.empty() || depth > kMaxDepth) return std::nullopt;
    fs::path program = FindProgramOfTrial(words.front(), context, path);
    if (is_python(words.front())) return program;
    if (const auto line = ReadInterpreterLine(program);
        line && !line->words.empty()) {
      words.front() = program.string();
      words.insert(words.begin(), line->words.begin(), line->words.end());
      program = FindProgramOfTrial(words.front(), context, path);
      if (is_python(words.front())) return program;
    }
    const std::string shell = PlainName(words.front());
    if (!shell.ends_with("sh")) return std::nullopt;
    std::size_t option = 1;
    while (option < words.size() && OptionLength(shell, words[option]) == 1) {
      ++option;
    }
    const bool is_code = option + 1 < words.size() && words[option] == "-c";
    const std::string text =
        is_code ? words[option + 1]
                : ReadFile(context / FindScript(words)).value_or("");
    std::set<fs::path> found;
    for (const Words& command : ReadShellCommands(text)) {
      auto python = FindPython(WithoutEnv(command), context, path, depth + 1);
      if (python) found.insert(std::move(*python));
    }
    return found.size() == 1 ? std::optional(*found.begin()) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;  // reported elsewhere
  }
}

nlohmann::json ParsePython(const std::string& text) {
  nlohmann::json record = {{"packages", nlohmann::json::object()},
                           {"cuda", nullptr}};
  bool ended = false;
  for (const std::string& line : Split(ToValidUtf8(text), '\n')) {
    const Words fields = Split(line, '\t');
    if (fields.front() == "python" && fields.size() == 4) {
      record["version"] = fields[1];
      record["implementation"] = fields[2];
      record["executable"] = fields[3];
    } else if (fields.front() == "package" && fields.size() == 3) {
      record["packages"][fields[1]] = fields[2];
    } else if (fields.front() == "cuda" && fields.size() == 2) {
      if (fields[1] != "None") record["cuda"] = fields[1];
    }
    ended = ended || line == "end";
  }
  return ended && record.contains("version") ? record : nlohmann::json();
}

// Says that dtrain lacks a name of Determined.
std::string LackText(const PythonScript& script, const Compiled& compiled) {
  return script.name + ":" + compiled.lacks + compiled.lacked +
         " has no counterpart in dtrain; " +
         (compiled.lacked == "determined.keras"
              ? "use DtrainCallback of dtrain.keras"
              : "use Determined's Core API, or dtrain's own module") +
         " (docs/python.md)";
}

std::optional<std::string> PythonProblem(const PythonScript& script,
                                         const Compiled& compiled) {
  const std::string python =
      script.interpreter.string() + ", Python " + compiled.version;
  if (!compiled.error.empty()) {
    return script.name + ":" + compiled.error + " (" + python +
           "); correct the script" +
           (compiled.is_old ? ", or name a newer Python for it" : "");
  }
  if (compiled.cannot_start) return LackText(script, compiled);
  if (!compiled.is_old || !compiled.imports_dtrain) return std::nullopt;
  return script.name + ": imports dtrain, which needs Python 3.8 (" + python +
         "); name a newer Python for it";
}

// Returns why the program or the script, if they are to be in the context,
// cannot be run.
std::optional<std::string> FileProblem(const Words& words,
                                       const fs::path& context,
                                       const std::string& path) {
  if (IsInContext(words.front())) {
    const std::string& program = words.front();
    std::error_code ignored;
    if (auto problem = ProgramProblem(program, context, path)) {
      const fs::path file = context / program;
      if (fs::exists(file, ignored)) return problem;
      return *problem + DidYouMean(program, ListNeighbours(program, file));
    }
    if (auto problem = LineEndProblem(words, context)) return problem;
  }
  return MissingScript(FindScript(words), context, false);
}

// Returns what to do about `import determined`, and about its names that dtrain
// lacks. The interpreter may find it on another machine, so this is no error.
std::optional<std::string> DeterminedWarning(const PythonScript& script,
                                             const Compiled& compiled) {
  if (!compiled.lacks.empty()) return LackText(script, compiled);
  if (compiled.determined.empty()) return std::nullopt;
  return script.name + ":" + compiled.determined + "imports determined" +
         (compiled.finds_determined
              ? ", which does not report to dtrain"
              : ", which " + script.interpreter.string() + " does not find") +
         "; write 'dtrain' in its place: it has Determined's Core API "
         "(docs/python.md)";
}

// Returns the option that would fail with true and false as its value.
std::optional<std::string> FlagProblem(const ExperimentConfig& config,
                                       const fs::path& context) {
  const auto* words = std::get_if<Words>(&config.entrypoint);
  if (words == nullptr || !config.placeholders) return std::nullopt;
  std::optional<ScriptText> script;  // read if there is such an option
  for (std::size_t i = 1; i < words->size(); ++i) {
    const std::string& word = (*words)[i];
    const auto only = OnlyPlaceholder(word);
    if (!only || only->is_flag()) continue;
    const std::string option = word.starts_with('{')
                                   ? (*words)[i - 1]
                                   : word.substr(0, word.find('='));
    const auto values = HparamChoices(config.hyperparameters, only->text)
                            .value_or(nlohmann::json());
    const bool is_boolean = std::ranges::any_of(
        values, [](const auto& value) { return value.is_boolean(); });
    if (!is_boolean || !option.starts_with('-')) continue;
    if (!script) script = ReadScriptText(*words, context);
    const auto flag = script->flags.find(option);
    if (flag == script->flags.end()) continue;
    return option + " takes no value in " + script->name + ", but {" +
           only->text + "} is true or false; write '" +
           FlagPlaceholder(only->text, flag->first, flag->second) +
           "', which gives the option if it is true";
  }
  return std::nullopt;
}

// Returns the module of the context that the scripts would import in place of
// dtrain's. A program whose metrics are found elsewhere need not import it.
std::optional<std::string> HidingProblem(const ExperimentConfig& config,
                                         const fs::path& context) {
  const auto* words = std::get_if<Words>(&config.entrypoint);
  if (words == nullptr || config.metrics) return std::nullopt;
  // Most contexts have no such file, and need not be read.
  std::error_code ignored;
  bool may_hide = false;
  std::vector<fs::path> directories = {context};
  for (const std::string& word : *words) {
    directories.push_back((context / word).parent_path());
  }
  for (const fs::path& directory : directories) {
    may_hide = may_hide || fs::exists(directory / "dtrain.py", ignored) ||
               fs::exists(directory / "dtrain/__init__.py", ignored);
  }
  if (!may_hide) return std::nullopt;
  const ScriptText script = ReadScriptText(*words, context);
  if (script.hides_dtrain.empty()) return std::nullopt;
  return "'" + script.hides_dtrain + "' hides the module dtrain, which " +
         script.name +
         " imports; rename it, or put the script in another directory";
}

}  // namespace

std::string FlagPlaceholder(const std::string& name, const std::string& on,
                            const std::string& off) {
  return "{" + name + ":" + on + (off.empty() ? "" : "|" + off) + "}";
}

PythonQuery::PythonQuery(const ExperimentConfig& config,
                         const fs::path& context)
    : is_command_(std::holds_alternative<Words>(config.entrypoint)) {
  const fs::path directory = fs::absolute(context);
  const auto python =
      FindPython(FixedWords(config), directory, PathOfTrials(config));
  if (!python) return;
  pid_ = StartPython(*python, directory, {"-W", "ignore", "-c", kRecordPython},
                     {}, config, answer_);
}

PythonQuery::~PythonQuery() {
  if (pid_ < 0) return;
  ::kill(-pid_, SIGKILL);
  AwaitExit(pid_);
}

void PythonQuery::Record(nlohmann::json& provenance) {
  if (!is_command_) return;
  provenance["python"] = nullptr;
  if (pid_ < 0) return;
  constexpr std::size_t kMaxAnswer = std::size_t{1} << 20;
  const auto text = ReadUntil(
      answer_.get(), Clock::System().monotonic() + kPythonLimit, kMaxAnswer);
  if (text) provenance["python"] = ParsePython(*text);
}

std::vector<std::string> FixedWords(const ExperimentConfig& config) {
  const auto* words = std::get_if<Words>(&config.entrypoint);
  if (words == nullptr) return {};
  if (!config.placeholders) return WithoutEnv(*words);
  Words fixed;
  for (const std::string& word : *words) {
    bool filled = false;
    std::string text = FillTemplate(word, [&](const TemplatePart&) {
      filled = true;
      return std::string();
    });
    if (filled) break;
    fixed.push_back(std::move(text));
  }
  return WithoutEnv(fixed);
}

std::vector<std::string> PythonDifferences(const nlohmann::json& recorded,
                                           const nlohmann::json& now) {
  using nlohmann::json;
  if (!recorded.is_object() || !now.is_object()) return {};
  const auto text = [](const json& python, const char* name) {
    const json value = python.value(name, json());
    return value.is_string() ? value.get<std::string>() : std::string("none");
  };
  std::vector<std::string> differences;
  const auto compare = [&](const std::string& what, const std::string& before,
                           const std::string& after) {
    if (before == after) return;
    differences.push_back(what + " was " + before + ", now it is " + after);
  };
  const auto interpreter = [&](const json& python) {
    return text(python, "version") + " (" + text(python, "executable") + ")";
  };
  compare("Python", interpreter(recorded), interpreter(now));
  compare("the CUDA of torch", text(recorded, "cuda"), text(now, "cuda"));
  json packages = recorded.value("packages", json::object());
  packages.update(now.value("packages", json::object()));
  Words changes;
  for (const auto& [name, version] : packages.items()) {
    const std::string before =
        text(recorded.value("packages", json::object()), name.c_str());
    const std::string after =
        text(now.value("packages", json::object()), name.c_str());
    if (before != after)
      changes.push_back(name + " " + before + " -> " + after);
  }
  constexpr std::size_t kShown = 8;
  if (!changes.empty()) {
    differences.push_back("installed packages differ: " +
                          JoinFirst(changes, kShown));
  }
  return differences;
}

ScriptFindings FindScriptProblem(const ExperimentConfig& config,
                                 const fs::path& context) {
  const Words words = FixedWords(config);
  if (words.empty()) return {};
  if (auto problem = FileProblem(words, context, PathOfTrials(config))) {
    return {.problem = std::move(problem)};
  }
  if (auto problem = HidingProblem(config, context)) {
    return {.problem = std::move(problem)};
  }
  if (auto problem = FlagProblem(config, context)) {
    return {.problem = std::move(problem)};
  }
  const auto script = FindPythonScript(words, context, PathOfTrials(config));
  if (!script) return {};
  const Compiled compiled = Compile(*script, config);
  return {.problem = PythonProblem(*script, compiled),
          .warning = DeterminedWarning(*script, compiled)};
}

std::optional<std::string> ScriptProblemHere(const ExperimentConfig& config,
                                             const fs::path& context) {
  const Words words = FixedWords(config);
  if (words.empty()) return std::nullopt;
  const std::string path = PathOfTrials(config);
  if (auto problem = ProgramProblem(words.front(), context, path)) {
    return problem;
  }
  if (auto problem = MissingScript(FindScript(words), context, true)) {
    return problem;
  }
  if (const auto line = FindInterpreterLine(words, context);
      line && !line->words.empty()) {
    const auto problem = ProgramProblem(line->words.front(), context, path);
    if (problem) return words.front() + ":1: " + *problem;
  }
  return std::nullopt;
}

namespace {

// Returns what a path in a directory leads to by links, if that is outside.
std::optional<fs::path> TargetOutside(const fs::path& directory,
                                      const std::string& path) {
  std::error_code error;
  const fs::path target = fs::canonical(directory / path, error);
  if (error) return std::nullopt;
  const fs::path root = fs::canonical(directory, error);
  if (error || *target.lexically_relative(root).begin() != "..") {
    return std::nullopt;
  }
  return target;
}

// Returns the words of the files of settings among `texts`.
std::set<std::string> ReadSettings(const std::set<std::string>& texts,
                                   const fs::path& context) {
  constexpr std::size_t kMaxBytes = 100'000;
  static constexpr std::array<std::string_view, 6> kExtensions = {
      ".yaml", ".yml", ".json", ".toml", ".cfg", ".ini"};
  std::set<std::string> found;
  for (const std::string& text : texts) {
    const std::string extension = fs::path(text).extension().string();
    if (std::ranges::find(kExtensions, extension) == kExtensions.end()) {
      continue;
    }
    std::string words = ReadFile(context / text, kMaxBytes).value_or("");
    for (char& c : words) {
      if (std::string_view("\t\r\n\"'=,[]{}").find(c) !=
          std::string_view::npos) {
        c = ' ';
      }
    }
    for (std::string& word : Split(words, ' ')) {
      if (!word.empty() && word.size() <= 256) found.insert(std::move(word));
    }
  }
  return found;
}

// Returns the directory that a link would make visible to a program that names
// `path`; empty if there is none.
fs::path FindLinkable(const fs::path& given, const fs::path& context,
                      NamedDirectories which) {
  fs::path path = given.lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  std::error_code ignored;
  const fs::path named =
      fs::is_directory(context / path, ignored) ? path : path.parent_path();
  if (named.empty() || named.filename() == ".." || named == ".") return {};
  if (*named.begin() == "..") {
    return which == NamedDirectories::kLeftOut ? named : fs::path();
  }
  if (which == NamedDirectories::kInContext) return named;
  const fs::path root = fs::canonical(context.empty() ? "." : context, ignored);
  fs::path directory;
  for (const fs::path& part : named) {
    directory /= part;
    if (!FindExclusion(context, directory.string())) continue;
    // With up -> .., 'up' cannot be linked, but 'up/data' can.
    if (!IsInside(root, fs::canonical(root / directory, ignored))) {
      return directory;
    }
  }
  return {};
}

}  // namespace

static std::string LeftOutText(const std::string& path, const fs::path& context,
                               const std::string& why) {
  const fs::path directory =
      FindLinkable(path, context, NamedDirectories::kLeftOut);
  return "'" + path + "' exists in " +
         (context.empty() ? "." : context.string()) +
         ", but not in the copy that trials work in: " + why + "; " +
         (directory.empty()
              ? "name"
              : "link it (--link " + QuoteForShell(directory.string()) +
                    "), or name") +
         " it by its absolute path";
}

// Returns the texts that may be paths: arguments and their values,
// hyperparameters, `data`.
static std::set<std::string> FindTexts(const ExperimentConfig& config,
                                       const Words& words) {
  std::set<std::string> texts;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::size_t equals = words[i].find('=');
    texts.insert(words[i]);
    if (equals != std::string::npos) texts.insert(words[i].substr(equals + 1));
  }
  const std::function<void(const nlohmann::json&)> add =
      [&](const nlohmann::json& value) {
        if (value.is_string()) texts.insert(value.get<std::string>());
        if (!value.is_structured()) return;
        for (const nlohmann::json& inner : value) add(inner);
      };
  add(config.hyperparameters);
  add(config.data);
  // It is checked by StoredScriptProblem.
  texts.erase(FindScript(FixedWords(config)));
  std::erase_if(texts, [](const std::string& text) {
    return text.empty() || text.size() > 4096;
  });
  return texts;
}

std::vector<std::string> FindNamedDirectories(const ExperimentConfig& config,
                                              const fs::path& context,
                                              NamedDirectories which) {
  const auto* words = std::get_if<Words>(&config.entrypoint);
  if (words == nullptr) return {};
  std::set<std::string> texts = FindTexts(config, *words);
  texts.merge(ReadScriptText(*words, context).strings);
  // The environment of the program itself.
  const Words fixed = FixedWords(config);
  if (!fixed.empty() && IsInContext(fixed.front())) texts.insert(fixed.front());
  if (!fixed.empty() && PlainName(fixed.front()) == "node") {
    texts.insert("node_modules");
  }
  texts.merge(ReadSettings(texts, context));
  std::set<std::string> found;
  for (const std::string& text : texts) {
    // The file may be one that the program will write, or a pattern.
    fs::path path = fs::path(text).lexically_normal();
    std::error_code ignored;
    while (!path.empty() && !path.is_absolute() &&
           !fs::exists(context / path, ignored)) {
      path = path.parent_path();
    }
    if (path.empty() || path.is_absolute()) continue;
    const fs::path directory = FindLinkable(path, context, which);
    const bool is_other =
        directory.empty() || IsStore(context / directory) ||
        std::ranges::any_of(directory, [](const fs::path& part) {
          return IsNeverStored(part.string()) || IsOutputName(part.string());
        });
    if (!is_other) found.insert(directory.string());
  }
  return {found.begin(), found.end()};
}

std::vector<std::string> FindLeftOutPaths(const ExperimentConfig& config,
                                          const ContextList& stored) {
  const auto* words = std::get_if<Words>(&config.entrypoint);
  if (words == nullptr) return {};
  std::vector<std::string> found;
  for (const std::string& path : FindTexts(config, *words)) {
    if (stored.origin.Reaches(path)) continue;
    if (const auto why = FindExclusion(stored.directory, path)) {
      found.push_back(LeftOutText(path, stored.directory, *why));
    }
  }
  return found;
}

std::vector<std::string> FindLeftOutNames(const std::string& text,
                                          const fs::path& context) {
  constexpr std::string_view kBetween = " \t\"'`,;()[]<>";
  constexpr std::string_view kWork = "/work/";
  std::vector<std::string> found;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end =
        std::min(text.find_first_of(kBetween, at), text.size());
    std::string name = text.substr(at, end - at);
    at = end + 1;
    while (name.ends_with(':') || name.ends_with('.')) name.pop_back();
    // The path in a trial's own copy.
    const std::size_t work = name.rfind(kWork);
    if (name.starts_with('/') && work != name.npos) {
      name.erase(0, work + kWork.size());
    }
    if (name.size() > 4096) continue;
    if (const auto why = FindExclusion(context, name)) {
      found.push_back(LeftOutText(name, context, *why));
    }
  }
  return found;
}

std::optional<std::string> StoredScriptProblem(const ExperimentConfig& config,
                                               const ContextList& stored) {
  const Words words = FixedWords(config);
  if (words.empty()) return std::nullopt;
  Words paths = {FindScript(words)};
  if (IsInContext(words.front())) paths.push_back(words.front());
  for (const std::string& path : paths) {
    if (path.empty() || path.starts_with('/') || stored.origin.Reaches(path)) {
      continue;
    }
    const std::string normal = fs::path(path).lexically_normal().string();
    if (normal == ".." || normal.starts_with("../")) {
      return "'" + path + "' is outside " + stored.directory.string() +
             ", but trials run from a copy of that directory; give a directory "
             "that contains it as CONTEXT, or start 'dtrain run' in it";
    }
    const bool is_stored =
        std::ranges::any_of(stored.files, [&](const ContextFile& file) {
          return file.path == normal || file.path.starts_with(normal + "/");
        });
    if (is_stored) continue;
    if (const auto target = TargetOutside(stored.directory, normal)) {
      return "'" + path + "' is a link to " + target->string() +
             ", outside the context; name it by its absolute path, " +
             (fs::absolute(stored.directory) / normal)
                 .lexically_normal()
                 .string();
    }
    const auto why = FindExclusion(stored.directory, normal);
    return "'" + path +
           "' is excluded from the context by .gitignore or .detignore; "
           "remove it from these files" +
           (why ? ": " + *why : "");
  }
  return std::nullopt;
}

}  // namespace dtrain
