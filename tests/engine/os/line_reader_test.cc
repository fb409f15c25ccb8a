#include "engine/os/line_reader.h"

#include <array>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/socket.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/os/unique_fd.h"

namespace dtrain {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Optional;

// All lines that the splitter has; pieces and discarded lines in brackets.
std::vector<std::string> ReadLines(LineSplitter& splitter) {
  std::vector<std::string> lines;
  while (const auto line = splitter.Next()) {
    const std::string text(line->text);
    lines.push_back(line->overlong ? "[" + text + "]" : text);
  }
  return lines;
}

TEST(LineSplitterTest, KeepsAnIncompleteLine) {
  LineSplitter splitter(/*max_line=*/10);
  splitter.Append("one\ntw");
  EXPECT_THAT(ReadLines(splitter), ElementsAre("one"));
  splitter.Append("o\n\n");
  EXPECT_THAT(ReadLines(splitter), ElementsAre("two", ""));
  EXPECT_FALSE(splitter.Rest().has_value());
}

TEST(LineSplitterTest, RestIsTheLastLine) {
  LineSplitter splitter(/*max_line=*/10);
  splitter.Append("one\ntw");
  EXPECT_THAT(ReadLines(splitter), ElementsAre("one"));
  EXPECT_EQ(splitter.Rest()->text, "tw");
  EXPECT_FALSE(splitter.Rest().has_value());
}

TEST(LineSplitterTest, CutsAnOverlongLine) {
  LineSplitter splitter(/*max_line=*/4, LineSplitter::Overlong::kCut);
  splitter.Append("0123456789\n0123\n");
  EXPECT_THAT(ReadLines(splitter),
              ElementsAre("[0123]", "[4567]", "89", "0123"));
}

TEST(LineSplitterTest, DiscardsAnOverlongLine) {
  LineSplitter splitter(/*max_line=*/4, LineSplitter::Overlong::kDiscard);
  splitter.Append("01234");
  EXPECT_THAT(ReadLines(splitter), IsEmpty());
  splitter.Append(std::string(1'000, 'x') + "\n0123\n01234\n");
  EXPECT_THAT(
      ReadLines(splitter),
      ElementsAre("[01234" + std::string(95, 'x') + "]", "0123", "[01234]"));
}

TEST(LineSplitterTest, ClearForgetsAnOverlongLine) {
  LineSplitter splitter(/*max_line=*/4, LineSplitter::Overlong::kDiscard);
  splitter.Append("01234");
  EXPECT_THAT(ReadLines(splitter), IsEmpty());
  splitter.Clear();
  splitter.Append("new\n");
  EXPECT_THAT(ReadLines(splitter), ElementsAre("new"));
}

class LineReaderTest : public testing::Test {
 protected:
  void SetUp() override {
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()),
              0);
    near_.reset(ends[0]);
    far_.reset(ends[1]);
    ASSERT_EQ(::fcntl(near_.get(), F_SETFL, O_NONBLOCK), 0);
  }

  UniqueFd near_;
  UniqueFd far_;
};

TEST_F(LineReaderTest, ReturnsCompleteLinesOnly) {
  LineReader reader(near_.get());
  ASSERT_TRUE(WriteAll(far_.get(), "one\n\ntw"));

  ASSERT_TRUE(reader.Fill());

  EXPECT_THAT(reader.Next(), Optional(std::string("one")));
  EXPECT_THAT(reader.Next(), Optional(std::string()));
  EXPECT_EQ(reader.Next(), std::nullopt);
  ASSERT_TRUE(WriteAll(far_.get(), "o\n"));
  ASSERT_TRUE(reader.Fill());
  EXPECT_THAT(reader.Next(), Optional(std::string("two")));
}

TEST_F(LineReaderTest, WouldBlockIsNotTheEnd) {
  LineReader reader(near_.get());

  EXPECT_TRUE(reader.Fill());
  EXPECT_EQ(reader.Next(), std::nullopt);
}

TEST_F(LineReaderTest, EndsWithTheStreamAndDropsATornLine) {
  LineReader reader(near_.get());
  ASSERT_TRUE(WriteAll(far_.get(), "one\ntor"));
  far_.reset();

  ASSERT_TRUE(reader.Fill());
  EXPECT_FALSE(reader.Fill());

  EXPECT_THAT(reader.Next(), Optional(std::string("one")));
  EXPECT_EQ(reader.Next(), std::nullopt);
}

TEST_F(LineReaderTest, ResetConnectionIsTheEnd) {
  LineReader reader(near_.get());
  // Unread data turns the peer's close into a reset.
  ASSERT_TRUE(WriteAll(near_.get(), "unread\n"));
  far_.reset();

  EXPECT_FALSE(reader.Fill());
}

TEST_F(LineReaderTest, RefusesALineThatIsTooLong) {
  LineReader reader(near_.get(), /*max_line=*/8);
  ASSERT_TRUE(WriteAll(far_.get(), "12345678\n123456789"));
  ASSERT_TRUE(reader.Fill());

  EXPECT_THAT(reader.Next(), Optional(std::string("12345678")));
  EXPECT_THROW(reader.Next(), Error);
}

TEST_F(LineReaderTest, JoinsALineOfManyReads) {
  ASSERT_EQ(::fcntl(near_.get(), F_SETFL, 0), 0);
  LineReader reader(near_.get());
  const std::string sent(5'000'000, 'x');
  std::thread writer([&] { EXPECT_TRUE(WriteAll(far_.get(), sent + "\n")); });

  std::optional<std::string> line;
  while (!line && reader.Fill()) line = reader.Next();
  writer.join();

  EXPECT_EQ(line, sent);
}

TEST_F(LineReaderTest, WriteAllWaitsForASlowReader) {
  ASSERT_EQ(::fcntl(far_.get(), F_SETFL, O_NONBLOCK), 0);
  ASSERT_EQ(::fcntl(near_.get(), F_SETFL, 0), 0);
  LineReader reader(near_.get());
  std::size_t lines = 0;
  std::thread slow([&] {
    while (reader.Fill()) {
      while (reader.Next()) ++lines;
    }
  });
  std::string text;
  for (int i = 0; i < 200'000; ++i) text += "line\n";

  EXPECT_TRUE(WriteAll(far_.get(), text));
  far_.reset();
  slow.join();

  EXPECT_EQ(lines, 200'000u);
}

TEST_F(LineReaderTest, WriteAllReportsThatThePeerIsGone) {
  near_.reset();

  EXPECT_FALSE(WriteAll(far_.get(), "anyone?\n"));
}

TEST_F(LineReaderTest, UnreadableDescriptorIsAnError) {
  LineReader reader(-1);

  EXPECT_THROW(static_cast<void>(reader.Fill()), Error);
}

TEST_F(LineReaderTest, LineSocketBuffersWhatIsUnread) {
  ASSERT_EQ(::fcntl(far_.get(), F_SETFL, O_NONBLOCK), 0);
  LineSocket socket(std::move(far_), "the reader");
  const std::string line(1'000'000, 'x');
  for (int i = 0; i < 4; ++i) socket.Write(line + "\n");
  ASSERT_TRUE(socket.wants_write());

  LineReader reader(near_.get());
  std::vector<std::string> lines;
  while (lines.size() < 4) {
    ASSERT_TRUE(reader.Fill());
    while (const auto next = reader.Next()) lines.push_back(*next);
    socket.Flush();
  }

  EXPECT_THAT(lines, Each(line));
  EXPECT_FALSE(socket.wants_write());
}

TEST_F(LineReaderTest, LineSocketThrowsIfTooMuchIsUnread) {
  ASSERT_EQ(::fcntl(far_.get(), F_SETFL, O_NONBLOCK), 0);
  LineSocket socket(std::move(far_), "the reader");
  const std::string line(10'000'000, 'x');

  EXPECT_THROW(socket.Write(line + "\n"), Error);
}

TEST_F(LineReaderTest, LineSocketDropsLinesOfAClosedConnection) {
  ASSERT_EQ(::fcntl(far_.get(), F_SETFL, O_NONBLOCK), 0);
  LineSocket socket(std::move(far_), "the reader");
  near_.reset();

  socket.Write("anyone?\n");

  EXPECT_FALSE(socket.wants_write());
}

}  // namespace
}  // namespace dtrain
