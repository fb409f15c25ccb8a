#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace dtrain {

/// Use of dtrain by the scripts of a command, as their texts show it.
struct ScriptText {
  // Path of the script as in the command; of the program if there is none.
  std::string name;
  // Only Python, and all of it was read.
  bool is_python = false;
  // Imports the module `dtrain`, itself or by a module of the context.
  bool imports_dtrain = false;
  // Reads the JSON file of the trial, or a computed DTRAIN_HPARAM_ variable.
  bool reads_all = false;
  // NAME of each DTRAIN_HPARAM_NAME.
  std::set<std::string> variables;
  // Mentions DTRAIN_UNTIL, DTRAIN_CHECKPOINT or the JSON file of the trial.
  bool reads_length = false;
  // Writes to descriptor 3 or to the socket, or may do so.
  bool reports = false;
  // Options of argparse and click that take no value, such as --amp, each with
  // what switches it off, such as --no-amp, or an empty text.
  std::map<std::string, std::string> flags;
  // Texts between quotes; of scripts other than Python, all words.
  std::set<std::string> strings;
  // A module or package `dtrain` beside a script that imports dtrain, which
  // Python finds first; empty: none.
  std::string hides_dtrain;

  /// True if the hyperparameter `name`, a dotted path, may be read.
  bool MayRead(const std::string& name) const;
  /// True if the program can go on at a later length.
  bool Continues() const { return imports_dtrain || reads_length; }
};

/// Reads the scripts that `command` names, relative to `context`, and the
/// modules and scripts there that they refer to. Of a program that is no script
/// it reads the strings in its file. Nothing is executed. REQUIRES: `command`
/// is not empty.
ScriptText ReadScriptText(const std::vector<std::string>& command,
                          const std::filesystem::path& context);

}  // namespace dtrain
