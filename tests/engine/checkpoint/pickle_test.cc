#include "engine/checkpoint/pickle.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"

namespace dtrain {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// Returns a literal with its zero bytes.
template <std::size_t size>
std::string Raw(const char (&text)[size]) {
  return {text, size - 1};
}

// Returns a value and its contents as one line. REQUIRES: it has no cycles.
std::string Show(const Pickle& pickle, const PickleValue& value);

std::string Show(const Pickle& pickle, PickleIndex index) {
  return Show(pickle, pickle[index]);
}

struct Shower {
  const Pickle& pickle;

  std::string operator()(PickleNone) { return "None"; }
  std::string operator()(bool truth) { return truth ? "True" : "False"; }
  std::string operator()(std::int64_t number) { return std::to_string(number); }
  std::string operator()(double number) { return std::to_string(number); }
  std::string operator()(PickleText text) { return std::string(text.text); }
  std::string operator()(PickleBytes bytes) {
    return "b" + std::string(bytes.bytes);
  }
  std::string operator()(PickleLong bytes) {
    return std::to_string(bytes.bytes.size()) + " bytes";
  }
  std::string operator()(const PickleList& list) {
    std::string text = "[";
    for (const PickleIndex item : list.items) text += Show(pickle, item) + " ";
    return text + "]";
  }
  std::string operator()(const PickleDict& dict) {
    std::string text = "{";
    for (const auto& [key, value] : dict.items) {
      text += Show(pickle, key) + ":" + Show(pickle, value) + " ";
    }
    return text + "}";
  }
  std::string operator()(PickleGlobal global) { return global.FullName(); }
  std::string operator()(PicklePersistentId id) {
    return "id " + Show(pickle, id.id);
  }
  std::string operator()(PickleCall call) {
    return Show(pickle, call.function) + Show(pickle, call.arguments);
  }
};

std::string Show(const Pickle& pickle, const PickleValue& value) {
  return std::visit(Shower{pickle}, value);
}

// Returns the contents of the pickle, or the error.
std::string Outcome(const std::string& bytes) {
  try {
    const Pickle pickle(std::as_bytes(std::span(bytes)), "x.pkl");
    return Show(pickle, pickle.root());
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(PickleTest, ReadsNumbers) {
  EXPECT_EQ(Outcome(Raw("\x80\x02(K\x07M\x01\x02J\xfe\xff\xff\xff\x8a\x00\x8a"
                        "\x01\x80\x8a\x05\0\0\0\0\1G\x3f\xf8\0\0\0\0\0\0t.")),
            "[7 513 -2 0 -128 4294967296 1.500000 ]");
  EXPECT_EQ(Outcome(Raw("\x8b\x09\0\0\0"
                        "abcdefghi.")),
            "9 bytes");
  EXPECT_EQ(Outcome("(\x88\x89Nt."), "[True False None ]");
}

TEST(PickleTest, ReadsTextAndBytes) {
  EXPECT_EQ(Outcome(Raw("(X\2\0\0\0hi\x8c\2yoU\1pT\1\0\0\0qt.")),
            "[hi yo p q ]");
  EXPECT_EQ(Outcome(Raw("(C\1aB\1\0\0\0b\x8e\1\0\0\0\0\0\0\0ct.")),
            "[ba bb bc ]");
}

TEST(PickleTest, ReadsContainersInTheirOrder) {
  EXPECT_EQ(Outcome("](K\1K\2e."), "[1 2 ]");
  EXPECT_EQ(Outcome("]K\1aK\2a."), "[1 2 ]");
  EXPECT_EQ(Outcome("}(K\2K\1K\1K\2u."), "{2:1 1:2 }");
  EXPECT_EQ(Outcome("K\1K\2K\3\x87\x85."), "[[1 2 3 ] ]");
  EXPECT_EQ(Outcome("ccollections\nOrderedDict\n)R(K\1K\2u}b."), "{1:2 }");
  EXPECT_EQ(Outcome("ccollections\nOrderedDict\n]K\1K\2\x86\x61\x85R."),
            "{1:2 }");
}

TEST(PickleTest, ReadsTheObjectsOfAStateDict) {
  EXPECT_EQ(Outcome("ctorch\nSize\nK\1\x85\x85R."), "[1 ]");
  EXPECT_EQ(Outcome("ctorch\nfloat32\n."), "torch.float32");
  EXPECT_EQ(Outcome("\x8c\5torch\x8c\x0c"
                    "FloatStorage\x93."),
            "torch.FloatStorage");
  EXPECT_EQ(Outcome("K\5Q."), "id 5");
  EXPECT_EQ(Outcome("ctorch._utils\n_rebuild_tensor_v2\n)R."),
            "torch._utils._rebuild_tensor_v2[]");
}

TEST(PickleTest, MemoSharesAndDoesNotCopy) {
  // Fifty lists, each with the previous one twice: 2^50 numbers for Python.
  std::string bytes = "K\1q\1";
  for (int i = 0; i < 50; ++i) bytes += "h\1h\1\x86q\1";
  const Pickle pickle(std::as_bytes(std::span(bytes += '.')), "x.pkl");
  EXPECT_LT(pickle.values().size(), 110u);
}

TEST(PickleTest, ListMayHoldItself) {
  const std::string bytes = "]\x94h";
  const std::string whole = bytes + Raw("\0a.");
  const Pickle pickle(std::as_bytes(std::span(whole)), "x.pkl");
  const auto* list = std::get_if<PickleList>(&pickle.root());
  ASSERT_NE(list, nullptr);
  EXPECT_EQ(pickle.Get<PickleList>(list->items.at(0)), list);
}

TEST(PickleTest, DeepNestingTakesNoStack) {
  const std::string bytes = ")" + std::string(1'000'000, '\x85') + ".";
  const Pickle pickle(std::as_bytes(std::span(bytes)), "x.pkl");
  EXPECT_EQ(pickle.values().size(), 1'000'001u);
}

TEST(PickleTest, ReportsItsLength) {
  const std::string bytes = "K\1.K\2.";
  EXPECT_EQ(Pickle(std::as_bytes(std::span(bytes)), "x").size(), 3u);
}

TEST(PickleTest, RefusesEverythingElseByName) {
  EXPECT_EQ(Outcome("cposix\nsystem\nX\1"),
            "x.pkl: its pickle asks for posix.system; dtrain reads tensors, "
            "dicts, lists, numbers and plain objects only and runs nothing; "
            "save model.state_dict() alone");
  EXPECT_THAT(Outcome("\x8c\5posix\x8c\6system\x93)R."),
              HasSubstr("asks for posix.system;"));
  EXPECT_THAT(Outcome("ctorch\nload\n)R."), HasSubstr("asks for torch.load;"));
  EXPECT_THAT(Outcome("csubprocess\nPopen\n)R."),
              HasSubstr("asks for subprocess.Popen;"));
  EXPECT_THAT(Outcome("cmultiprocessing.pool\nPool\n)R."),
              HasSubstr("asks for multiprocessing.pool.Pool;"));
  EXPECT_THAT(Outcome("cbuiltins\neval\n)R."),
              HasSubstr("asks for builtins.eval;"));
  EXPECT_THAT(Outcome("ca\x1b[2J\nb\n."), HasSubstr("asks for a\\x1b[2J.b;"));
}

TEST(PickleTest, RefusesMoreValuesThanItMayHold) {
  EXPECT_THAT(Outcome(std::string(4'000'001, 'N')),
              HasSubstr("more than 4000000 values"));
  // A thousand pairs that are made into a dict many times.
  std::string bytes = "](";
  for (int i = 0; i < 1000; ++i) bytes += "K\1K\2\x86";
  bytes +=
      "eq\1"
      "ccollections\nOrderedDict\nq\2";
  for (int i = 0; i < 5000; ++i) bytes += "h\2h\1\x85R";
  EXPECT_THAT(Outcome(bytes), HasSubstr("more than 4000000 values"));
}

class GarbledPickleTest : public testing::TestWithParam<std::string> {};

TEST_P(GarbledPickleTest, IsRefused) {
  EXPECT_THAT(Outcome(GetParam()), StartsWith("x.pkl: its pickle "));
}

INSTANTIATE_TEST_SUITE_P(
    Bytes, GarbledPickleTest,
    testing::Values("", ".", "a.", "0.", "t.", "1.", "2.", "(.", "h\1.", "K",
                    "K\1K\2a.", "K\1(K\2s.", "](K\1u.", "}(K\1u.", "}K\1a.",
                    "q\1", "X\xff\xff\xff\xff", "Nb.", "NNb.", "NR.", "N)R.",
                    "\x80\x06N.", "\xff", "Q.", "cposix", "ctorch\nSize", "S.",
                    "NN\x93.", "(K\1\x86.", "\x8e\xff\xff\xff\xff\xff\xff\xff",
                    "ccollections\nOrderedDict\n]Na\x85R."),
    [](const auto& info) { return std::to_string(info.index); });

}  // namespace
}  // namespace dtrain
