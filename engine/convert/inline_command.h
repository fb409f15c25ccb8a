#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace dtrain {

/// The command line of a program as `dtrain run` takes it.
struct InlineCommand {
  nlohmann::json entrypoint;    // as an effective configuration has it
  std::set<std::string> names;  // of the placeholders
};

/// Reads the words of a command. `{NAME}` is a placeholder, `{{NAME}}` the text
/// `{NAME}`; other braces are literal, and so are `${NAME}`, the program, and
/// the code after the option -c of an interpreter.
///
/// Throws Error(kUsage) for a placeholder that is not in `placeholders`, and
/// for one where none is filled: the program would receive the braces.
/// REQUIRES: `words` is not empty.
InlineCommand ReadInlineCommand(const std::vector<std::string>& words,
                                const std::vector<std::string>& placeholders);

/// True if the word at `at` is the code after the option -c of an interpreter.
bool IsCode(const std::vector<std::string>& words, std::size_t at);

}  // namespace dtrain
