#include "engine/config/diagnostics.h"

#include <gtest/gtest.h>

namespace dtrain {
namespace {

TEST(DiagnosticsTest, NamesPlaceKeyAndFault) {
  const Diagnostic diagnostic{Severity::kError, "a.yaml", 14, 3, "b.c", "bad"};

  EXPECT_EQ(diagnostic.ToString(), "a.yaml:14:3: b.c: bad");
}

TEST(DiagnosticsTest, MarksWhatIsNoError) {
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

TEST(DiagnosticsTest, EscapesWhatATerminalWouldObey) {
  const Diagnostic diagnostic{Severity::kError, "a\n.yaml", 1, 1,
                              "\x1b[2J",        "bad"};

  EXPECT_EQ(diagnostic.ToString(), "a\\x0a.yaml:1:1: \\x1b[2J: bad");
}

}  // namespace
}  // namespace dtrain
