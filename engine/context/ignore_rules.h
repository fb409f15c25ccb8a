#pragma once

#include <bitset>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain {

/// One line of an ignore file, with the meaning that git gives it: blanks at
/// the end do not count unless escaped, `!` takes back, a slash at the end
/// means directories, any other one ties it to the file's own directory, and
/// `*`, `?`, `[…]`, `**` and `\` match as in gitignore(5). Works on bytes, in
/// time that grows with pattern times path, whatever the pattern.
class IgnorePattern {
 public:
  /// Nothing for blank lines and comments.
  static std::optional<IgnorePattern> Parse(std::string_view line);

  /// Whether it is about `path`, which is relative to the directory of the
  /// ignore file: "a/b.txt".
  bool Matches(std::string_view path, bool is_directory) const;
  /// What it matches is not ignored.
  bool negated() const { return negated_; }

 private:
  enum class Kind {
    kByte,
    kAny,          // one byte, no slash
    kSet,          // one byte of `set`
    kStar,         // bytes without a slash
    kEverything,   // bytes
    kDirectories,  // whole directories, or none
    kInside        // the rest of them; after kDirectories
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
  bool whole_path_ = false;  // else only the last name counts
  bool valid_ = true;        // an invalid one matches nothing
};

/// The ignore files that hold in a directory: its own and those above it. The
/// last pattern that matches decides, and a file's patterns count for more
/// than those of the files that were added before it.
class IgnoreRules {
 public:
  /// The lines of an ignore file in `directory`: "" or "a/b/".
  void Add(std::string_view text, const std::string& directory);

  /// Whether `path` ("a/b.txt") is ignored by itself. What lies in a directory
  /// that is ignored is ignored too, whatever a pattern says of it: the caller
  /// does not look there.
  bool IsIgnored(std::string_view path, bool is_directory) const;

  /// How many patterns there are, and back to so many: those of a directory
  /// do not hold outside it.
  std::size_t size() const { return rules_.size(); }
  void Truncate(std::size_t size) { rules_.resize(size); }

 private:
  struct Rule {
    std::string directory = {};
    IgnorePattern pattern = {};
  };

  std::vector<Rule> rules_;
};

}  // namespace dtrain
