// The tables have a row for each command of det, by group, and for each of its
// options that dtrain has under another name. A row without a command of dtrain
// has the sentence that is shown in its place. An option that neither table nor
// command knows is an error of the command line as any other.
//
// FindDetWords looks for the names at the beginning of the line: a group, and
// one of its commands in one or two words. A group that is a command of dtrain,
// too, is dtrain's own unless a command of det follows. ReplaceCommand then
// puts dtrain's command in their place, moves arguments that are options there,
// and replaces det's options by dtrain's. The result is parsed as if it had
// been typed, so that errors, help and completion are those of dtrain's
// command.

#include "cli/determined.h"

#include <algorithm>
#include <string_view>

#include "cli/command_help.h"
#include "engine/base/error.h"
#include "engine/base/text.h"

namespace dtrain {
namespace {

// A group of commands. dtrain has a command of the same name if `is_command`.
struct DetGroup {
  std::string_view name;
  std::string_view alias;
  bool is_command = false;
};

constexpr DetGroup kDetGroups[] = {{"experiment", "e"},
                                   {"trial", "t"},
                                   {"checkpoint", "c", /*is_command=*/true},
                                   {"slot", "s"}};

// A command of a group. In `command`, "--add" makes the second argument the
// value of this option, and "--to=files" is added.
struct DetCommand {
  std::string_view group;
  std::string_view names;         // "list ls"; "set name" is one name
  std::string_view command;       // or empty …
  std::string_view instead = {};  // … then what to do without it
};

constexpr std::string_view kNoProjects =
    "dtrain has no workspaces and projects; use labels: 'dtrain label EXP "
    "--add LABEL', 'dtrain list --label LABEL'";
constexpr std::string_view kNoScheduler =
    "dtrain has no scheduler with priorities; trials of all experiments take "
    "free slots in turn, and 'dtrain set max-slots' limits an experiment";

constexpr std::string_view kKeepsLogs =
    "dtrain keeps logs until 'dtrain delete EXP' deletes the experiment";

constexpr DetCommand kDetCommands[] = {
    {"experiment", "list ls", "list"},
    {"experiment", "config", "config"},
    {"experiment", "describe", "describe"},
    {"experiment", "logs", "logs"},
    {"experiment", "download-model-def", "config"},
    {"experiment", "list-trials lt", "trials"},
    {"experiment", "list-checkpoints lc", "checkpoints"},
    {"experiment", "create", "create"},
    {"experiment", "continue", "continue"},
    {"experiment", "activate unpause", "resume"},
    {"experiment", "pause", "pause"},
    {"experiment", "cancel", "cancel"},
    {"experiment", "kill", "kill"},
    {"experiment", "wait", "wait"},
    {"experiment", "archive", "archive"},
    {"experiment", "unarchive", "unarchive"},
    {"experiment", "delete", "delete"},
    {"experiment", "download", "checkpoint export --to=files"},
    {"experiment", "label-add", "label --add"},
    {"experiment", "label-remove", "label --remove"},
    {"experiment", "set-name", "set name"},
    {"experiment", "set-description", "set description"},
    {"experiment", "set-max-slots", "set max-slots"},
    {"experiment", "set-weight", "", kNoScheduler},
    {"experiment", "set-priority", "", kNoScheduler},
    {"experiment", "set-gc-policy", "",
     "the numbers of checkpoints to keep are part of the YAML "
     "(checkpoint_storage) and fixed for an experiment; 'dtrain checkpoint "
     "delete' deletes single checkpoints"},
    {"experiment", "set-log-retention", "", kKeepsLogs},
    {"experiment", "move", "", kNoProjects},
    {"experiment", "delete-tb-files", "",
     "only 'dtrain tensorboard' writes event files; delete its directory"},
    {"trial", "describe", "describe"},
    {"trial", "logs", "logs"},
    {"trial", "kill", "kill"},
    {"trial", "download", "checkpoint export --to=files"},
    {"trial", "set-log-retention", "", kKeepsLogs},
    {"trial", "support-bundle", "",
     "use 'dtrain report EXP --html FILE' and 'dtrain logs EXP.T'"},
    {"checkpoint", "download", "checkpoint export --to=files"},
    {"checkpoint", "describe", "checkpoint show"},
    {"checkpoint", "rm", "",
     "dtrain deletes whole checkpoints: 'dtrain checkpoint delete UUID'"},
    {"slot", "list ls", "slots"},
    {"slot", "enable", "",
     "use resources.slots in the YAML, or CUDA_VISIBLE_DEVICES"},
    {"slot", "disable", "",
     "use resources.slots in the YAML, or CUDA_VISIBLE_DEVICES"},
};

// Groups of commands that dtrain does not have.
struct MissingGroup {
  std::string_view names;
  std::string_view instead;
};

constexpr std::string_view kNoUsers =
    "dtrain has no users; the owner of a store's directory may use it";
constexpr std::string_view kNoCluster =
    "dtrain has no cluster of its own; 'dtrain slots' shows the GPUs and CPUs "
    "of this machine, 'dtrain workers EXP' the machines of an experiment";
constexpr std::string_view kNoTasks =
    "dtrain runs experiments only; start other programs from your shell";

constexpr MissingGroup kMissingGroups[] = {
    {"det", "omit 'det'; its commands follow dtrain: 'dtrain experiment list'"},
    {"agent a", kNoCluster},
    {"master", kNoCluster},
    {"deploy d", kNoCluster},
    {"resource-pool rp", kNoCluster},
    {"resources res", "'dtrain list --json' has the time of each experiment"},
    {"job j", "'dtrain list --state RUNNING' lists running experiments"},
    {"command cmd", kNoTasks},
    {"notebook", kNoTasks},
    {"shell", kNoTasks},
    {"task", kNoTasks},
    {"model m",
     "dtrain has no registry of models; 'dtrain models' lists the built-in "
     "ones, and 'dtrain checkpoint export' writes those that were trained"},
    {"template tpl",
     "dtrain has no templates; use 'dtrain create --set KEY=VALUE', or merge "
     "keys (<<) in the YAML"},
    {"workspace w", kNoProjects},
    {"project p", kNoProjects},
    {"user u", kNoUsers},
    {"user-group ug", kNoUsers},
    {"rbac", kNoUsers},
    {"auth", kNoUsers},
    {"oauth", kNoUsers},
    {"token", kNoUsers},
    {"config-policies",
     "dtrain has no policies for configurations; set limits in each YAML"},
    {"dev",
     "dtrain has no REST interface; commands with --json print what it has"},
};

// An option of det for a command of dtrain. Without `option` and `instead` it
// is a flag without effect.
struct DetOption {
  std::string_view command;
  std::string_view names;
  std::string_view option;  // dtrain's, or empty
  std::string_view instead = {};
};

constexpr std::string_view kOneBest =
    "dtrain copies one checkpoint, the best by the searcher's metric; 'dtrain "
    "best EXP --sort METRIC' lists trials, and 'dtrain checkpoint export "
    "EXP.T' "
    "takes one";
constexpr std::string_view kNoContainers =
    "dtrain has no containers and agents; omit it";

constexpr std::string_view kNoPages =
    "dtrain prints all rows; --limit N prints the first, with --sort";

constexpr DetOption kDetOptions[] = {
    {"create", "--config", "--set"},
    {"create", "--follow-first-trial", "--follow"},
    {"create", "--test-mode -t", "--test"},
    {"create", "--project_id", "", kNoProjects},
    {"create", "--template", "",
     "dtrain has no templates; use --set KEY=VALUE, or merge keys (<<) in the "
     "YAML"},
    {"create", "--include -i", "",
     "all files of CONTEXT are stored with the experiment; put or link the "
     "file there"},
    {"create", "--local", "", "every experiment runs on this machine; omit it"},
    {"create", "--publish -p", "", kNoContainers},
    {"continue", "--config", "--set"},
    {"continue", "--config-file", "",
     "the configuration is that of the source; change it with --set "
     "KEY=VALUE"},
    {"continue", "--follow-first-trial", "--follow"},
    {"describe", "--metrics", "", "use 'dtrain metrics EXP'"},
    {"describe", "--metrics-summary", "",
     "use 'dtrain metrics EXP' or 'dtrain trials EXP'"},
    {"describe", "--csv", "", "use --json, or 'dtrain trials EXP --csv'"},
    {"describe", "--outdir", "",
     "use 'dtrain trials EXP --csv' and 'dtrain metrics EXP --csv'"},
    {"list", "--show_project", "", kNoProjects},
    {"list", "--offset --pages", "", kNoPages},
    {"trials", "--offset --pages", "", kNoPages},
    {"describe", "--offset --pages --limit", "",
     "'dtrain describe' prints all; 'dtrain metrics EXP.T' has each value"},
    {"logs", "--timestamp-before", "--until"},
    {"logs", "--timestamp-after", "--since"},
    {"logs", "--rank-id", "--rank"},
    {"logs", "--agent-id", "", kNoContainers},
    {"logs", "--container-id", "", kNoContainers},
    {"logs", "--source", "", kNoContainers},
    {"logs", "--stdtype", "",
     "'dtrain logs EXP --json' has the stream of each line"},
    {"wait", "--polling-interval", "", "dtrain polls by itself; omit it"},
    {"checkpoints", "--best", "", "use 'dtrain best EXP -n N'"},
    {"config", "--output-dir", "--export"},
    {"checkpoint export", "--output-dir -o", "--out"},
    {"checkpoint export", "--best", ""},
    {"checkpoint export", "--mode", "",
     "dtrain copies the files on this machine; omit it"},
    {"checkpoint export", "--uuid", "",
     "use 'dtrain checkpoint download UUID'"},
    {"checkpoint export", "--top-n", "", kOneBest},
    {"checkpoint export", "--sort-by", "", kOneBest},
    {"checkpoint export", "--smaller-is-better", "", kOneBest},
    {"checkpoint delete", "--yes", ""},
};

bool HasName(std::string_view names, std::string_view name) {
  const std::vector<std::string> all = Split(names, ' ');
  return std::ranges::find(all, name) != all.end();
}

// Returns the index of the command on the command line: the first word from
// `at` on that is not an option of the program. The end if there is none, or
// another option comes first.
std::size_t CommandAt(const std::vector<std::string>& words, std::size_t at) {
  for (; at < words.size(); ++at) {
    const std::string& word = words[at];
    if (word == "--store" || word == "--color") {
      ++at;
    } else if (!word.starts_with("-")) {
      return at;
    } else if (!word.starts_with("--store=") && !word.starts_with("--color=") &&
               !HasName("-v --verbose -q --quiet --allow-network-fs", word)) {
      break;
    }
  }
  return words.size();
}

// The command of det at the beginning of a command line.
struct DetWords {
  const DetGroup* group = nullptr;  // none: all words are dtrain's
  const DetCommand* row = nullptr;  // none: no command of the group follows
  std::size_t begin = 0;            // index of the group
  std::size_t end = 0;              // index behind the words found
  std::string name;                 // of the command, as far as it was given
};

const DetCommand* FindCommand(const DetGroup& group, std::string_view name) {
  const auto* row =
      std::ranges::find_if(kDetCommands, [&](const DetCommand& one) {
        return one.group == group.name && HasName(one.names, name);
      });
  return row == std::end(kDetCommands) ? nullptr : row;
}

// True if the word begins names of two words: "set name".
bool BeginsName(const DetGroup& group, const std::string& word) {
  return (group.name == "experiment" && (word == "set" || word == "label")) ||
         (group.name == "trial" && word == "set");
}

// Options of the program may stand before each word: `dtrain -q e --store S
// list`.
DetWords FindDetWords(const std::vector<std::string>& words) {
  DetWords found{.begin = CommandAt(words, 0)};
  const bool is_help =
      found.begin < words.size() && words[found.begin] == "help";
  if (is_help) found.begin = CommandAt(words, found.begin + 1);
  found.end = found.begin;
  if (found.begin == words.size()) return found;
  const auto* group =
      std::ranges::find_if(kDetGroups, [&](const DetGroup& one) {
        return words[found.begin] == one.name ||
               words[found.begin] == one.alias;
      });
  if (group == std::end(kDetGroups)) return found;
  found.group = group;
  ++found.end;
  std::size_t next = CommandAt(words, found.end);
  if (next == words.size()) return found;
  found.name = words[next];
  if (BeginsName(*group, found.name)) {
    found.end = next + 1;
    next = CommandAt(words, next + 1);
    if (next == words.size()) return found;
    found.name += "-" + words[next];
  }
  found.row = FindCommand(*group, found.name);
  if (found.row != nullptr) found.end = next + 1;
  return found;
}

// "set-name" as it is typed: "set name".
std::string Typed(std::string name) {
  for (const std::string_view first : {"set-", "label-"}) {
    if (name.starts_with(first)) name[first.size() - 1] = ' ';
  }
  return name;
}

// The names of a group's commands, without their aliases.
std::vector<std::string> GroupCommandNames(const DetGroup& group) {
  std::vector<std::string> names;
  for (const DetCommand& row : kDetCommands) {
    if (row.group != group.name) continue;
    names.push_back(Typed(Split(row.names, ' ').front()));
  }
  return names;
}

[[noreturn]] void RefuseWord(const std::string& what,
                             std::string_view instead) {
  throw Error(ErrorKind::kUsage, what + ": " + std::string(instead));
}

// Throws for a group whose command is missing or unknown.
[[noreturn]] void RefuseName(const DetWords& found) {
  const std::string group(found.group->name);
  const std::string hint = "; see 'dtrain " + group + " --help'";
  if (found.name.empty()) {
    RefuseWord(group, "missing subcommand" + hint);
  }
  const std::string name = Typed(found.name);
  std::vector<std::string> longer;  // "set name" of "set"
  for (const DetCommand& row : kDetCommands) {
    const std::string one = Typed(Split(row.names, ' ').front());
    const bool is_longer = row.group == found.group->name &&
                           !row.command.empty() && one.starts_with(name + " ");
    if (is_longer) longer.push_back(one);
  }
  if (!longer.empty()) {
    RefuseWord(group + " " + name,
               "missing subcommand; known: " + Join(longer, ", "));
  }
  const std::string guess = DidYouMean(name, GroupCommandNames(*found.group));
  throw Error(ErrorKind::kUsage, "unknown command '" + group + " " + name +
                                     "'" + (guess.empty() ? hint : guess));
}

// A command line of det with the names of its command replaced.
struct DtrainWords {
  std::vector<std::string> words;
  std::string command;      // dtrain's: "checkpoint export"
  std::size_t rest = 0;     // index behind the command
  std::string option = {};  // that the second argument is the value of
};

// REQUIRES: found.row has a command.
DtrainWords ReplaceNames(const std::vector<std::string>& words,
                         const DetWords& found) {
  DtrainWords line;
  const auto at = [&](std::size_t i) {
    return words.begin() + static_cast<std::ptrdiff_t>(i);
  };
  line.words.assign(words.begin(), at(found.begin));
  for (const std::string& word : Split(found.row->command, ' ')) {
    if (word.starts_with("--") && word.find('=') == word.npos) {
      line.option = word;
      continue;
    }
    line.words.push_back(word);
    if (word.starts_with("--")) continue;
    line.command += (line.command.empty() ? "" : " ") + word;
  }
  line.rest = line.words.size();
  // Options of the program may stand between the words of the command.
  for (std::size_t i = found.begin + 1; i < words.size(); ++i) {
    if (i >= found.end || words[i].starts_with("-")) {
      line.words.push_back(words[i]);
    }
  }
  return line;
}

// The index of the n-th argument behind the command; the end if there are
// fewer.
std::size_t ArgumentAt(const DtrainWords& line, std::size_t number) {
  for (std::size_t i = line.rest; i < line.words.size(); ++i) {
    const std::string& word = line.words[i];
    if (word == "--store" || word == "--color") {
      ++i;
    } else if (!word.starts_with("-") && number-- == 0) {
      return i;
    }
  }
  return line.words.size();
}

void CheckTrial(const DetWords& found, const DtrainWords& line) {
  const std::size_t at = ArgumentAt(line, 0);
  if (found.group->name != "trial" || at == line.words.size()) return;
  const std::string& trial = line.words[at];
  if (trial.find('.') != trial.npos) return;
  RefuseWord(
      "trial " + found.name,
      "'" + trial +
          "' is not a trial; trials are numbered within their experiment, "
          "such as 3.7: 'dtrain trials EXP' lists them");
}

// det describes several experiments at once.
void CheckOneExperiment(const DtrainWords& line) {
  const std::size_t at = ArgumentAt(line, 0);
  if (line.command != "describe" || at == line.words.size()) return;
  const std::string& ids = line.words[at];
  const bool are_several = ids.find(',') != ids.npos &&
                           ids.find_first_not_of("0123456789,") == ids.npos;
  if (!are_several) return;
  RefuseWord("experiment describe",
             "'" + ids +
                 "' names several experiments; describe one at a time, or "
                 "'dtrain list' shows a row for each");
}

void ReplaceOption(const DetOption& row, std::vector<std::string>& words,
                   std::size_t at) {
  const std::string value =
      words[at].substr(std::min(words[at].find('='), words[at].size()));
  if (!row.instead.empty()) {
    const std::string name = words[at].substr(0, words[at].find('='));
    RefuseWord(std::string(row.command) + ": " + name, row.instead);
  }
  if (row.option.empty()) {
    words.erase(words.begin() + static_cast<std::ptrdiff_t>(at));
  } else {
    words[at] = std::string(row.option) + value;
  }
}

// Values of options are not told from options here: a value that looks like one
// of det's options is replaced, too.
void ReplaceOptions(DtrainWords& line) {
  for (std::size_t i = line.rest; i < line.words.size();) {
    const std::string name = line.words[i].substr(0, line.words[i].find('='));
    if (name == "--") return;
    const auto* row =
        std::ranges::find_if(kDetOptions, [&](const DetOption& one) {
          return one.command == line.command && HasName(one.names, name);
        });
    const std::size_t size = line.words.size();
    if (row != std::end(kDetOptions)) ReplaceOption(*row, line.words, i);
    if (line.words.size() == size) ++i;
  }
}

// The line of a command that dtrain has under its own name.
DtrainWords OwnLine(std::vector<std::string> words) {
  DtrainWords line{.words = std::move(words)};
  const std::size_t at = CommandAt(line.words, 0);
  if (at == line.words.size()) return line;
  line.command = line.words[at];
  line.rest = at + 1;
  if (line.command != "checkpoint" || line.rest == line.words.size()) {
    return line;
  }
  line.command += " " + line.words[line.rest++];
  return line;
}

void RefuseMissing(const std::vector<std::string>& words, std::size_t at) {
  if (at == words.size()) return;
  for (const MissingGroup& missing : kMissingGroups) {
    if (HasName(missing.names, words[at]))
      RefuseWord(words[at], missing.instead);
  }
}

bool HasHelpWord(const std::vector<std::string>& words) {
  const std::size_t at = CommandAt(words, 0);
  return (at < words.size() && words[at] == "help") ||
         std::ranges::any_of(words, [](const std::string& word) {
           return word == "-h" || word == "--help";
         });
}

// Only `det e` has a default, to list.
bool IsDefault(const DetWords& found) {
  return found.group->name == "experiment" && found.name.empty();
}

void CheckDownload(const DetWords& found, const DtrainWords& line) {
  const bool has_directory =
      std::ranges::any_of(line.words, [](const std::string& word) {
        return word == "--export" || word.starts_with("--export=");
      });
  if (found.name != "download-model-def" || has_directory ||
      HasHelpWord(line.words)) {
    return;
  }
  RefuseWord("experiment download-model-def",
             "missing --output-dir DIR, a new directory for the files");
}

DtrainWords ReplaceCommand(const std::vector<std::string>& words,
                           const DetWords& found) {
  DetWords one = found;
  if (one.row == nullptr && IsDefault(one)) {
    one.row = FindCommand(*one.group, "list");
  }
  if (one.row == nullptr) RefuseName(one);
  if (one.row->command.empty()) {
    RefuseWord(std::string(one.group->name) + " " + Typed(one.name),
               one.row->instead);
  }
  DtrainWords line = ReplaceNames(words, one);
  CheckTrial(one, line);
  CheckOneExperiment(line);
  ReplaceOptions(line);
  CheckDownload(one, line);
  if (!line.option.empty()) {
    const std::size_t second = ArgumentAt(line, 1);
    if (second < line.words.size()) {
      line.words[second] = line.option + "=" + line.words[second];
    }
  }
  return line;
}

}  // namespace

std::vector<std::string> FromDetermined(const std::vector<std::string>& words) {
  const DetWords found = FindDetWords(words);
  RefuseMissing(words, found.begin);
  const bool is_own = found.group == nullptr ||
                      (found.group->is_command && found.row == nullptr);
  if (!is_own) return ReplaceCommand(words, found).words;
  std::vector<std::string> own = words;
  if (found.group != nullptr) {
    own[found.begin] = found.group->name;
    if (found.name == "help") own[CommandAt(own, found.begin + 1)] = "--help";
  }
  DtrainWords line = OwnLine(std::move(own));
  ReplaceOptions(line);
  return line.words;
}

std::optional<std::string> DeterminedHelp(
    const std::vector<std::string>& words) {
  const DetWords found = FindDetWords(words);
  if (found.group == nullptr || found.group->is_command ||
      found.row != nullptr || !(HasHelpWord(words) || found.name == "help")) {
    return std::nullopt;
  }
  const std::string name(found.group->name);
  std::string text =
      "Run a command of dtrain by its name in Determined's CLI\n\nUsage: "
      "dtrain " +
      name + " COMMAND [OPTIONS] [ARGUMENTS]\n       dtrain " +
      std::string(found.group->alias) +
      " COMMAND [OPTIONS] [ARGUMENTS]\n\nCommands, and those of dtrain that "
      "they run:\n";
  std::string missing;
  for (const DetCommand& row : kDetCommands) {
    if (row.group != name) continue;
    std::vector<std::string> names;
    for (std::string& one : Split(row.names, ' ')) {
      names.push_back(Typed(std::move(one)));
    }
    const bool is_missing = row.command.empty();
    AppendHelpRow(Join(names, ", "), is_missing ? row.instead : row.command,
                  is_missing ? missing : text);
  }
  if (!missing.empty()) text += "\nNot in dtrain:\n" + missing;
  return text +
         "\n'dtrain COMMAND --help', with dtrain's name, shows options and "
         "examples.\n";
}

DeterminedLine CompleteDetermined(const std::vector<std::string>& words) {
  const DetWords found = FindDetWords(words);
  if (found.group == nullptr) return {.words = words};
  if (found.row != nullptr && !found.row->command.empty()) {
    return {.words = ReplaceNames(words, found).words};
  }
  DeterminedLine line{.words = words};
  if (found.group->is_command) {
    line.words[found.begin] = found.group->name;
    return line;
  }
  line.names.emplace();
  const std::string begin = found.name.empty() ? "" : found.name + "-";
  for (const DetCommand& row : kDetCommands) {
    const std::string name = Split(row.names, ' ').front();
    const bool fits = row.group == found.group->name && !row.command.empty() &&
                      name.starts_with(begin);
    if (!fits) continue;
    std::string next = Typed(name.substr(begin.size()));
    next = next.substr(0, next.find(' '));
    const bool is_new =
        std::ranges::find(*line.names, next, &DeterminedName::name) ==
        line.names->end();
    if (is_new) line.names->push_back({next, std::string(row.command)});
  }
  return line;
}

}  // namespace dtrain
