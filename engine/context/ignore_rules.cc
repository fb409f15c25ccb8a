// A pattern is compiled to a list of tokens and matched by simulating the
// automaton that they are: `states` has the tokens that may match next, and
// each byte of the path moves all of them on. There is no backtracking, so a
// pattern such as "*a*a*a*b" takes no longer than another. fnmatch(3) has
// neither `**` nor git's rules for brackets
// (docs/decisions/0019-gitignore-patterns.md).

#include "engine/context/ignore_rules.h"

#include <array>
#include <cctype>
#include <ranges>
#include <utility>

#include "engine/base/text.h"

namespace dtrain {

void IgnoreRules::Add(std::string_view text, const std::string& directory,
                      const std::string& name) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  int number = 0;
  for (const std::string& line : Split(text, '\n')) {
    ++number;
    auto pattern = IgnorePattern::Parse(line);
    if (!pattern) continue;
    rules_.push_back({directory, *std::move(pattern),
                      directory + name + ":" + std::to_string(number) + " (" +
                          std::string(Trim(line)) + ")"});
  }
}

// The last matching rule decides, as in git; rules of inner directories come
// later.
const IgnoreRules::Rule* IgnoreRules::FindLast(std::string_view path,
                                               bool is_directory) const {
  for (const Rule& rule : std::views::reverse(rules_)) {
    if (!path.starts_with(rule.directory)) continue;
    const std::string_view inside = path.substr(rule.directory.size());
    if (rule.pattern.Matches(inside, is_directory)) return &rule;
  }
  return nullptr;
}

std::string IgnoreRules::FindRule(std::string_view path,
                                  bool is_directory) const {
  const Rule* const rule = FindLast(path, is_directory);
  return rule == nullptr || rule->pattern.negated() ? "" : rule->place;
}

bool IgnoreRules::IsRestored(std::string_view path, bool is_directory) const {
  const Rule* const rule = FindLast(path, is_directory);
  return rule != nullptr && rule->pattern.negated();
}

namespace {

using Bytes = std::bitset<256>;

unsigned char Index(char c) { return static_cast<unsigned char>(c); }

// Returns the bytes of a named class such as `digit`, or nothing if unknown.
std::optional<Bytes> FindCharacterClass(std::string_view name) {
  using Test = int (*)(int);
  static constexpr std::array<std::pair<std::string_view, Test>, 12> kClasses =
      {{{"alnum", std::isalnum},
        {"alpha", std::isalpha},
        {"blank", std::isblank},
        {"cntrl", std::iscntrl},
        {"digit", std::isdigit},
        {"graph", std::isgraph},
        {"lower", std::islower},
        {"print", std::isprint},
        {"punct", std::ispunct},
        {"space", std::isspace},
        {"upper", std::isupper},
        {"xdigit", std::isxdigit}}};
  for (const auto& [known, test] : kClasses) {
    if (known != name) continue;
    Bytes bytes;
    for (int c = 0; c < 128; ++c) bytes[c] = test(c) != 0;
    return bytes;
  }
  return std::nullopt;
}

}  // namespace

std::optional<IgnorePattern> IgnorePattern::Parse(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line.starts_with('#')) return std::nullopt;
  std::size_t end = 0;  // of what stands before the blanks, unless escaped
  for (std::size_t i = 0; i < line.size(); ++i) {
    const bool escape = line[i] == '\\' && i + 1 < line.size();
    if (escape) ++i;
    if (escape || line[i] != ' ') end = i + 1;
  }
  line = line.substr(0, end);
  IgnorePattern pattern;
  if (line.starts_with('!')) {
    pattern.negated_ = true;
    line.remove_prefix(1);
  }
  if (line.ends_with('/')) {
    pattern.directory_only_ = true;
    line.remove_suffix(1);
  }
  if (line.empty()) return std::nullopt;
  pattern.whole_path_ = line.find('/') != line.npos;
  if (line.starts_with('/')) line.remove_prefix(1);
  pattern.Compile(line);
  return pattern;
}

void IgnorePattern::Compile(std::string_view text) {
  // Git strips a literal prefix first, so stars after it count as leading.
  const std::size_t plain = std::min(text.find_first_of("*?[\\"), text.size());
  std::size_t at = 0;
  while (at < text.size() && valid_) {
    if (text[at] == '*') {
      at = CompileStars(text, at, plain);
    } else if (text[at] == '[') {
      at = CompileSet(text, at);
    } else if (text[at] == '?') {
      tokens_.push_back({.kind = Kind::kAny});
      ++at;
    } else {
      if (text[at] == '\\') ++at;
      valid_ = at < text.size();
      if (valid_) tokens_.push_back({.byte = text[at++]});
    }
  }
}

// Two stars stand for directories only where they are alone between slashes;
// elsewhere they are one star, which no slash passes.
std::size_t IgnorePattern::CompileStars(std::string_view text, std::size_t at,
                                        std::size_t plain) {
  const std::size_t begin = at;
  while (at < text.size() && text[at] == '*') ++at;
  const std::string_view rest = text.substr(at);
  const bool alone =
      at - begin > 1 && (begin == plain || text[begin - 1] == '/') &&
      (rest.empty() || rest.starts_with('/') || rest.starts_with("\\/"));
  if (!alone || !whole_path_) {
    tokens_.push_back({.kind = Kind::kStar});
    return at;
  }
  if (!rest.starts_with('/')) {
    tokens_.push_back({.kind = Kind::kEverything});
    return at;
  }
  tokens_.push_back({.kind = Kind::kDirectories});
  tokens_.push_back({.kind = Kind::kInside});
  return at + 1;
}

// Compiles the bracket expression at `at`; returns the position after it.
std::size_t IgnorePattern::CompileSet(std::string_view text, std::size_t at) {
  Bytes set;
  // Reads past the end as 0, which no path contains.
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? text[i] : 0;
  };
  const bool inverted = byte(++at) == '!' || byte(at) == '^';
  if (inverted) ++at;
  char previous = 0;  // possible start of a range
  for (bool first = true; first || byte(at) != ']'; first = false, ++at) {
    if (byte(at) == '-' && previous != 0 && byte(at + 1) != 0 &&
        byte(at + 1) != ']') {
      if (byte(++at) == '\\') ++at;
      for (int c = Index(previous); c <= Index(byte(at)); ++c) set.set(c);
      previous = 0;
    } else if (const std::size_t end = text.find(']', at + 2);
               text.substr(at).starts_with("[:") && end != text.npos &&
               end > at + 2 && text[end - 1] == ':') {
      const auto named = FindCharacterClass(text.substr(at + 2, end - at - 3));
      if (!named) valid_ = false;
      set |= named.value_or(Bytes());
      at = end;
      previous = 0;
    } else {
      if (byte(at) == '\\') ++at;
      previous = byte(at);
      set.set(Index(previous));
    }
    if (at >= text.size()) {  // not closed
      valid_ = false;
      return at;
    }
  }
  if (inverted) set.flip();
  set.reset('/');
  tokens_.push_back({.kind = Kind::kSet, .set = set});
  return at + 1;
}

bool IgnorePattern::Matches(std::string_view path, bool is_directory) const {
  if (!valid_ || (directory_only_ && !is_directory)) return false;
  if (!whole_path_) path.remove_prefix(path.rfind('/') + 1);
  return MatchesText(path);
}

// Adds `token` to the states and, if it can match nothing, the next token too.
void IgnorePattern::Enter(std::size_t token, std::vector<char>& states) const {
  states[token] = 1;
  if (token == tokens_.size()) return;
  const Kind kind = tokens_[token].kind;
  if (kind == Kind::kStar || kind == Kind::kEverything) {
    Enter(token + 1, states);
  } else if (kind == Kind::kDirectories) {
    states[token] = 0;
    Enter(token + 1, states);
    Enter(token + 2, states);
  }
}

bool IgnorePattern::MatchesText(std::string_view text) const {
  std::vector<char> states(tokens_.size() + 1, 0);
  std::vector<char> next(states.size(), 0);
  Enter(0, states);
  for (const char c : text) {
    next.assign(next.size(), 0);
    bool any = false;
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      if (states[i] == 0) continue;
      const Token& token = tokens_[i];
      const bool stays = token.kind == Kind::kEverything ||
                         token.kind == Kind::kInside ||
                         (token.kind == Kind::kStar && c != '/');
      const bool passes = (token.kind == Kind::kByte && token.byte == c) ||
                          (token.kind == Kind::kAny && c != '/') ||
                          (token.kind == Kind::kSet && token.set[Index(c)]) ||
                          (token.kind == Kind::kInside && c == '/');
      if (stays) Enter(i, next);
      if (passes) Enter(i + 1, next);
      any = any || stays || passes;
    }
    if (!any) return false;
    states.swap(next);
  }
  return states.back() != 0;
}

}  // namespace dtrain
