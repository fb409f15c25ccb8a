// `dtrain create` with a model_def.cpp. A compilation takes a quarter of a
// minute of CPU: tests are few and long, and those that do not look at the
// compilation itself share a cache of compiled models in the build directory.
// Each change of dtrain's headers adds entries, so the oldest are removed.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <regex>
#include <system_error>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cli_runner.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

std::string FileText(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

constexpr const char* kSharedCache = DTRAIN_BINARY_DIR "/model_cache";

// Removes all but the newest entries of the shared cache. One run of the tests
// uses fewer than `kept`, so tests that run in parallel lose none.
void PruneSharedCache(std::size_t kept) {
  const fs::path models = fs::path(kSharedCache) / "dtrain" / "models";
  if (!fs::exists(models)) return;
  // Another test may remove an entry at the same time.
  std::error_code ignored;
  std::vector<std::pair<fs::file_time_type, fs::path>> entries;
  for (const fs::path& path : fs::directory_iterator(models)) {
    entries.emplace_back(fs::last_write_time(path, ignored), path);
  }
  std::ranges::sort(entries, std::greater());
  for (std::size_t i = kept; i < entries.size(); ++i) {
    fs::remove_all(entries[i].second, ignored);
  }
}

class OwnModelTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { PruneSharedCache(/*kept=*/60); }

  OwnModelTest() { EXPECT_EQ(dtrain_.Run({"init", "mine"}).code, 0); }

  // Replaces `what` in the model, or in another file of it.
  void Edit(const std::string& what, const std::string& by,
            const std::string& name = "model_def.cpp") const {
    const fs::path file = dtrain_.directory() / "mine" / name;
    std::string text = FileText(file);
    const std::size_t at = text.find(what);
    ASSERT_NE(at, text.npos);
    std::ofstream(file, std::ios::trunc) << text.replace(at, what.size(), by);
  }
  // Runs with the shared cache of compiled models, whose keys are the contents
  // of the sources, the compiler and dtrain's headers.
  CliResult RunShared(const std::vector<std::string>& arguments,
                      const std::string& signal_when = "") const {
    return dtrain_.Run(arguments,
                       {.environment = {{"XDG_CACHE_HOME", kSharedCache}},
                        .signal_when = signal_when});
  }
  bool HasStore() const { return fs::exists(dtrain_.store() / "dtrain.db"); }

  const CliRunner dtrain_;
};

TEST_F(OwnModelTest, TheNewModelPassesItsTest) {
  const CliResult result = dtrain_.RunProgram({"./mine/test.sh"});

  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("compiling ./model_def.cpp"));
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("test passed in "), HasSubstr("restored"),
                    HasSubstr("experiment 1 completed")));
  EXPECT_THAT(result.err, Not(HasSubstr("warning")));
}

TEST_F(OwnModelTest, ResumesWithTheStoredSourcesAfterAChange) {
  const CliResult paused = RunShared(
      {"create", "mine/const.yaml", "--set", "searcher.max_length=10000000",
       "--set", "min_validation_period=500"},
      "validation at batch 500");
  ASSERT_EQ(paused.code, 130) << paused.err;
  // The experiment depends neither on this change nor on the directory.
  Edit("net_->forward(batch.data)", "nonsense");
  fs::rename(dtrain_.directory() / "mine", dtrain_.directory() / "moved");

  const CliResult resumed = RunShared({"resume", "1"}, "validation at batch ");
  EXPECT_EQ(resumed.code, 130) << resumed.err;
  EXPECT_THAT(resumed.err, Not(HasSubstr("compiling")));

  const std::string uuid = dtrain_.Run({"checkpoints", "1", "--json"})
                               .Json()["checkpoints"][0]["uuid"];
  const CliResult evaluated = RunShared({"evaluate", uuid, "--json"});
  ASSERT_EQ(evaluated.code, 0) << evaluated.err;
  EXPECT_GT(evaluated.Json()["metrics"]["val_accuracy"], 0.3);

  // Without the cache it is compiled from what the store keeps.
  const CliResult again = dtrain_.Run({"evaluate", uuid, "--json"});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_FALSE(fs::is_empty(dtrain_.directory() / "cache/dtrain/models"));
  EXPECT_EQ(again.Json()["metrics"], evaluated.Json()["metrics"]);
}

TEST_F(OwnModelTest, SearchesWithTheGeneratedYaml) {
  EXPECT_THAT(FileText(dtrain_.directory() / "mine/const.yaml"),
              AllOf(HasSubstr("#   lr: {type: log, base: 10, minval: -4, "
                              "maxval: -1}\n  lr: 0.01\n"),
                    HasSubstr("#   name: asha\n  #   max_trials: 16\n"
                              "  name: single\n")));
  Edit("  lr: 0.01\n", "  lr: {type: log, base: 10, minval: -4, maxval: -1}\n",
       "const.yaml");
  Edit("  name: single\n", "  name: asha\n  max_trials: 16\n", "const.yaml");

  const CliResult valid = RunShared({"validate", "mine/const.yaml"});
  EXPECT_EQ(valid.code, 0) << valid.err;
  EXPECT_EQ(valid.err, "");
  const CliResult plan =
      RunShared({"preview-search", "mine/const.yaml", "--json"});
  EXPECT_EQ(plan.Json()["brackets"][0]["rungs"], nlohmann::json({2, 10}));
  const CliResult search = RunShared({"create", "mine/const.yaml", "--json",
                                      "--set", "searcher.max_trials=4"});
  ASSERT_EQ(search.code, 0) << search.err;
  EXPECT_EQ(search.Json()["state"], "COMPLETED");
  EXPECT_GT(search.Json()["best"]["value"], 0.5);
}

// A block of C++ of a document, and the word behind ```cpp.
struct Snippet {
  std::string kind;
  std::string text;
};

std::vector<Snippet> ReadSnippets(const fs::path& document) {
  std::vector<Snippet> snippets;
  std::ifstream in(document);
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    if (!inside && line.starts_with("```cpp")) {
      snippets.push_back({.kind = line.substr(6), .text = ""});
      inside = true;
    } else if (line == "```") {
      inside = false;
    } else if (inside) {
      snippets.back().text += line + "\n";
    }
  }
  return snippets;
}

// Takes the address of each function that `signatures` declares, which fails to
// compile where there is no such function.
std::string FunctionAddresses(const std::string& signatures) {
  static const std::regex kDefault(" = [^,)]+");
  static const std::regex kSignature("([^;]+?)\\b(\\w+)\\(([^;]*)\\);\\s*");
  const std::string plain = std::regex_replace(signatures, kDefault, "");
  std::string code;
  for (auto found =
           std::sregex_iterator(plain.begin(), plain.end(), kSignature);
       found != std::sregex_iterator(); ++found) {
    code += "(void)static_cast<" + found->str(1) + "(*)(" + found->str(3) +
            ")>(&" + found->str(2) + ");\n";
  }
  return code;
}

// A source file in which the snippets stand where they belong.
std::string MakeSource(const std::vector<Snippet>& snippets) {
  std::string source =
      "#include <dtrain/model.h>\n"
      "using namespace dtrain;\n"
      "namespace {\n"
      "struct TheirTrial : Trial {\n"
      "  explicit TheirTrial(TrialContext& context) : context_(context) {}\n"
      "  Batch ReadBatch(std::span<const std::int64_t>, std::uint64_t);\n"
      "  TrialContext& context_;\n"
      "  torch::nn::Linear net_{8, 1};\n"
      "  std::shared_ptr<torch::optim::Optimizer> optimizer_;\n"
      "};\n"
      "Batch TheirTrial::ReadBatch(std::span<const std::int64_t>, "
      "std::uint64_t) {\n"
      "  return {};\n"
      "}\n";
  for (std::size_t i = 0; i < snippets.size(); ++i) {
    const auto& [kind, text] = snippets[i];
    const std::string trial = "struct Trial" + std::to_string(i) +
                              " : TheirTrial {\n"
                              "using TheirTrial::TheirTrial;\n";
    if (kind == " member") {
      source += trial + text + "};\n";
    } else if (kind == " body") {
      source += trial +
                "void Body(TrialContext& context, const Batch& batch) {" +
                text + "}\n};\n";
    } else if (kind == " signatures") {
      source += "[[maybe_unused]] void Addresses" + std::to_string(i) +
                "() {\n" + FunctionAddresses(text) + "}\n";
    } else {
      EXPECT_EQ(kind, " top") << text;
      source += text;
    }
  }
  return source + "}\n";
}

TEST_F(OwnModelTest, EverySnippetOfItsPageCompiles) {
  std::vector<Snippet> snippets =
      ReadSnippets(DTRAIN_SOURCE_DIR "/docs/models.md");
  ASSERT_GT(snippets.size(), 10u);
  ASSERT_EQ(snippets.front().kind, "") << "a whole file";
  dtrain_.Write("mine/model_def.cpp", snippets.front().text);
  snippets.erase(snippets.begin());
  dtrain_.Write("mine/snippets.cc", MakeSource(snippets));
  dtrain_.Write("mine/page.yaml",
                "entrypoint: model_def:MyTrial\n"
                "hyperparameters: {global_batch_size: 64, lr: 0.1}\n"
                "searcher: {name: single, metric: val_loss, max_length: 50}\n");

  // A store in there does not count towards the 95 MB.
  fs::create_directories(dtrain_.directory() / "mine/runs/experiments");
  dtrain_.Write("mine/runs/dtrain.db", "");
  dtrain_.Write("mine/runs/experiments/large", "");
  fs::resize_file(dtrain_.directory() / "mine/runs/experiments/large",
                  96'000'000);

  const CliResult result = dtrain_.Run({"create", "mine/page.yaml", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, Not(HasSubstr("error: ")));
  EXPECT_LT(result.Json()["best"]["value"], 1);
}

// Later versions must still compile and train this model: the sources of an
// experiment are stored, and compiled again when it is resumed.
TEST_F(OwnModelTest, StoredModelOfAnEarlierVersionTrains) {
  const std::string stored = DTRAIN_GOLDEN_DIR "/stored_model/";
  std::vector<Snippet> snippets = ReadSnippets(stored + "snippets.md");
  ASSERT_EQ(snippets.size(), 16u);
  // A whole file, which becomes one part of another.
  const std::regex outside(
      "#include <dtrain/model.h>|using namespace dtrain;|DTRAIN_TRIALS.*");
  snippets.front() = {" top",
                      std::regex_replace(snippets.front().text, outside, "")};
  dtrain_.Write("mine/snippets.cc", MakeSource(snippets));
  dtrain_.Write("mine/model_def.cpp", FileText(stored + "model_def.cpp"));
  dtrain_.Write("mine/const.yaml", FileText(stored + "const.yaml"));

  const CliResult result = RunShared({"create", "mine/const.yaml", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_GT(result.Json()["best"]["value"], 0.9);
}

TEST_F(OwnModelTest, ReportsCompilerErrorsAndCreatesNothing) {
  Edit("context_.Step(*optimizer_);", "context_.Stap(*optimizer_);");
  const CliResult result = dtrain_.Run({"create", "mine/const.yaml"});

  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("mine/model_def.cpp:"), HasSubstr("error: "),
                    HasSubstr("Stap"),
                    HasSubstr("mine/model_def.cpp: does not compile")));
  EXPECT_FALSE(HasStore());
}

TEST_F(OwnModelTest, NamesTheAvailableTrials) {
  const CliResult first = RunShared(
      {"create", "mine/const.yaml", "--set", "entrypoint=model_def:MyTrail"});
  EXPECT_EQ(first.code, 2);
  EXPECT_THAT(first.err,
              HasSubstr("mine/model_def.cpp has no model 'MyTrail'; did you "
                        "mean 'MyTrial'?; its DTRAIN_TRIALS lists MyTrial"));
  EXPECT_FALSE(HasStore());

  // The second start does not compile.
  const CliResult second = RunShared({"create", "mine/const.yaml", "--test"});
  EXPECT_EQ(second.code, 0) << second.err;
  EXPECT_THAT(second.err, Not(HasSubstr("compiling")));

  // Built-in models need no entry in the file.
  dtrain_.Write("mine/fault.yaml",
                "entrypoint: builtin:FaultTrial\n"
                "searcher: {name: single, metric: loss, max_length: 5}\n");
  const CliResult builtin =
      dtrain_.Run({"create", "mine/fault.yaml", "--dry-run"});
  EXPECT_EQ(builtin.code, 0) << builtin.err;
}

TEST_F(OwnModelTest, SearchOverUnreadHyperparametersFails) {
  const std::vector<std::string> search = {
      "create",
      "mine/const.yaml",
      "--set",
      "searcher={name: grid, metric: val_accuracy, smaller_is_better: false, "
      "max_length: {batches: 20}}",
      "--set",
      "hyperparameters.learning_rate={type: categorical, vals: [0.1, 0.2]}"};
  const CliResult failed = RunShared(search);
  EXPECT_EQ(failed.code, 1) << failed.err;
  EXPECT_THAT(
      failed.err,
      AllOf(ContainsRegex("warning: trial 1\\.[12] has not read the "
                          "hyperparameter learning_rate; correct its name"),
            ContainsRegex("experiment 1 is ERROR: trial 1\\.[12] was validated "
                          "and has not read learning_rate, which is searched"),
            HasSubstr("--allow-unread")));
  EXPECT_THAT(
      failed.out,
      HasSubstr("hyperparameters not read by any trial: learning_rate\n"));

  std::vector<std::string> allowed = search;
  allowed.insert(allowed.end(), {"--allow-unread", "--json"});
  const CliResult done = RunShared(allowed);
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(done.Json()["unread_hyperparameters"],
            nlohmann::json({"learning_rate"}));
  // Nothing is run, so nothing is known.
  EXPECT_EQ(
      RunShared({"resume", "2", "--json"}).Json()["unread_hyperparameters"],
      nullptr);
}

TEST_F(OwnModelTest, ModelWithoutTrialsIsRefused) {
  Edit("DTRAIN_TRIALS(MyTrial)", "");
  const CliResult result = dtrain_.Run({"create", "mine/const.yaml"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("exports no model; end model_def.cpp with "
                                    "DTRAIN_TRIALS(MyTrial)"));
}

}  // namespace
}  // namespace dtrain
