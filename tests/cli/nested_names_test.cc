// Values inside of a hyperparameter have one name, hp.opt.name of the category
// {name: adam, lr: 0.1}, and the hyperparameter as a whole has its own, hp.opt:
// in each command that takes or prints names.

#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/text.h"
#include "engine/os/files.h"
#include "tests/support/cli_runner.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Four trials: sgd and adam with mixed={type: cosine, …}, then with none.
constexpr char kYaml[] =
    "name: nested\n"
    "entrypoint: sh train.sh {opt.name} {fixed.size} {opt}\n"
    "hyperparameters:\n"
    "  opt: {type: categorical, vals: [{name: adam, lr: 0.1, betas: {a: 0.9}}, "
    "{name: sgd, momentum: 0.5}]}\n"
    "  mixed: {type: categorical, vals: [none, {type: cosine, steps: 3}]}\n"
    "  fixed: {type: const, val: {size: 7}}\n"
    "searcher: {name: grid, metric: loss, max_length: 1}\n"
    "max_restarts: 0\nresources: {slots: \"cpu:1\"}\n";

class NestedNamesTest : public testing::Test {
 protected:
  NestedNamesTest() {
    dtrain_.Write("train.sh",
                  "echo \"words: $*\"\n"
                  "case $1 in adam) loss=1;; *) loss=2;; esac\n"
                  "printf '{\"type\":\"validation\",\"batches\":1,\"metrics\":"
                  "{\"loss\":%s}}\\n' $loss >&3\n");
  }
  CliResult Create(const std::string& yaml) const {
    dtrain_.Write("nested.yaml", yaml);
    return dtrain_.Run({"create", "nested.yaml", "-q"});
  }
  std::string Out(const std::string& command) const {
    const CliResult result = dtrain_.Run(Split(command, ' '));
    EXPECT_EQ(result.code, 0) << command << ": " << result.err;
    return result.out;
  }

  const CliRunner dtrain_;
};

struct NamedValue {
  std::string filter;
  std::string trials;
};

TEST_F(NestedNamesTest, EachCommandKnowsBothNames) {
  ASSERT_EQ(Create(kYaml).code, 0);
  EXPECT_THAT(Out("logs 1"),
              AllOf(HasSubstr("words: adam 7 {\"betas\":{\"a\":0.9}"),
                    HasSubstr("words: sgd 7 {\"momentum\":0.5")));
  for (const auto& [filter, trials] : std::vector<NamedValue>{
           {"hp.opt.name==adam", "1.2\r\n1.4\r\n"},
           {"opt.name==sgd", "1.1\r\n1.3\r\n"},
           {"hp.opt.betas.a>0.5", "1.2\r\n1.4\r\n"},
           {"hp.opt.momentum<1", "1.1\r\n1.3\r\n"},
           {"hp.mixed.steps==3", "1.1\r\n1.2\r\n"},
           {"hp.mixed==none", "1.3\r\n1.4\r\n"},
           {"hp.opt~sgd", "1.1\r\n1.3\r\n"},
           {"hp.fixed.size==7", "1.1\r\n1.2\r\n1.3\r\n1.4\r\n"}}) {
    EXPECT_EQ(Out("trials 1 --csv --columns id --filter " + filter),
              "id\r\n" + trials)
        << filter;
  }
  EXPECT_EQ(Out("trials 1 --csv --columns hp.opt.lr,id --sort hp.opt.lr,id "
                "--limit 3"),
            "hp.opt.lr,id\r\n0.1,1.2\r\n0.1,1.4\r\n,1.1\r\n");
  Out("wait 1 --require hp.opt.name==adam");
  const std::string table = Out("trials 1 --csv");
  for (const char* name :
       {",hp.opt,", ",hp.opt.name,", ",hp.opt.lr,", ",hp.mixed,",
        ",hp.mixed.type,", ",hp.fixed,", ",hp.fixed.size,"}) {
    EXPECT_THAT(table.substr(0, table.find('\r')) + ",", HasSubstr(name));
  }
  EXPECT_THAT(Out("compare 1.1 1.4 --csv"),
              AllOf(HasSubstr("hyperparameters,opt,"),
                    HasSubstr("hyperparameters,opt.name,1.1,sgd,"),
                    HasSubstr("hyperparameters,mixed.steps,1.1,3,")));
  EXPECT_THAT(Out("compare 1 --group hp.opt.name --csv"), HasSubstr("adam,2"));
  EXPECT_THAT(Out("compare 1 --group hp.opt --csv"), HasSubstr("momentum"));
  for (const char* options :
       {"--kind slice --hparam hp.opt.name", "--kind slice --hparam hp.opt",
        "--kind slice --hparam hp.mixed.steps", "--group hp.opt",
        "--group hp.opt.name", "--kind parallel --hparam hp.opt.lr"}) {
    Out(std::string("plot 1 --out x.svg ") + options);
  }
}

// The hyperparameters' table of TensorBoard has a value of each column.
TEST_F(NestedNamesTest, TensorboardHasNoEmptyColumn) {
  ASSERT_EQ(Create(kYaml).code, 0);
  Out("tensorboard 1 --out events");
  std::string table, trials;
  for (const auto& entry :
       fs::recursive_directory_iterator(dtrain_.directory() / "events")) {
    if (!entry.is_regular_file()) continue;
    const bool is_table = entry.path().parent_path().filename() == "events";
    (is_table ? table : trials) += ReadFile(entry.path()).value_or("");
  }
  for (const char* name : {"opt", "opt.name", "opt.lr", "opt.betas.a",
                           "opt.momentum", "mixed", "mixed.type"}) {
    // A name is preceded by its length.
    const std::string field =
        std::string(1, static_cast<char>(std::string(name).size())) + name;
    EXPECT_THAT(table, HasSubstr(field));
    EXPECT_THAT(trials, HasSubstr(field));
  }
}

TEST_F(NestedNamesTest, AMetricOfTheNameComesFirst) {
  dtrain_.Write("metric.sh",
                "printf '{\"type\":\"validation\",\"batches\":1,\"metrics\":"
                "{\"loss\":1,\"opt.lr\":5}}\\n' >&3\n");
  std::string yaml = kYaml;
  yaml.replace(yaml.find("sh train.sh"),
               yaml.find("{opt}\n") + 5 - yaml.find("sh train.sh"),
               "sh metric.sh");
  ASSERT_EQ(Create(yaml).code, 0);
  EXPECT_EQ(Out("trials 1 --csv --columns opt.lr,hp.opt.lr --filter id==1.2"),
            "opt.lr,hp.opt.lr\r\n5,0.1\r\n");
}

TEST_F(NestedNamesTest, RefusesAPlaceholderThatACategoryHasNoValueFor) {
  for (const char* entrypoint :
       {"sh train.sh {opt.lr}", "[sh, train.sh, '{opt.lr}']",
        "sh train.sh --lr={opt.lr}"}) {
    std::string yaml = kYaml;
    const std::size_t begin = yaml.find("sh train.sh");
    yaml.replace(begin, yaml.find('\n', begin) - begin, entrypoint);
    const CliResult result = Create(yaml);
    EXPECT_EQ(result.code, 2) << entrypoint;
    EXPECT_THAT(result.err,
                HasSubstr("the category {\"momentum\":0.5,\"name\":\"sgd\"} of "
                          "'opt' has no value for {opt.lr}; add 'lr' to it"));
  }
  EXPECT_THAT(dtrain_
                  .Run({"run", "--metric", "loss", "--max-trials", "2", "--hp",
                        "opt=[{name: adam, lr: 1}, {name: sgd}]",
                        "--print-yaml", "--", "sh", "train.sh", "{opt.lr}"})
                  .err,
              HasSubstr("has no value for {opt.lr}"));
}

TEST_F(NestedNamesTest, AFlagMayBeAPart) {
  std::string yaml = kYaml;
  const std::size_t begin = yaml.find("sh train.sh");
  yaml.replace(begin, yaml.find('\n', begin) - begin,
               "sh train.sh {opt.name} {opt.amp:--amp}");
  yaml.replace(yaml.find("lr: 0.1"), 7, "amp: true");
  yaml.replace(yaml.find("momentum: 0.5"), 13, "amp: false");
  ASSERT_EQ(Create(yaml).code, 0);
  EXPECT_THAT(Out("logs 1"), AllOf(HasSubstr("words: adam --amp\n"),
                                   HasSubstr("words: sgd\n")));
  yaml.replace(yaml.find("amp: false"), 10, "amp: 3");
  EXPECT_THAT(Create(yaml).err,
              HasSubstr("but 'opt.amp' can be the integer 3; "));
}

// A text that no variable or argument can hold.
TEST_F(NestedNamesTest, NamesAHyperparameterThatIsTooLong) {
  const std::string text(140'000, 'x');
  dtrain_.Write("long.sh",
                "printf '{\"type\":\"validation\",\"batches\":1,\"metrics\":"
                "{\"loss\":%s}}\\n' \"${DTRAIN_HPARAM_text-1}\" >&3\n");
  const std::string yaml =
      "name: long\nentrypoint: [sh, long.sh]\nhyperparameters: {text: " + text +
      "}\nsearcher: {name: single, metric: loss, max_length: 1}\n"
      "max_restarts: 0\nresources: {slots: \"cpu:1\"}\n";
  const CliResult left_out = Create(yaml);
  EXPECT_EQ(left_out.code, 0) << left_out.err;
  std::string placed = yaml;
  placed.replace(placed.find("[sh, long.sh]"), 13, "sh long.sh --text={text}");
  const CliResult refused = Create(placed);
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err,
              AllOf(HasSubstr("'--text={text}' has 140007 bytes, but an "
                              "argument has at most 131071"),
                    Not(HasSubstr("Argument list too long"))));
}

}  // namespace
}  // namespace dtrain
