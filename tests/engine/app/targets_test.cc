// Experiments and trials as arguments name them: the sample store has the
// experiments 1 alpha, 2 with control characters, 3 gamma, and 4 delta.

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/app/stores.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/store/store.h"
#include "tests/support/sample_store.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

using testing::HasSubstr;

class TargetsTest : public testing::Test {
 protected:
  TargetsTest() {
    FillSampleStore(layout_.root());
    AddAccuracySearch(layout_.root());
  }

  void AddExperiment(const std::string& name) const {
    Store store = Store::OpenForWriting(layout_);
    store.Write([&](StoreWriter& writer) {
      writer.AddExperiment({.name = name,
                            .searcher = "random",
                            .metric = "loss",
                            .config = nlohmann::json::object(),
                            .created = Timestamp(1'000'000)});
    });
  }

  // Returns the text of the error of `call`, which must be of this kind.
  template <typename Call>
  std::string Refusal(ErrorKind kind, const Call& call) const {
    const Store store = Store::OpenForReading(layout_);
    try {
      call(store);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
      return error.what();
    }
    ADD_FAILURE() << "not refused";
    return "";
  }
  std::string RefusedTarget(ErrorKind kind, const std::string& text) const {
    return Refusal(kind,
                   [&](const Store& store) { ResolveTarget(store, text); });
  }
  std::string RefusedExperiment(ErrorKind kind, const std::string& text) const {
    return Refusal(kind,
                   [&](const Store& store) { ResolveExperiment(store, text); });
  }

  std::string Resolved(const std::string& text) const {
    return ToString(ResolveTarget(Store::OpenForReading(layout_), text));
  }
  std::vector<std::int64_t> Experiments(
      const std::vector<std::string>& words) const {
    return ResolveExperiments(Store::OpenForReading(layout_), words);
  }
  // "3.7", or "checkpoint" for the start of a UUID.
  std::string Source(const std::string& text) const {
    const auto target = ResolveSource(Store::OpenForReading(layout_), text);
    return target ? ToString(*target) : "checkpoint";
  }

  const TemporaryDirectory directory_;
  const StoreLayout layout_{directory_.path() / "store"};
};

TEST_F(TargetsTest, AreNumbersWordsAndNames) {
  const std::pair<const char*, const char*> rows[] = {
      {"3", "3"},         {"3.7", "3.7"}, {"99", "99"},   {"last", "4"},
      {"last.2", "4.2"},  {"alpha", "1"}, {"gamma", "3"}, {"alpha.2", "1.2"},
      {"gamma.9", "3.9"}, {"4-9", "4"},   {"4-4", "4"}};
  for (const auto& [text, target] : rows) {
    EXPECT_EQ(Resolved(text), target) << text;
  }
}

TEST_F(TargetsTest, OfARangeAreThoseThatExist) {
  EXPECT_EQ(Experiments({"1-3"}), (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(Experiments({"3-99", "alpha", "3"}),
            (std::vector<std::int64_t>{3, 4, 1}));
  const Store store = Store::OpenForReading(layout_);
  EXPECT_EQ(ResolveTargets(store, {"1.2", "3-4", "4"}),
            (std::vector<Target>{{1, 2}, {3, {}}, {4, {}}, {4, {}}}));
  EXPECT_THAT(RefusedTarget(ErrorKind::kNotFound, "7-9"),
              HasSubstr("in the range 7-9 exists"));
  EXPECT_THAT(RefusedTarget(ErrorKind::kUsage, "3-1"),
              HasSubstr("smaller number first: 1-3"));
  EXPECT_THAT(RefusedTarget(ErrorKind::kUsage, "1-3"),
              HasSubstr("'1-3' names 3 experiments"));
}

TEST_F(TargetsTest, RefuseANameOfSeveralOrNone) {
  AddExperiment("alpha");
  const std::string several =
      "several experiments are named 'alpha': 1, 5; give a number";
  EXPECT_THAT(RefusedTarget(ErrorKind::kUsage, "alpha"), HasSubstr(several));
  EXPECT_THAT(RefusedTarget(ErrorKind::kUsage, "alpha.1"), HasSubstr(several));
  EXPECT_THAT(RefusedExperiment(ErrorKind::kUsage, "alpha.1"),
              HasSubstr(several));
  EXPECT_THAT(RefusedTarget(ErrorKind::kNotFound, "gama"),
              HasSubstr("did you mean 'gamma'?"));
  EXPECT_THAT(RefusedTarget(ErrorKind::kNotFound, "nosuch"),
              HasSubstr("no experiment is named 'nosuch'"));
  EXPECT_THAT(RefusedExperiment(ErrorKind::kUsage, "delta.1"),
              HasSubstr("'delta.1' is not a valid experiment ID"));
  for (const char* text : {"1x", "", "0", "-1", "3.", "3.0", "3.x", ".3"}) {
    EXPECT_THAT(RefusedTarget(ErrorKind::kUsage, text),
                HasSubstr("'" + std::string(text) + "' is not a valid ID"));
  }
}

TEST_F(TargetsTest, RefuseAWordThatIsAlsoTheNameOfAnother) {
  AddExperiment("last");
  EXPECT_EQ(Resolved("last"), "5");  // the newest, too
  AddExperiment("1-2");
  AddExperiment("3");
  EXPECT_THAT(
      RefusedTarget(ErrorKind::kUsage, "last"),
      HasSubstr("'last' is experiment 7 and also the name of experiment 5"));
  EXPECT_THAT(RefusedTarget(ErrorKind::kUsage, "1-2"),
              HasSubstr("also the name of experiment 6; give a number"));
  EXPECT_EQ(Resolved("3"), "3");  // always a number
}

TEST_F(TargetsTest, TakeThePlaceOfACheckpoint) {
  AddCheckpoint(layout_, {4, 1}, 50, 'b');
  AddExperiment("bbbb");
  AddExperiment("cafe");
  const std::pair<const char*, const char*> rows[] = {
      {"3", "3"},
      {"3.7", "3.7"},
      {"alpha.2", "1.2"},
      {"last", "6"},
      {"bbbb", "checkpoint"},  // the start of a UUID comes before a name
      {"cafe", "6"},           // no checkpoint starts with it
      {"1234", "checkpoint"},  // no such experiment
      {"beef", "checkpoint"},  // may be the start of one
      {"0001", "checkpoint"},  // an ID has no leading zero
      {"bbbbbbbb-0", "checkpoint"}};
  for (const auto& [text, target] : rows) {
    EXPECT_EQ(Source(text), target) << text;
  }
  EXPECT_THAT(Refusal(ErrorKind::kNotFound,
                      [](const Store& store) { ResolveSource(store, "gama"); }),
              HasSubstr("did you mean 'gamma'?"));
}

}  // namespace
}  // namespace dtrain
