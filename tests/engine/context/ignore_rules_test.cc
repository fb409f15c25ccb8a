// Answers of git 2.39's `git check-ignore --no-index` to these questions.

#include "engine/context/ignore_rules.h"

#include <algorithm>
#include <chrono>

#include <gtest/gtest.h>

namespace dtrain {
namespace {

// Whether `path` (a directory if it ends with a slash) is ignored, or lies in a
// directory that is.
bool Ignores(const IgnoreRules& rules, const std::string& path) {
  for (std::size_t end = 0; end < path.size();) {
    end = std::min(path.find('/', end + 1), path.size());
    const bool is_directory = end < path.size();
    if (!rules.FindRule(path.substr(0, end), is_directory).empty()) return true;
    if (end + 1 == path.size()) break;
  }
  return false;
}

struct IgnoreCase {
  std::string patterns;
  std::string path;
  bool ignored = true;
};

std::ostream& operator<<(std::ostream& out, const IgnoreCase& c) {
  return out << '[' << c.patterns << "] " << c.path;
}

class IgnoreRulesTest : public testing::TestWithParam<IgnoreCase> {};

TEST_P(IgnoreRulesTest, MatchesGit) {
  IgnoreRules rules;
  rules.Add(GetParam().patterns, "");
  EXPECT_EQ(Ignores(rules, GetParam().path), GetParam().ignored);
}

constexpr bool kNo = false;

INSTANTIATE_TEST_SUITE_P(
    Lines, IgnoreRulesTest,
    testing::Values(IgnoreCase{"", "a", kNo}, IgnoreCase{"# a\n", "# a", kNo},
                    IgnoreCase{"\\#x\n", "#x"}, IgnoreCase{"\\!x\n", "!x"},
                    IgnoreCase{"   \n", "   ", kNo}, IgnoreCase{"x  \n", "x"},
                    IgnoreCase{"x\\ \n", "x "}, IgnoreCase{"x\\ \n", "x", kNo},
                    IgnoreCase{"x\t\n", "x", kNo}, IgnoreCase{"x\r\n", "x"},
                    IgnoreCase{"x", "x"}, IgnoreCase{"\xEF\xBB\xBFx\n", "x"},
                    IgnoreCase{"/\n", "a", kNo}, IgnoreCase{"!\n", "a", kNo},
                    IgnoreCase{"x\\\n", "x\\", kNo}));

INSTANTIATE_TEST_SUITE_P(
    Places, IgnoreRulesTest,
    testing::Values(
        IgnoreCase{"*.o\n", "a/b.o"}, IgnoreCase{"/*.o\n", "b.o"},
        IgnoreCase{"/*.o\n", "a/b.o", kNo}, IgnoreCase{"foo/\n", "foo", kNo},
        IgnoreCase{"foo/\n", "foo/"}, IgnoreCase{"foo/\n", "a/foo/"},
        IgnoreCase{"foo/\n", "a/foo/b"}, IgnoreCase{"foo/bar\n", "foo/bar"},
        IgnoreCase{"foo/bar\n", "x/foo/bar", kNo},
        IgnoreCase{"foo\\/bar\n", "foo/bar"},
        IgnoreCase{"doc/*.txt\n", "doc/a.txt"},
        IgnoreCase{"doc/*.txt\n", "doc/sub/x.txt", kNo},
        IgnoreCase{"a/*\n", "a/b/c"}, IgnoreCase{"*\n", "a/b"}));

INSTANTIATE_TEST_SUITE_P(
    Wildcards, IgnoreRulesTest,
    testing::Values(
        IgnoreCase{"a?c\n", "abc"}, IgnoreCase{"a?c\n", "a/c", kNo},
        IgnoreCase{"x/a?c\n", "x/abc"}, IgnoreCase{"a\\*b\n", "a*b"},
        IgnoreCase{"a\\*b\n", "axb", kNo}, IgnoreCase{"*\\.txt\n", "a.txt"},
        IgnoreCase{"[a-c]x\n", "bx"}, IgnoreCase{"[!a-c]x\n", "bx", kNo},
        IgnoreCase{"[^a-c]x\n", "dx"}, IgnoreCase{"[]]x\n", "]x"},
        IgnoreCase{"[\\]]x\n", "]x"}, IgnoreCase{"[[:digit:]]x\n", "5x"},
        IgnoreCase{"[[:digit:]]x\n", "ax", kNo},
        IgnoreCase{"[[:nothing:]]x\n", "nx", kNo},
        IgnoreCase{"[a\n", "[a", kNo}, IgnoreCase{"[a\n", "a", kNo},
        IgnoreCase{"[a-]x\n", "-x"}, IgnoreCase{"a[/]b\n", "a/b", kNo}));

INSTANTIATE_TEST_SUITE_P(
    Stars, IgnoreRulesTest,
    testing::Values(
        IgnoreCase{"**\n", "a/b"}, IgnoreCase{"**/foo\n", "foo"},
        IgnoreCase{"**/foo\n", "a/b/foo"},
        IgnoreCase{"**/foo/\n", "a/foo", kNo}, IgnoreCase{"a/**/b\n", "a/b"},
        IgnoreCase{"a/**/b\n", "a/x/y/b"}, IgnoreCase{"a/**/b\n", "ab", kNo},
        IgnoreCase{"abc/**\n", "abc/d/e"}, IgnoreCase{"abc/**\n", "abc/", kNo},
        IgnoreCase{"a**b\n", "axxb"}, IgnoreCase{"a**b\n", "a/b", kNo},
        IgnoreCase{"a/**b\n", "a/xb"}, IgnoreCase{"a/**b\n", "a/x/b", kNo},
        IgnoreCase{"x/a**b\n", "x/a/b", kNo},
        IgnoreCase{"foo**/bar\n", "fooa/b/bar"}));

INSTANTIATE_TEST_SUITE_P(
    Negations, IgnoreRulesTest,
    testing::Values(IgnoreCase{"*.txt\n!a.txt\n", "a.txt", kNo},
                    IgnoreCase{"*.txt\n!a.txt\n", "b.txt"},
                    IgnoreCase{"!a.txt\n*.txt\n", "a.txt"},
                    IgnoreCase{"dir/\n!dir/a\n", "dir/a"},
                    IgnoreCase{"dir/*\n!dir/a\n", "dir/a", kNo},
                    IgnoreCase{"/*\n!/foo\n/foo/*\n!/foo/bar\n", "foo/bar",
                               kNo},
                    IgnoreCase{"/*\n!/foo\n/foo/*\n!/foo/bar\n", "foo/x"}));

TEST(IgnoreRulesFilesTest, TakeADirectorysOwnFileBeforeThoseAbove) {
  IgnoreRules rules;
  rules.Add("*.log\n/top\n", "");
  rules.Add("!keep.log\n/own\n", "sub/");
  EXPECT_FALSE(Ignores(rules, "sub/keep.log"));
  EXPECT_TRUE(Ignores(rules, "keep.log"));
  EXPECT_TRUE(Ignores(rules, "sub/own"));
  EXPECT_FALSE(Ignores(rules, "sub/top"));
  rules.Truncate(2);
  EXPECT_TRUE(Ignores(rules, "sub/keep.log"));
}

TEST(IgnoreRulesFilesTest, AreFastForAdversarialPatterns) {
  IgnoreRules rules;
  std::string pattern;
  for (int i = 0; i < 40; ++i) pattern += "a*";
  rules.Add(pattern + "b\n", "");
  // By trying all there is it would take longer than there is time.
  EXPECT_FALSE(Ignores(rules, std::string(200, 'a')));
}

}  // namespace
}  // namespace dtrain
