#include "engine/convert/imported_trials.h"

#include <cmath>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/base/text.h"

namespace dtrain {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

ImportedResults Read(const std::string& text, const std::string& metric = "",
                     const std::vector<std::string>& hparams = {}) {
  ImportedResults results = ReadTrialTable(
      {.file = "t.csv", .text = text, .json_lines = text.starts_with('{')},
      {.metric = metric, .hparams = hparams});
  FinishResults(metric, results);
  return results;
}

json SpaceOf(const std::string& text) {
  ImportedResults results = Read(text, "loss");
  return MakeImportedConfig("x", {}, results).at("hyperparameters");
}

TEST(ImportedTrialsTest, ReadsATrialARow) {
  const ImportedResults results = Read(
      "id,state,hp.lr,hp.opt.name,loss,note\r\n"
      "a,COMPLETE,0.1,\"a \"\"b\"\",\nc\",0.5,x\r\n"
      "b,FAIL,1e-3,sgd,,y\r\n");
  ASSERT_EQ(results.trials.size(), 2);
  EXPECT_EQ(results.metric, "loss");
  EXPECT_EQ(results.trials[0].hparams.at("lr"), 0.1);
  EXPECT_EQ(results.trials[0].hparams.at("opt.name"), "a \"b\",\nc");
  EXPECT_EQ(results.trials[0].values[0].value, 0.5);
  EXPECT_EQ(results.trials[1].state, "ERROR");
  EXPECT_TRUE(results.trials[1].values.empty());
  EXPECT_THAT(results.notes, ElementsAre(HasSubstr("note")));
}

TEST(ImportedTrialsTest, ReadsOtherSeparatorsAndAMark) {
  EXPECT_EQ(Read("\xEF\xBB\xBFhp.lr;loss\n0.1;0.5\n\n").metric, "loss");
  EXPECT_EQ(Read("hp.lr\tloss\n0.1\t0.5").trials[0].hparams.at("lr"), 0.1);
}

TEST(ImportedTrialsTest, ReadsARowForEachStep) {
  const ImportedResults results = Read(
      "trial,step,params_lr,loss,acc\n"
      "x,1,0.1,0.5,0.1\nx,2,,NaN,0.2\ny,1,0.2,inf,0.3\n",
      "loss");
  ASSERT_EQ(results.trials.size(), 2);
  EXPECT_EQ(results.trials[0].values.size(), 4);
  EXPECT_EQ(results.trials[0].values[3].step, 2);
  EXPECT_EQ(results.trials[1].number, 2);
}

TEST(ImportedTrialsTest, ReadsARowForEachValue) {
  const ImportedResults results = Read(
      "trial,kind,batches,epoch,name,value\n"
      "4.2,training,10,0.5,loss,3\n4.2,validation,10,0.5,loss,2\n"
      "4.7,validation,10,0.5,loss,1\n");
  ASSERT_EQ(results.trials.size(), 2);
  EXPECT_EQ(results.trials[1].number, 7);
  EXPECT_FALSE(results.trials[0].values[0].training);
  EXPECT_EQ(results.trials[0].values[0].epoch, 0.5);
}

TEST(ImportedTrialsTest, ReadsJsonLines) {
  const ImportedResults results = Read(
      "{\"config\": {\"lr\": 0.1, \"sizes\": [1, 2]}, \"loss\": 0.5}\n"
      "{\"config\": {\"lr\": 1, \"sizes\": [3]}, \"loss\": \"NaN\"}\n");
  EXPECT_EQ(results.trials[0].hparams.at("sizes"), json({1, 2}));
  EXPECT_TRUE(std::isnan(results.trials[1].values[0].value));
}

struct ColumnType {
  std::string first;
  std::string second;
  const char* typed;  // both, as JSON
  const char* note = "";
};

class ColumnTypeTest : public testing::TestWithParam<ColumnType> {};

TEST_P(ColumnTypeTest, IsThatOfAllCells) {
  const ImportedResults results = Read("hp.a,loss\n" + GetParam().first +
                                       ",1\n" + GetParam().second + ",2\n");
  const json typed = json::array(
      {results.trials[0].hparams.at("a"), results.trials[1].hparams.at("a")});
  EXPECT_EQ(typed.dump(), GetParam().typed);
  EXPECT_EQ(JoinFirst(results.notes, 9), GetParam().note);
}

INSTANTIATE_TEST_SUITE_P(
    Types, ColumnTypeTest,
    testing::Values(
        ColumnType{"1", "-20", "[1,-20]"}, ColumnType{"1", "2.5", "[1.0,2.5]"},
        ColumnType{"0", "-1e-3", "[0.0,-0.001]"},
        ColumnType{"true", "False", "[true,false]"},
        ColumnType{"TRUE", "3", "[true,3]"},
        ColumnType{"null", "3", "[null,3]"},
        ColumnType{"null", "x", "[null,\"x\"]"},
        ColumnType{"\"[1, 2]\"", "3", "[[1,2],3]"},
        ColumnType{"16", "auto", R"(["16","auto"])",
                   "hyperparameter a is a text, since line 3 has 'auto'"},
        ColumnType{"true", "auto", R"(["true","auto"])"},
        ColumnType{"[1]", "auto", R"(["[1]","auto"])"},
        ColumnType{"nan", "auto", R"(["nan","auto"])",
                   "hyperparameter a is a text, since line 3 has 'auto'"},
        ColumnType{"010", "10", R"(["010","10"])",
                   "hyperparameter a is a text, since line 2 has '010'"},
        ColumnType{"10", "0x10", R"(["10","0x10"])",
                   "hyperparameter a is a text, since line 3 has '0x10'"},
        ColumnType{"1_000", "1_000", R"(["1_000","1_000"])",
                   "hyperparameter a is a text, since line 2 has '1_000'"},
        ColumnType{" 5", "5", R"([" 5","5"])",
                   "hyperparameter a is a text, since line 2 has ' 5'"},
        ColumnType{"+5", "5", R"(["+5","5"])",
                   "hyperparameter a is a text, since line 2 has '+5'"},
        ColumnType{".5", "5", R"([".5","5"])",
                   "hyperparameter a is a text, since line 2 has '.5'"},
        ColumnType{"5.", "-05", R"(["5.","-05"])",
                   "hyperparameter a is a text, since line 2 has '5.'"},
        ColumnType{"1e", "0-1", R"(["1e","0-1"])"}));

TEST(ImportedTrialsTest, KeepsTypesOfJson) {
  const ImportedResults results = Read(
      "{\"hp\": {\"a\": \"010\", \"b\": 16}, \"loss\": 1}\n"
      "{\"hp\": {\"a\": \"10\", \"b\": \"auto\"}, \"loss\": 2}\n");
  EXPECT_EQ(results.trials[1].hparams.at("a"), "10");
  EXPECT_EQ(results.trials[0].hparams.at("b"), 16);
  EXPECT_THAT(results.notes, ElementsAre());
}

TEST(ImportedTrialsTest, TakesNamedColumnsAsHyperparameters) {
  const ImportedResults results =
      Read("width,config.lr,loss\n1,2,3\n", "loss", {"width"});
  EXPECT_EQ(results.trials[0].hparams.size(), 1);
  EXPECT_EQ(results.trials[0].hparams.at("width"), 1);
  EXPECT_EQ(results.trials[0].values.size(), 1);
}

TEST(ImportedTrialsTest, InfersTheSmallestSpace) {
  const json space = SpaceOf(
      "hp.a,hp.b,hp.c,hp.lr,hp.o.n,loss\n"
      "1,0.5,x,1e-4,7,1\n3,0.75,y,1e-1,7,2\n2,0.5,x,1e-2,7,3\n");
  EXPECT_EQ(space, json::parse(R"({
    "a": {"type": "int", "minval": 1, "maxval": 3},
    "b": {"type": "double", "minval": 0.5, "maxval": 0.75},
    "c": {"type": "categorical", "vals": ["x", "y"]},
    "lr": {"type": "double", "minval": 1e-4, "maxval": 1e-1, "log": true},
    "o": {"n": {"type": "const", "val": 7}}})"));
}

TEST(ImportedTrialsTest, InfersTheConditionOfAnAbsentHyperparameter) {
  const json space =
      SpaceOf("hp.opt,hp.momentum,loss\nsgd,0.5,1\nadam,,2\nsgd,0.25,3\n");
  EXPECT_EQ(space.at("momentum").at("when"), json({{"opt", {"sgd"}}}));
}

TEST(ImportedTrialsTest, KeepsNamesBesideTypeWhole) {
  const json space = SpaceOf("hp.opt.type,hp.opt.lr,loss\na,1,1\nb,2,2\n");
  EXPECT_TRUE(space.contains("opt.type")) << space;
  EXPECT_TRUE(space.contains("opt.lr")) << space;
}

TEST(ImportedTrialsTest, LeavesOutTrialsThatHaveNotEnded) {
  const ImportedResults results =
      Read("id,state,loss\n1,RUNNING,1\n2,COMPLETED,2\n", "loss");
  EXPECT_EQ(results.trials.size(), 1);
  EXPECT_THAT(results.notes, ElementsAre("left out: 1 trial that has not "
                                         "ended"));
}

TEST(ImportedTrialsTest, AddsValuesOfAnotherTable) {
  ImportedResults results = ReadTrialTable({.file = "t.csv",
                                            .text = "id,state,rung,hp.lr\n1.1,"
                                                    "COMPLETED,1,0.5\n"},
                                           {});
  ReadValueTable(
      {.file = "m.csv", .text = "trial,batches,name,value\n1.1,10,loss,0.25\n"},
      results);
  FinishResults("", results);
  EXPECT_EQ(results.trials[0].values[0].value, 0.25);
}

struct BadTable {
  std::string text;
  std::string message;
};

class BadTableTest : public testing::TestWithParam<BadTable> {};

TEST_P(BadTableTest, IsRefusedWithItsPlace) {
  try {
    ImportedResults results = Read(GetParam().text, "loss");
    MakeImportedConfig("x", {}, results);
    FAIL() << "read: " << GetParam().message;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_EQ(error.what(), GetParam().message + "; nothing was imported");
  }
}

std::string ManyColumns() {
  std::string text = "loss";
  for (int i = 0; i < 100'000; ++i) text += ",hp.a" + std::to_string(i);
  return text + "\n";
}

std::string DeepObject() {
  return "{\"loss\": " + std::string(50, '[') + std::string(50, ']') + "}\n";
}

INSTANTIATE_TEST_SUITE_P(
    Faults, BadTableTest,
    testing::Values(
        BadTable{"", "t.csv: is empty; give a table with a trial a row"},
        BadTable{"\n\n", "t.csv: is empty; give a table with a trial a row"},
        BadTable{"hp.lr,loss\n",
                 "t.csv: has no row below its header; give a trial a row"},
        BadTable{"hp.lr,loss,loss\n1,2,3\n",
                 "t.csv:1: columns 2 and 3 are both 'loss'; rename one of "
                 "them"},
        BadTable{"hp.lr,,loss\n1,x,3\n",
                 "t.csv:1: column 2 has no name; name it, or remove it (in "
                 "pandas: to_csv(..., index=False))"},
        BadTable{"\n,loss\n2,1\n2,1\n",
                 "t.csv:2: column 1 has no name; name it, or remove it (in "
                 "pandas: to_csv(..., index=False))"},
        BadTable{"{\"\": 0.5, \"loss\": 1}\n",
                 "t.csv: column 1 has no name; name it, or remove it (in "
                 "pandas: to_csv(..., index=False))"},
        BadTable{"hp.lr,loss\n1,010\n",
                 "t.csv:2: loss: '010' is not a number; write it without "
                 "spaces, '+', '_' and leading zeros"},
        BadTable{"{\"loss\": \" 5\"}\n",
                 "t.csv:1: loss: ' 5' is not a number; write it without "
                 "spaces, '+', '_' and leading zeros"},
        BadTable{"id,step,loss\na,01,1\n",
                 "t.csv:2: step: '01' is not an integer from 0 to 10^15; "
                 "write the number of the step"},
        BadTable{"{\"config\": {\"lr\": Infinity}, \"loss\": 1}\n",
                 "t.csv:1: hyperparameter lr: 'Infinity' is not a finite "
                 "number; leave it empty if the trial has none"},
        BadTable{"hp.lr,loss\n1,2\n1,2,3\n",
                 "t.csv:3: 3 fields, but the header has 2; quote fields that "
                 "contain a separator"},
        BadTable{"hp.lr,loss\n1\n",
                 "t.csv:2: 1 field, but the header has 2; quote fields that "
                 "contain a separator"},
        BadTable{"hp.lr,loss\n\"a\nb,2\n",
                 "t.csv:2: the quoted field that begins in this row has no "
                 "end; close it with a quote"},
        BadTable{"hp.lr,loss\n\"a\"b,2\n",
                 "t.csv:2: text follows the closing quote of a field; write a "
                 "quote within a field twice"},
        BadTable{"hp.lr,loss\n\"a\nb\",x\n",
                 "t.csv:2: loss: 'x' is not a number; leave it empty if there "
                 "is no value"},
        BadTable{"hp.lr,loss\n1,1\n\xff,2\n",
                 "t.csv:3: is not UTF-8; save it as UTF-8"},
        BadTable{"\xff\xfeh", "t.csv: is UTF-16; save it as UTF-8"},
        BadTable{std::string("hp.lr,loss\n1,\0\n", 15),
                 "t.csv:2: has a NUL byte, so it is no text; give a CSV, or "
                 "an object of JSON a line"},
        BadTable{"hp.lr;loss\n0,5;1\n",
                 "t.csv:2: hyperparameter lr: '0,5' has a decimal comma; write "
                 "numbers with a point"},
        BadTable{"hp.lr;loss\n1;0,5\n",
                 "t.csv:2: loss: '0,5' has a decimal comma; write numbers with "
                 "a point"},
        BadTable{"hp.lr,loss\nNaN,1\n0.5,1\n",
                 "t.csv:2: hyperparameter lr: 'NaN' is not a finite number; "
                 "leave it empty if the trial has none"},
        BadTable{"hp.lr,loss\n1e999,1\n",
                 "t.csv:2: hyperparameter lr: '1e999' is out of the range of "
                 "numbers"},
        BadTable{"hp.lr,loss\n1,1e999\n",
                 "t.csv:2: loss: '1e999' is out of the range of numbers"},
        BadTable{ManyColumns(),
                 "t.csv:1: more than 1000 columns; leave out those that are "
                 "neither hyperparameters nor metrics"},
        BadTable{"id,step,loss\na,1,1\na,1,2\n",
                 "t.csv:3: trial 'a' has 'loss' twice at step 1 (line 2); "
                 "remove one of them"},
        BadTable{"id,loss\na,1\na,2\n",
                 "t.csv:3: trial 'a' is in line 2 already; add a column "
                 "'step', or remove one"},
        BadTable{"id,step,hp.lr,loss\na,1,1,1\na,2,2,1\n",
                 "t.csv:3: hyperparameter lr is '2', but '1' in an earlier row "
                 "of the same trial; give them different trials"},
        BadTable{"id,step,loss\na,1.5,1\n",
                 "t.csv:2: step: '1.5' is not an integer from 0 to 10^15; "
                 "write the number of the step"},
        BadTable{"id,step,loss\na,-1,1\n",
                 "t.csv:2: step: '-1' is not an integer from 0 to 10^15; "
                 "write the number of the step"},
        BadTable{"id,step,loss\na,,1\n",
                 "t.csv:2: step is empty; write the number of the step"},
        BadTable{"id,loss\n,1\n",
                 "t.csv:2: id is empty; write the name of the trial"},
        BadTable{"id,state,loss\na,odd,1\n",
                 "t.csv:2: state: 'odd' is unknown; write COMPLETED, STOPPED, "
                 "ERROR, CANCELED or RUNNING"},
        BadTable{"id,state,loss\na,RUNNING,1\n",
                 "t.csv: no trial has ended; import it later"},
        BadTable{"id,started,loss\na,yesterday,1\n",
                 "t.csv:2: started: 'yesterday' is not a time; write it as "
                 "2026-11-21T07:35:44Z, or remove the column"},
        BadTable{"id,started,ended,loss\na,2026-01-02,2026-01-01,1\n",
                 "t.csv:2: the trial ends before it starts; correct the "
                 "times"},
        BadTable{"hp.lr,los\n1,1\n",
                 "t.csv: --metric: no trial has a value of 'loss'; did you "
                 "mean 'los'?"},
        BadTable{"hp.lr,note\n1,x\n",
                 "t.csv: --metric: there is no column 'loss'"},
        BadTable{"hp.lr,loss\n1,\n",
                 "t.csv: --metric: no trial has a value of 'loss'"},
        BadTable{"hp.a,hp.a.b,loss\n1,2,3\n",
                 "t.csv:2: hyperparameters a and a.b exclude one another; "
                 "rename one of them"},
        BadTable{"hp.a,config.a,loss\n1,2,3\n",
                 "t.csv: columns 'hp.a' and 'config.a' are one hyperparameter; "
                 "remove one of them"},
        BadTable{"hp.,loss\n1,3\n",
                 "t.csv:2: column 'hp.' names no hyperparameter; rename it to "
                 "hp.NAME"},
        BadTable{"{\"loss\": 1}\n[1]\n",
                 "t.csv:2: is not an object; write one object a line, such as "
                 "{\"lr\": 0.1, \"loss\": 0.5}"},
        BadTable{"{\"loss\": 1}\n{\"loss\": }\n",
                 "t.csv:2: is not JSON; write one object a line"},
        BadTable{"{\"loss\": 1, \"loss\": 2}\n",
                 "t.csv:1: has 'loss' twice; remove one of them"},
        BadTable{"{\"loss\": 1e999}\n",
                 "t.csv:1: a number is out of the range of numbers"},
        BadTable{DeepObject(),
                 "t.csv:1: nests more than 8 levels deep; flatten it"}));

}  // namespace
}  // namespace dtrain
