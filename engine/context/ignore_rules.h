#pragma once

#include <bitset>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain {

/// One line of an ignore file, interpreted as git does: trailing blanks are
/// dropped unless escaped, `!` negates, a trailing slash restricts it to
/// directories, any other slash anchors it to the file's own directory, and
/// `*`,
/// `?`, `[…]`, `**` and `\` match as in gitignore(5). Matches bytes, in time
/// proportional to the lengths of pattern and path.
class IgnorePattern {
 public:
  /// Returns nothing for blank lines and comments.
  static std::optional<IgnorePattern> Parse(std::string_view line);

  /// True if it matches `path`, relative to the directory of the ignore file:
  /// "a/b.txt".
  bool Matches(std::string_view path, bool is_directory) const;
  /// True if matching paths are not ignored.
  bool negated() const { return negated_; }

 private:
  enum class Kind {
    kByte,
    kAny,          // one byte, no slash
    kSet,          // one byte of `set`
    kStar,         // bytes without a slash
    kEverything,   // bytes
    kDirectories,  // whole directories, or none
    kInside        // the rest of them; follows kDirectories
  };
  struct Token {
    Kind kind = Kind::kByte;
    char byte = 0;
    std::bitset<256> set = {};
  };

  void Compile(std::string_view text);
  std::size_t CompileStars(std::string_view text, std::size_t at,
                           std::size_t plain);
  std::size_t CompileSet(std::string_view text, std::size_t at);
  void Enter(std::size_t token, std::vector<char>& states) const;
  bool MatchesText(std::string_view text) const;

  std::vector<Token> tokens_;
  bool negated_ = false;
  bool directory_only_ = false;
  bool whole_path_ = false;  // else it matches the last name only
  bool valid_ = true;        // an invalid pattern matches nothing
};

/// The rules of the ignore files of a directory and its parents. The last
/// matching pattern decides, so a file's patterns take precedence over those of
/// files added before it.
class IgnoreRules {
 public:
  /// Adds the lines of an ignore file in `directory`: "" or "a/b/". `name` is
  /// that of the file, for FindRule.
  void Add(std::string_view text, const std::string& directory,
           const std::string& name = "");

  /// Returns the line that ignores `path` ("a/b.txt"), such as
  /// "a/.gitignore:3 (data/)"; empty if none does. Files in an ignored
  /// directory are ignored whatever other patterns say: the caller does not
  /// enter it.
  std::string FindRule(std::string_view path, bool is_directory) const;

  /// True if the last pattern that matches `path` is a negated one: a user
  /// wants it.
  bool IsRestored(std::string_view path, bool is_directory) const;

  /// Number of patterns, and back to that number: the patterns of a directory
  /// do not apply outside it.
  std::size_t size() const { return rules_.size(); }
  void Truncate(std::size_t size) { rules_.resize(size); }

 private:
  struct Rule {
    std::string directory = {};
    IgnorePattern pattern = {};
    std::string place = {};  // as FindRule returns it
  };

  const Rule* FindLast(std::string_view path, bool is_directory) const;

  std::vector<Rule> rules_;
};

}  // namespace dtrain
