#include "engine/config/findings.h"

#include <array>

#include <gtest/gtest.h>

namespace dtrain {
namespace {

class FindingsTest : public testing::Test {
 protected:
  const std::array<std::string, 1> overrides_ = {"a.b=secret"};
  Findings findings_{"f.yaml", overrides_};
};

TEST_F(FindingsTest, SortsByPlaceWithOverridesLast) {
  findings_.Error({.override_index = 0}, "a.b", "x");
  findings_.Error({5, 1}, "late", "x");
  findings_.Warning({2, 7}, "right", "x");
  findings_.AddNote({2, 3}, "left", "x");

  const Diagnostics all = findings_.Release();

  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[0].key, "left");
  EXPECT_EQ(all[1].key, "right");
  EXPECT_EQ(all[2].key, "late");
  EXPECT_EQ(all[3].key, "a.b");
}

TEST_F(FindingsTest, NamesOverridesWithoutTheirValue) {
  findings_.Error({.override_index = 0}, "a.b", "bad");

  EXPECT_EQ(findings_.Release().at(0).ToString(), "--set a.b: a.b: bad");
}

TEST_F(FindingsTest, SuggestsTheNearestKey) {
  const std::array<std::string, 2> names = {"max_length", "metric"};

  findings_.UnknownKey({1, 1}, "searcher.max_lenght", "max_lenght", names);
  findings_.UnknownKey({2, 1}, "searcher.zzz", "zzz", names);

  const Diagnostics all = findings_.Release();
  EXPECT_EQ(all.at(0).message, "unknown key; did you mean 'max_length'?");
  EXPECT_EQ(all.at(1).message, "unknown key; remove it");
}

TEST_F(FindingsTest, CountsErrorsOnly) {
  findings_.Warning({1, 1}, "a", "x");
  findings_.NotYet({1, 1}, "a", "x");
  findings_.Error({1, 1}, "a", "x");

  EXPECT_EQ(findings_.errors(), 1);
}

TEST(DiagnosticsTest, NamesPlaceKeyAndFault) {
  const Diagnostic diagnostic{Severity::kError, "a.yaml", 14, 3, "b.c", "bad"};

  EXPECT_EQ(diagnostic.ToString(), "a.yaml:14:3: b.c: bad");
}

TEST(DiagnosticsTest, MarksNotesAndWarnings) {
  const Diagnostic warning{Severity::kWarning, "a.yaml", 1, 2, "b", "odd"};
  const Diagnostic note{Severity::kNote, "a.yaml", 1, 2, "b", "ignored"};
  const Diagnostic later{Severity::kNotYet, "a.yaml", 1, 2, "b", "valid"};

  EXPECT_EQ(warning.ToString(), "a.yaml:1:2: b: warning: odd");
  EXPECT_EQ(note.ToString(), "a.yaml:1:2: b: note: ignored");
  EXPECT_EQ(later.ToString(), "a.yaml:1:2: b: not yet: valid");
}

TEST(DiagnosticsTest, LeavesOutThePlaceOfWholeFiles) {
  const Diagnostic diagnostic{Severity::kError, "a.yaml", 0, 0, "", "is empty"};

  EXPECT_EQ(diagnostic.ToString(), "a.yaml: is empty");
}

TEST(DiagnosticsTest, EscapesControlCharacters) {
  const Diagnostic diagnostic{Severity::kError, "a\n.yaml", 1, 1,
                              "\x1b[2J",        "bad"};

  EXPECT_EQ(diagnostic.ToString(), "a\\x0a.yaml:1:1: \\x1b[2J: bad");
}

}  // namespace

}  // namespace dtrain
