#include "engine/command/program.h"

#include <gtest/gtest.h>

#include "engine/wire/trial_spec.h"

namespace dtrain {
namespace {

using Words = std::vector<std::string>;

struct NullCase {
  Words command;
  nlohmann::json hparams;
  Words words;
};

TEST(ProgramWordsTest, LeavesOutAnArgumentThatIsNullAndItsOption) {
  const nlohmann::json null;
  for (const auto& [command, hparams, words] : std::vector<NullCase>{
           {{"p", "--a", "{x}", "b"}, {{"x", null}}, {"p", "b"}},
           {{"p", "--a={x}", "b"}, {{"x", null}}, {"p", "b"}},
           {{"p", "{x}"}, {{"x", null}}, {"p"}},
           {{"-p", "{x}"}, {{"x", null}}, {"-p"}},
           {{"p", "--b", "--a", "{x}", "{y}"},
            {{"x", null}, {"y", null}},
            {"p", "--b"}},
           {{"p", "{bn:--bn}", "{x}"},
            {{"bn", true}, {"x", null}},
            {"p", "--bn"}},
           {{"p", "{mode}", "{x}"},
            {{"mode", "-fast"}, {"x", null}},
            {"p", "-fast"}}}) {
    TrialSpec spec;
    spec.command = command;
    spec.placeholders = true;
    spec.hparams = hparams;
    EXPECT_EQ(ProgramWords(spec, {}, {}), words);
  }
}

TEST(WithoutPlacedTest, RemovesWhatTheCommandPasses) {
  TrialSpec spec;
  spec.command = {"p", "--opt={opt}", "{bn:--bn}", "{lr}"};
  spec.placeholders = true;
  EXPECT_EQ(WithoutPlaced({"bn", "lr", "lr_end", "opt", "opt.lr", "x"}, spec),
            (Words{"lr_end", "x"}));
}

}  // namespace
}  // namespace dtrain
