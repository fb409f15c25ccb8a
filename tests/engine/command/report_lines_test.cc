#include "engine/command/report_lines.h"

#include <array>
#include <string>
#include <string_view>

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain {
namespace {

using testing::ElementsAre;

class ReportLinesTest : public testing::Test {
 protected:
  ReportLinesTest() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe(ends.data()), 0);
    writing_.reset(ends[1]);
    lines_.emplace(UniqueFd(ends[0]), /*max_line=*/10);
  }

  void Write(std::string_view text) {
    ASSERT_EQ(::write(writing_.get(), text.data(), text.size()),
              static_cast<ssize_t>(text.size()));
  }
  // The lines that there are now; those that were too long in brackets.
  std::vector<std::string> Read() {
    open_ = lines_->Fill();
    std::vector<std::string> texts;
    while (const auto line = lines_->Next()) {
      texts.push_back(line->too_long ? "[" + line->text + "]" : line->text);
    }
    return texts;
  }

  UniqueFd writing_;
  std::optional<ReportLines> lines_;
  bool open_ = false;
};

TEST_F(ReportLinesTest, CutsWhatComesInPieces) {
  Write("one\ntw");
  EXPECT_THAT(Read(), ElementsAre("one"));
  Write("o\n\nthree\n");
  EXPECT_THAT(Read(), ElementsAre("two", "", "three"));
  EXPECT_TRUE(open_);
}

TEST_F(ReportLinesTest, GivesNothingWhereNothingIsThere) {
  EXPECT_THAT(Read(), testing::IsEmpty());
  EXPECT_TRUE(open_);
}

TEST_F(ReportLinesTest, LastLineNeedsNoNewline) {
  Write("last");
  EXPECT_THAT(Read(), testing::IsEmpty());
  writing_.reset();
  EXPECT_THAT(Read(), ElementsAre("last"));
  EXPECT_FALSE(open_);
}

TEST_F(ReportLinesTest, DiscardsALineThatIsTooLongAndGoesOn) {
  Write("0123456789a");
  EXPECT_THAT(Read(), testing::IsEmpty());
  Write(std::string(1000, 'b'));
  EXPECT_THAT(Read(), testing::IsEmpty());
  Write("c\nshort\n");
  const auto lines = Read();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_THAT(lines[0], testing::StartsWith("[0123456789a"));
  EXPECT_LE(lines[0].size(), 102u);
  EXPECT_EQ(lines[1], "short");
}

}  // namespace
}  // namespace dtrain
