#include "engine/plugin/dependencies.h"

#include <fstream>
#include <iterator>
#include <utility>

namespace dtrain {

namespace fs = std::filesystem;

std::vector<fs::path> ParseDependencies(const std::string& rule) {
  std::vector<fs::path> files;
  std::string word;
  const auto end_word = [&] {
    if (!word.empty()) files.emplace_back(std::exchange(word, {}));
  };
  // The target may have colons in its name, but none with a blank behind it.
  std::size_t i = rule.find(": ");
  for (i = i == rule.npos ? rule.size() : i + 2; i < rule.size(); ++i) {
    const char c = rule[i];
    const char next = i + 1 < rule.size() ? rule[i + 1] : '\n';
    if (c == '\\' && next == '\n') {
      end_word();
      ++i;
    } else if ((c == '\\' && (next == ' ' || next == '#' || next == '\\')) ||
               (c == '$' && next == '$')) {
      word += next;
      ++i;
    } else if (c == ' ' || c == '\n') {
      end_word();
    } else {
      word += c;
    }
  }
  end_word();
  return files;
}

fs::path FirstOutside(const fs::path& rule_file,
                      const std::set<fs::path>& real_paths,
                      const fs::path& allowed) {
  std::ifstream in(rule_file, std::ios::binary);
  const std::string rule(std::istreambuf_iterator<char>(in), {});
  std::error_code ignored;
  for (const fs::path& file : ParseDependencies(rule)) {
    const fs::path real = fs::weakly_canonical(file, ignored);
    if (!real_paths.contains(real) && file != allowed) return file;
  }
  return {};
}

}  // namespace dtrain
