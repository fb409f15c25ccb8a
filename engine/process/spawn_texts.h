#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include "engine/os/process.h"

namespace dtrain {

/// `texts` as the functions that execute a program want them: pointers, the
/// last of them null, valid as long as `texts` is not changed.
inline std::vector<char*> SpawnPointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// This process's environment with `changes` made to it, as NAME=value; of
/// several changes of one name the first counts.
inline std::vector<std::string> EnvironmentWith(
    const std::vector<std::pair<std::string, std::string>>& changes) {
  std::set<std::string> changed;
  std::vector<std::string> result;
  for (const auto& [name, value] : changes) {
    if (changed.insert(name).second) {
      result.push_back(std::string(name).append("=").append(value));
    }
  }
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (changed.count(text.substr(0, text.find('='))) == 0) {
      result.push_back(text);
    }
  }
  return result;
}

/// Reads that environment.
inline ReadVariable VariablesWith(
    std::vector<std::pair<std::string, std::string>> changes) {
  return [changes = std::move(changes)](const char* name) {
    for (const auto& [changed, value] : changes) {
      if (changed == name) return std::optional<std::string>(value);
    }
    return ProcessVariable(name);
  };
}

}  // namespace dtrain
