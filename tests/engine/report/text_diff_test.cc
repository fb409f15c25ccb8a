#include "engine/report/text_diff.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/patience.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

std::vector<LineChange> Changes(const std::string& old_text,
                                const std::string& new_text) {
  return DiffLines(SplitLines(old_text), SplitLines(new_text));
}

std::string Hunks(const std::string& old_text, const std::string& new_text) {
  const auto old_lines = SplitLines(old_text), new_lines = SplitLines(new_text);
  return UnifiedHunks(old_lines, new_lines, DiffLines(old_lines, new_lines));
}

std::size_t Cost(const std::vector<LineChange>& changes) {
  std::size_t cost = 0;
  for (const LineChange& one : changes) cost += one.old_count + one.new_count;
  return cost;
}

// Removed and added lines of a shortest diff, by dynamic programming.
std::size_t LeastCost(const std::vector<std::string_view>& a,
                      const std::vector<std::string_view>& b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] =
          a[i - 1] == b[j - 1] ? diagonal : std::min(above, row[j - 1]) + 1;
      diagonal = above;
    }
  }
  return row[b.size()];
}

std::string Apply(const std::vector<std::string_view>& old_lines,
                  const std::vector<std::string_view>& new_lines,
                  const std::vector<LineChange>& changes) {
  std::string text;
  std::size_t x = 0;
  for (const LineChange& change : changes) {
    for (; x < change.old_begin; ++x) text += old_lines[x];
    for (std::size_t y = 0; y < change.new_count; ++y) {
      text += new_lines[change.new_begin + y];
    }
    x += change.old_count;
  }
  for (; x < old_lines.size(); ++x) text += old_lines[x];
  return text;
}

// A text of up to `most` lines of few kinds, at times without a last newline.
std::string RandomText(std::mt19937& random, std::size_t most) {
  const std::size_t kinds = 2 + random() % 8;
  std::string text;
  for (std::size_t i = random() % (most + 1); i > 0; --i) {
    text += "line " + std::to_string(random() % kinds) + "\n";
  }
  if (random() % 4 == 0 && !text.empty()) text.pop_back();
  return text;
}

TEST(TextDiffTest, SplitsTextsIntoLines) {
  EXPECT_THAT(SplitLines(""), IsEmpty());
  EXPECT_THAT(SplitLines("a\n\nb"), ElementsAre("a\n", "\n", "b"));
}

TEST(TextDiffTest, EqualTextsHaveNoChange) {
  EXPECT_THAT(Changes("a\nb\n", "a\nb\n"), IsEmpty());
  EXPECT_EQ(Hunks("", ""), "");
}

TEST(TextDiffTest, ReplacesLines) {
  EXPECT_THAT(Changes("a\nb\nc\n", "a\nx\ny\nc\n"),
              ElementsAre(LineChange{1, 1, 1, 2}));
  EXPECT_EQ(Hunks("a\nb\nc\n", "a\nx\ny\nc\n"),
            "@@ -1,3 +1,4 @@\n a\n-b\n+x\n+y\n c\n");
}

TEST(TextDiffTest, DiffersFromAnEmptyText) {
  EXPECT_EQ(Hunks("", "a\nb\n"), "@@ -0,0 +1,2 @@\n+a\n+b\n");
  EXPECT_EQ(Hunks("a\n", ""), "@@ -1 +0,0 @@\n-a\n");
}

TEST(TextDiffTest, MarksAMissingNewline) {
  EXPECT_EQ(Hunks("a\nb", "a\nb\n"),
            "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n");
}

TEST(TextDiffTest, JoinsChangesWhoseContextsTouch) {
  const std::string old_text = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
  EXPECT_EQ(Hunks(old_text, "1\nx\n3\n4\n5\n6\n7\n8\ny\n"),
            "@@ -1,9 +1,9 @@\n 1\n-2\n+x\n 3\n 4\n 5\n 6\n 7\n 8\n-9\n+y\n");
  EXPECT_EQ(Hunks(old_text, "x\n2\n3\n4\n5\n6\n7\n8\ny\n"),
            "@@ -1,4 +1,4 @@\n-1\n+x\n 2\n 3\n 4\n"
            "@@ -6,4 +6,4 @@\n 6\n 7\n 8\n-9\n+y\n");
}

TEST(TextDiffTest, IsShortestOnRandomTexts) {
  std::mt19937 random(1);
  for (int i = 0; i < (kSanitized ? 200 : 2000); ++i) {
    const std::string old_text = RandomText(random, 40);
    const std::string new_text = RandomText(random, 40);
    const auto a = SplitLines(old_text), b = SplitLines(new_text);
    const auto changes = DiffLines(a, b);
    ASSERT_EQ(Apply(a, b, changes), new_text) << i;
    ASSERT_EQ(Cost(changes), LeastCost(a, b)) << old_text << "---\n"
                                              << new_text;
  }
}

// Texts with more differences than a search looks for.
TEST(TextDiffTest, IsBoundedOnLargeDifferentTexts) {
  std::string old_text, new_text;
  std::mt19937 random(2);
  for (int i = 0; i < 50'000; ++i) {
    old_text += std::to_string(random() % 1000) + "\n";
    new_text += std::to_string(random() % 1000) + "\n";
  }
  const auto a = SplitLines(old_text), b = SplitLines(new_text);
  EXPECT_EQ(Apply(a, b, DiffLines(a, b)), new_text);
}

// patch(1) turns the old text into the new one, and diff(1) needs as many
// lines.
TEST(TextDiffTest, AppliesAsAPatch) {
  if (std::system("patch --version >/dev/null 2>&1") != 0) {
    GTEST_SKIP() << "patch is not installed";
  }
  const TemporaryDirectory directory;
  const auto write = [&](const char* name, const std::string& text) {
    std::ofstream(directory.path() / name, std::ios::binary) << text;
  };
  std::mt19937 random(3);
  for (int i = 0; i < 60; ++i) {
    const std::string old_text = RandomText(random, 60);
    const std::string new_text = RandomText(random, 60);
    const std::string hunks = Hunks(old_text, new_text);
    write("old", old_text);
    write("new", new_text);
    write("patch", "--- old\n+++ new\n" + hunks);
    const std::string command =
        "cd " + directory.path().string() +
        " && test $(diff -d -U3 old new | tail -n +3 | grep -c '^[-+]') = "
        "$(tail -n +3 patch | grep -c '^[-+]') && "
        "{ cmp -s old new || patch -s -u old patch; } && "
        "{ cmp -s old new || { ! test -s new && ! test -e old; }; }";
    ASSERT_EQ(std::system(command.c_str()), 0) << i << "\n" << hunks;
  }
}

}  // namespace
}  // namespace dtrain
