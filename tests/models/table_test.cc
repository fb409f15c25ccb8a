#include "models/table.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <stdexcept>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain {
namespace {

using ::testing::ElementsAre;

TEST(ModelTableTest, ListsEntrypointsByName) {
  EXPECT_THAT(
      Entrypoints(),
      ElementsAre("builtin:FaultTrial", "cifar10:CNNTrial", "digits:LeNetTrial",
                  "lenet:MNISTTrial", "lenet:ReLUReduceMeanDenseTrial",
                  "model_def:ImageNetTrial", "xception:XceptionTrial"));
}

TEST(ModelTableTest, FindsARowByItsEntrypoint) {
  const ModelEntry* entry = FindModel("digits:LeNetTrial");
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry->entrypoint, "digits:LeNetTrial");
}

TEST(ModelTableTest, FindsNoRowForAnythingElse) {
  EXPECT_EQ(FindModel("digits:LeNet"), nullptr);
  EXPECT_EQ(FindModel(""), nullptr);
}

TEST(ModelTableTest, ListsTheHyperparametersThatATrialReads) {
  const auto& hparams = FindModel("digits:LeNetTrial")->hparams;
  const auto lr = std::ranges::find(hparams, "lr", &HparamDoc::name);
  ASSERT_NE(lr, hparams.end());
  EXPECT_EQ(lr->type, "float");
  EXPECT_EQ(lr->default_value, "0.05");
}

// A hyperparameter that a source reads.
struct Read {
  std::set<std::string> types;  // as the table names them
  std::string fallback;         // where it is a literal
};
using Reads = std::map<std::string, Read>;

std::string SourceText(const std::string& name) {
  std::ifstream in(std::string(DTRAIN_MODELS_DIR "/") + name);
  std::string text(std::istreambuf_iterator<char>(in), {});
  EXPECT_FALSE(text.empty()) << name;
  return text;
}

std::string TableType(const std::string& type) {
  if (type == "double") return "float";
  if (type == "bool") return "bool";
  if (type == "std::string") return "string";
  if (type == "nlohmann::json") return "list";
  return "int";
}

void AddMatches(const std::string& text, const std::regex& pattern,
                const std::function<void(const std::smatch&)>& add) {
  for (std::sregex_iterator match(text.begin(), text.end(), pattern), end;
       match != end; ++match) {
    add(*match);
  }
}

// Everything that the text asks a TrialContext for, by Get or by one of the
// functions that call it with the name they are given.
Reads FindReads(const std::string& text) {
  Reads reads;
  AddMatches(
      text,
      std::regex(
          R"re(Get<([\w:]+)>\(\s*"([^"]+)"(?:(?:,\s*([^(){};]+))?\))?)re"),
      [&](const std::smatch& match) {
        Read& read = reads[match[2]];
        read.types.insert(TableType(match[1]));
        if (match[3].matched) read.fallback = match[3];
      });
  AddMatches(text, std::regex(R"re(context_?,\s*"([^"]+)")re"),
             [&](const std::smatch& m) { reads[m[1]].types.insert("int"); });
  AddMatches(text, std::regex(R"re(\badd\("(\w+_at)")re"),
             [&](const std::smatch& m) { reads[m[1]].types.insert("int"); });
  AddMatches(text, std::regex(R"re(\bbatches\("(\w+)")re"),
             [&](const std::smatch& m) { reads[m[1]].types.insert("float"); });
  return reads;
}

// Converts to YAML: "sgd" without quotes, numbers by their value.
std::string Plain(std::string text) {
  text.erase(std::remove(text.begin(), text.end(), '"'), text.end());
  if (text == "''") return "";
  try {
    std::size_t used = 0;
    const double value = std::stod(text, &used);
    if (used == text.size()) return std::to_string(value);
  } catch (const std::exception&) {
    // No number.
  }
  return text;
}

bool IsLiteral(const std::string& text) {
  return std::regex_match(text,
                          std::regex(R"re(-?[0-9.e-]+|".*"|true|false)re"));
}

void ExpectRows(const std::string& entrypoint, const Reads& reads) {
  const ModelEntry* model = FindModel(entrypoint);
  ASSERT_NE(model, nullptr);
  for (const auto& [name, read] : reads) {
    const auto row = std::ranges::find(model->hparams, name, &HparamDoc::name);
    if (row == model->hparams.end()) {
      ADD_FAILURE() << entrypoint << " reads " << name
                    << ", which table.cc does not have";
      continue;
    }
    // One that is read as an integer too is one.
    const std::string type =
        read.types.contains("int") ? "int" : *read.types.begin();
    EXPECT_EQ(row->type, type) << entrypoint << ' ' << name;
    EXPECT_FALSE(row->unused) << entrypoint << ' ' << name;
    if (!IsLiteral(read.fallback)) continue;
    EXPECT_EQ(Plain(std::string(row->default_value)), Plain(read.fallback))
        << entrypoint << ' ' << name;
  }
}

// The body of MakeOptimizer: what a trial without a schedule reads.
std::string OptimizerText(const std::string& text) {
  const std::size_t begin = text.find(" MakeOptimizer(\n");
  EXPECT_NE(begin, text.npos);
  return text.substr(begin, text.find("\n}\n", begin) - begin);
}

TEST(ModelTableTest, HasARowForEveryHyperparameterRead) {
  const std::string optimizers = SourceText("optimizers.cc");
  const std::string lenet = SourceText("lenet.cc");
  const std::size_t dense =
      lenet.find("ReluReduceMeanDenseTrial::ReluReduceMeanDenseTrial(");
  ASSERT_NE(dense, lenet.npos);
  const std::string batch = "Get<int>(\"global_batch_size\")";
  const std::string scheduled = batch + optimizers;
  const std::string plain = batch + OptimizerText(optimizers);

  ExpectRows("builtin:FaultTrial", FindReads(SourceText("fault.cc")));
  ExpectRows("cifar10:CNNTrial",
             FindReads(scheduled + SourceText("cifar10.cc")));
  ExpectRows("digits:LeNetTrial",
             FindReads(scheduled + SourceText("digits.cc")));
  ExpectRows("lenet:MNISTTrial", FindReads(plain + lenet.substr(0, dense)));
  ExpectRows("lenet:ReLUReduceMeanDenseTrial",
             FindReads(plain + lenet.substr(dense)));
  ExpectRows("model_def:ImageNetTrial",
             FindReads(scheduled + SourceText("imagenet.cc")));
  ExpectRows("xception:XceptionTrial",
             FindReads(plain + SourceText("xception.cc")));
}

// One more way to read a hyperparameter must be made known to FindReads.
TEST(ModelTableTest, KnowsEveryFunctionThatReadsByAName) {
  std::map<std::string, int> calls;
  for (const auto& file :
       std::filesystem::directory_iterator(DTRAIN_MODELS_DIR)) {
    if (file.path().extension() != ".cc") continue;
    AddMatches(SourceText(file.path().filename()),
               std::regex(R"re(Get<[\w:]+>\(\s*(\w+))re"),
               [&](const std::smatch&) { ++calls[file.path().filename()]; });
  }
  EXPECT_EQ(calls,
            (std::map<std::string, int>{
                {"fault.cc", 2}, {"imagenet.cc", 1}, {"optimizers.cc", 1}}));
}

// This executable links the table without the trials, as `dtrain` does.
TEST(ModelTableTest, CreatesNoTrialWithoutLibTorch) {
  EXPECT_TRUE(std::ranges::all_of(ModelTable(), [](const ModelEntry& entry) {
    return entry.make == nullptr;
  }));
}

}  // namespace
}  // namespace dtrain
