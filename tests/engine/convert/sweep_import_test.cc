#include "engine/convert/sweep_import.h"

#include <cmath>
#include <ostream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/config/read_config.h"

namespace dtrain {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using WandbJson = nlohmann::json;

std::vector<std::string> Messages(const Diagnostics& findings) {
  std::vector<std::string> messages;
  for (const Diagnostic& one : findings) messages.push_back(one.ToString());
  return messages;
}

// A sweep, converted.
struct Converted {
  std::vector<std::string> warnings;
  WandbJson config;  // as `create` reads it

  WandbJson Words() const {
    const WandbJson& entrypoint = config["entrypoint"];
    return entrypoint.is_object() ? entrypoint["command"] : entrypoint;
  }
};

Converted Convert(const std::string& text, SweepOptions options = {}) {
  options.file_name = "sweep.yaml";
  const ImportedSweep sweep = ImportSweep(text, options);
  const ConfigResult read = ReadConfig(sweep.yaml, {.file_name = "converted"});
  EXPECT_THAT(Messages(read.diagnostics), IsEmpty()) << sweep.yaml;
  Converted converted{.warnings = Messages(sweep.findings)};
  if (read.config) converted.config = read.config->effective;
  return converted;
}

// A random search of 5 trials with these parameters.
std::string RandomSweep(const std::string& parameters) {
  return "program: train.py\nmethod: random\nrun_cap: 5\n"
         "metric: {name: loss, goal: minimize}\nparameters: " +
         parameters + "\n";
}

std::vector<std::string> RefusalText(const std::string& text) {
  const ImportedSweep sweep = ImportSweep(text, {.file_name = "sweep.yaml"});
  EXPECT_EQ(sweep.yaml, "");
  return Messages(sweep.findings);
}

// The example of "Define a sweep configuration" in W&B's documentation.
constexpr const char* kDocumented = R"(program: train.py
name: sweepdemo
project: first
method: bayes
metric:
  goal: minimize
  name: validation_loss
parameters:
  learning_rate:
    min: 0.0001
    max: 0.1
  batch_size:
    values: [16, 32, 64]
  epochs:
    values: [5, 10, 15]
  optimizer:
    values: ["adam", "sgd"]
)";

TEST(ImportSweepTest, ConvertsTheExampleOfTheDocumentation) {
  const Converted sweep = Convert(kDocumented);
  EXPECT_THAT(
      sweep.warnings,
      ElementsAre(
          "sweep.yaml:1:1: run_cap: warning: is missing: W&B would run trials "
          "without end; here max_trials is 100; choose it with --max-trials N",
          "sweep.yaml:3:1: project: warning: has no counterpart in dtrain",
          "sweep.yaml:4:9: method: warning: bayes becomes a random search, "
          "because bayesian_asha must know the length of a run; add "
          "--max-length UNIT=N, such as epochs=27"));
  EXPECT_EQ(sweep.config["name"], "sweepdemo");
  const WandbJson& searcher = sweep.config["searcher"];
  EXPECT_EQ(searcher["name"], "random");
  EXPECT_EQ(searcher["metric"], "validation_loss");
  EXPECT_EQ(searcher["smaller_is_better"], true);
  EXPECT_EQ(searcher["max_trials"], 100);
  EXPECT_EQ(sweep.Words(),
            WandbJson({"python3", "train.py", "--batch_size={batch_size}",
                       "--epochs={epochs}", "--learning_rate={learning_rate}",
                       "--optimizer={optimizer}"}));
  const WandbJson& hparams = sweep.config["hyperparameters"];
  EXPECT_EQ(hparams["learning_rate"],
            WandbJson({{"type", "double"}, {"minval", 1e-4}, {"maxval", 0.1}}));
  EXPECT_EQ(hparams["batch_size"]["vals"], WandbJson({16, 32, 64}));
}

constexpr const char* kBayesSweep =
    "program: train.py\nmethod: bayes\nrun_cap: 20\n"
    "metric: {name: loss, goal: minimize}\n"
    "parameters: {lr: {min: 0.1, max: 1.0}}\n";

TEST(ImportSweepTest, ConvertsBayesToAModelOfFullTrainings) {
  const Converted sweep = Convert(kBayesSweep, {.max_length = "epochs=9"});
  EXPECT_THAT(sweep.warnings,
              ElementsAre("sweep.yaml:2:9: method: warning: bayes becomes "
                          "searcher bayesian_asha with one rung: a model "
                          "chooses hyperparameters, and every trial trains to "
                          "max_length"));
  const WandbJson& searcher = sweep.config["searcher"];
  EXPECT_EQ(searcher["name"], "bayesian_asha");
  EXPECT_EQ(searcher["num_rungs"], 1);
  EXPECT_EQ(searcher["max_trials"], 20);
  EXPECT_EQ(searcher["max_length"], WandbJson({{"epochs", 9}}));
}

TEST(ImportSweepTest, ConvertsBayesWithHyperbandToItsRungs) {
  const Converted sweep =
      Convert(kBayesSweep + std::string("early_terminate: {type: hyperband, "
                                        "max_iter: 27, s: 2, eta: 3}\n"));
  EXPECT_THAT(
      sweep.warnings,
      ElementsAre("sweep.yaml:2:9: method: warning: bayes becomes searcher "
                  "bayesian_asha: a model chooses hyperparameters and which "
                  "paused trial resumes; a script that does not resume from "
                  "its checkpoint starts from scratch",
                  "sweep.yaml:6:18: early_terminate: warning: becomes rungs of "
                  "bayesian_asha: trials are paused at 3, 9 epochs; W&B counts "
                  "logged values of the metric"));
  const WandbJson& searcher = sweep.config["searcher"];
  EXPECT_EQ(searcher["name"], "bayesian_asha");
  EXPECT_EQ(searcher["num_rungs"], 3);
  EXPECT_EQ(searcher["divisor"], 3);
  EXPECT_FALSE(searcher.contains("stop_once"));
}

TEST(ImportSweepTest, KeepsAGrid) {
  const Converted sweep = Convert(
      "program: train.py\nmethod: grid\nmetric: {name: acc, goal: maximize}\n"
      "parameters:\n  layers: {values: [32, 64, 96, 128]}\n"
      "  depth: {min: 1, max: 3}\n  seed: {value: 7}\n");
  EXPECT_THAT(sweep.warnings, IsEmpty());
  EXPECT_EQ(sweep.config["searcher"]["name"], "grid");
  EXPECT_EQ(sweep.config["searcher"]["smaller_is_better"], false);
  EXPECT_EQ(sweep.config["hyperparameters"]["depth"],
            WandbJson({{"type", "int"}, {"minval", 1}, {"maxval", 3}}));
  EXPECT_EQ(sweep.config["hyperparameters"]["seed"], 7);
}

struct ParameterCase {
  const char* name;  // of the test
  const char* parameter;
  const char* json;          // the hyperparameter
  const char* warning = "";  // part of the only one; empty: there is none
};

void PrintTo(const ParameterCase& one, std::ostream* out) {
  *out << one.parameter;
}

class SweepParameterTest : public testing::TestWithParam<ParameterCase> {};

TEST_P(SweepParameterTest, IsConverted) {
  const ParameterCase& one = GetParam();
  const Converted sweep =
      Convert(RandomSweep("{x: " + std::string(one.parameter) + "}"));
  EXPECT_EQ(sweep.config["hyperparameters"]["x"], WandbJson::parse(one.json));
  if (*one.warning == '\0') {
    EXPECT_THAT(sweep.warnings, IsEmpty());
  } else {
    EXPECT_THAT(sweep.warnings, ElementsAre(HasSubstr(one.warning)));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Distributions, SweepParameterTest,
    testing::Values(
        ParameterCase{"Value", "{value: adam}", "\"adam\""},
        ParameterCase{"OneValue", "{values: [3]}", "3"},
        ParameterCase{"Uniform", "{min: 0, max: 0.5}",
                      R"({"type": "double", "minval": 0, "maxval": 0.5})"},
        ParameterCase{"NamedUniform", "{distribution: uniform, min: 1, max: 2}",
                      R"({"type": "double", "minval": 1, "maxval": 2})"},
        ParameterCase{"OneNumber", "{min: 2, max: 2}", "2",
                      "every trial gets the one value 2: the bounds are equal"},
        ParameterCase{
            "LogUniformValues",
            "{distribution: log_uniform_values, min: 1e-5, max: 0.1}",
            R"({"type": "double", "minval": 1e-5, "maxval": 0.1, "log": true})"},
        ParameterCase{
            "InverseLogUniformValues",
            "{distribution: inv_log_uniform_values, min: 0.01, max: 1}",
            R"({"type": "double", "minval": 0.01, "maxval": 1, "log": true})"},
        ParameterCase{"LogUniformTakesExponents",
                      "{distribution: log_uniform, min: 0, max: 0}", "1.0",
                      "every trial gets the one value 1"},
        ParameterCase{"RoundedToOneValue",
                      "{distribution: q_uniform, min: 0.0, max: 0.4}", "0",
                      "every trial gets the one value 0: values are rounded to "
                      "multiples of q, which is 1 as it is missing; add q"},
        ParameterCase{
            "RoundedLogToOneValue",
            "{distribution: q_log_uniform_values, min: 0.00001, max: 0.003}",
            "0", "every trial gets the one value 0"},
        ParameterCase{"RoundedToALargeStep",
                      "{distribution: q_uniform, min: 1, max: 9, q: 32}", "0",
                      "rounded to multiples of q, 32; choose a smaller q"},
        ParameterCase{"RoundedNormalToOneValue",
                      "{distribution: q_normal, mu: 0.1, sigma: 0.01}", "0",
                      "every trial gets the one value 0"},
        ParameterCase{"RoundedBetaToOneValue", "{distribution: q_beta, q: 4}",
                      "0", "every trial gets the one value 0"},
        ParameterCase{"KeyOfAnotherDistribution",
                      "{distribution: uniform, min: 0, max: 1, q: 0.1}",
                      R"({"type": "double", "minval": 0, "maxval": 1})",
                      "q: warning: has no effect on the distribution uniform"},
        ParameterCase{"Octal", "{value: 0777}", "511",
                      "'0777' is the integer 511, as in YAML 1.1"},
        ParameterCase{"NoOctal", "{value: 0o17}", "\"0o17\"",
                      "'0o17' is the string '0o17', as in YAML 1.1"},
        ParameterCase{"DecimalAfterZero", "{value: 089}", "\"089\"",
                      "is the string '089'"},
        ParameterCase{"Binary", "{value: 0b101}", "5", "is the integer 5"},
        ParameterCase{"Sexagesimal", "{value: 1:30}", "90",
                      "is the integer 90"},
        ParameterCase{"NotAscii", "{values: [é, yé]}",
                      R"({"type": "categorical", "vals": ["é", "yé"]})"},
        ParameterCase{"QuotedBoolean", "{values: ['on', \"0777\"]}",
                      R"({"type": "categorical", "vals": ["on", "0777"]})"},
        ParameterCase{
            "QUniform", "{distribution: q_uniform, q: 8, min: 32, max: 64}",
            R"({"type": "int", "minval": 32, "maxval": 64, "step": 8})",
            "the first and the last value are as likely as the others; W&B "
            "draws them half as often"},
        ParameterCase{
            "QUniformMayLeaveItsRange",
            "{distribution: q_uniform, q: 8, min: 29, max: 61}",
            R"({"type": "int", "minval": 32, "maxval": 64, "step": 8})",
            "half as often"},
        ParameterCase{
            "QUniformRoundsItsEnds",
            "{distribution: q_uniform, q: 0.1, min: 0.06, max: 0.34}",
            R"({"type": "double", "minval": 0.1, "maxval": 0.3, "step": 0.1})",
            "half as often"},
        ParameterCase{"QUniformOfHalfMultiples",
                      "{distribution: q_uniform, q: 1, min: -0.5, max: 2.5}",
                      R"({"type": "int", "minval": 0, "maxval": 2, "step": 1})",
                      "half as often"},
        ParameterCase{
            "QLogUniformIntegers",
            "{distribution: q_log_uniform_values, min: 0.6, max: 32}",
            R"({"type": "int", "minval": 1, "maxval": 32, "log": true})",
            "half as often"},
        ParameterCase{
            "QLogUniformValues",
            "{distribution: q_log_uniform_values, q: 8, min: 8, max: 32}",
            R"({"type": "categorical", "vals": [8, 16, 24, 32]})",
            "replaced by a list of 4 multiples of 8, evenly spaced on a "
            "logarithmic scale from 8 to 32"},
        ParameterCase{"Normal", "{distribution: normal, mu: 1, sigma: 0.25}",
                      R"({"type": "normal", "mean": 1.0, "std": 0.25})"},
        ParameterCase{"NormalByDefault", "{distribution: normal}",
                      R"({"type": "normal", "mean": 0.0, "std": 1.0})"},
        ParameterCase{
            "LogNormal", "{distribution: log_normal, mu: -4, sigma: 1}",
            R"({"type": "normal", "mean": -4.0, "std": 1.0, "log": true})"},
        ParameterCase{"QNormal",
                      "{distribution: q_normal, mu: 5, sigma: 1, q: 2}",
                      R"({"type": "int", "minval": 4, "maxval": 6, "step": 2})",
                      "a rounded normal distribution is not kept: a range from "
                      "4 to 6 instead"},
        ParameterCase{
            "Probabilities", "{values: [a, b], probabilities: [0.25, 0.75]}",
            R"({"type": "categorical", "vals": ["a", "b", "b", "b"]})"},
        ParameterCase{
            "InexactProbabilities",
            "{values: [a, b, c], probabilities: [0.3, 0.6, 0.6]}",
            R"({"type": "categorical", "vals": ["a", "b", "b", "c", "c"]})"},
        ParameterCase{"Beta", "{distribution: beta, a: 2, b: 1}",
                      R"({"type": "double", "minval": 0, "maxval": 1})",
                      "a beta distribution is not kept"},
        ParameterCase{"Booleans", "{values: [true, false]}",
                      R"({"type": "categorical", "vals": ["True", "False"]})",
                      "become the texts True, False and None"}),
    [](const auto& one) { return one.param.name; });

TEST(ImportSweepTest, ReadsBoundsOfLogUniformAsExponentsOfE) {
  const Converted sweep = Convert(
      RandomSweep("{x: {distribution: log_uniform, min: -9.21, max: -2.3}}"));
  const WandbJson& x = sweep.config["hyperparameters"]["x"];
  EXPECT_EQ(x["log"], true);
  EXPECT_NEAR(x["minval"], std::exp(-9.21), 1e-12);
  EXPECT_NEAR(x["maxval"], std::exp(-2.3), 1e-9);
}

// Bounds that were meant as values in distributions that take exponents of e.
TEST(ImportSweepTest, WarnsOfExponentsThatLookLikeValues) {
  const auto warnings = [](const std::string& distribution) {
    return Convert(RandomSweep("{x: {distribution: " + distribution + "}}"))
        .warnings;
  };
  EXPECT_THAT(
      warnings("log_uniform, min: 0.0001, max: 0.1"),
      ElementsAre("sweep.yaml:5:50: parameters.x: warning: min and max of "
                  "log_uniform are exponents of e, so the values are from "
                  "1.0001 to 1.105; for values from 0.0001 to 0.1 use "
                  "log_uniform_values"));
  EXPECT_THAT(warnings("log_uniform, min: 16, max: 32"),
              ElementsAre(HasSubstr("from 16 to 32 use log_uniform_values")));
  EXPECT_THAT(warnings("inv_log_uniform, min: 0.01, max: 0.5"),
              ElementsAre(HasSubstr("use inv_log_uniform_values")));
  EXPECT_THAT(warnings("q_log_uniform, min: 0, max: 0.9, q: 0.1"),
              Contains(HasSubstr("use q_log_uniform_values")));
  EXPECT_THAT(warnings("inv_log_uniform, min: 2, max: 9"), IsEmpty());
  EXPECT_THAT(warnings("log_uniform, min: 2.7726, max: 5.5452"), IsEmpty());
}

// W&B reads YAML 1.1.
TEST(ImportSweepTest, ReadsOnAndOffAsBooleans) {
  const Converted sweep = Convert(
      "program: train.py\nmethod: grid\nmetric: {name: a}\n"
      "parameters: {x: {values: [on, OFF, Yes]}}\n"
      "command: [\"${program}\", \"${args_no_boolean_flags}\"]\n");
  EXPECT_EQ(sweep.config["hyperparameters"]["x"]["vals"],
            WandbJson({true, false, true}));
  EXPECT_THAT(sweep.warnings,
              ElementsAre(HasSubstr("'on' is the boolean true, as in YAML 1.1, "
                                    "which W&B reads; quote it for the text"),
                          HasSubstr("'OFF' is the boolean false"),
                          HasSubstr("'Yes' is the boolean true")));
}

TEST(ImportSweepTest, KeepsNestedParametersAndDottedNames) {
  const Converted sweep = Convert(RandomSweep(
      "{optimizer: {parameters: {lr: {value: 0.1}, beta: {min: 0, max: 0.5}}}, "
      "model.width: {values: [1, 2]}}"));
  EXPECT_EQ(sweep.config["hyperparameters"]["optimizer"]["lr"], 0.1);
  EXPECT_THAT(sweep.Words(), Contains("--optimizer.beta={optimizer.beta}"));
  EXPECT_THAT(sweep.Words(), Contains("--model.width={model.width}"));
  EXPECT_THAT(
      sweep.warnings,
      Contains(HasSubstr("parameters.optimizer.beta: warning: is an argument "
                         "of its own")));
}

// Returns the words of a command in a sweep with the parameters lr and flag.
WandbJson ImportCommand(const std::string& command) {
  return Convert(
             "program: train.py\nmethod: grid\nmetric: {name: loss}\n"
             "parameters: {flag: {values: [true, false]}, "
             "on: {value: true}, opt: {values: [a, b]}}\n"
             "command: " +
             command + "\n")
      .Words();
}

TEST(SweepCommandTest, ReplacesMacros) {
  EXPECT_EQ(ImportCommand("[\"${env}\", \"${interpreter}\", \"${program}\", "
                          "\"${args}\"]"),
            WandbJson({"python3", "train.py", "--flag={flag}", "--on={on}",
                       "--opt={opt}"}));
  EXPECT_EQ(
      ImportCommand("[\"${env}\", python3.11, \"${program}\", \"--x={a}\", "
                    "\"${args_no_hyphens}\"]"),
      WandbJson({"python3.11", "train.py", "--x={{a}}", "flag={flag}",
                 "on={on}", "opt={opt}"}));
  EXPECT_EQ(ImportCommand("[\"${program}\", \"${args_no_equals}\"]"),
            WandbJson({"train.py", "--flag", "{flag}", "--on", "{on}", "--opt",
                       "{opt}"}));
  EXPECT_EQ(ImportCommand("[\"${program}\", \"${args_append_hydra}\", "
                          "\"${args_override_hydra}\"]"),
            WandbJson({"train.py", "+flag={flag}", "+on={on}", "+opt={opt}",
                       "++flag={flag}", "++on={on}", "++opt={opt}"}));
}

TEST(SweepCommandTest, PassesTrueParametersAsFlags) {
  EXPECT_EQ(
      ImportCommand("[\"${program}\", \"${args_no_boolean_flags}\"]"),
      WandbJson({"sh", "-c",
                 "[ \"$DTRAIN_HPARAM_flag\" != true ] || set -- \"$@\" --flag; "
                 "exec \"$@\"",
                 "sh", "train.py", "--on", "--opt={opt}"}));
}

TEST(SweepCommandTest, PassesOneJsonDocument) {
  const std::string document =
      "{{\"flag\": {flag}, \"on\": {on}, \"opt\": \"{opt}\"}}";
  EXPECT_EQ(ImportCommand("[\"${program}\", \"${args_json}\"]"),
            WandbJson({"train.py", document}));
  EXPECT_EQ(
      ImportCommand("[\"${program}\", --file, \"${args_json_file}\"]"),
      WandbJson({"sh", "-c",
                 "printf %s \"$1\" > sweep_args.json; shift; exec \"$@\"", "sh",
                 document, "train.py", "--file", "sweep_args.json"}));
}

TEST(SweepCommandTest, WarnsOfUnknownMacrosAndOfNoArguments) {
  const Converted sweep = Convert(RandomSweep("{x: {value: 1}}") +
                                  "command: [\"${program}\", \"${arg}\"]\n");
  EXPECT_THAT(sweep.warnings,
              ElementsAre(HasSubstr("command: warning: passes no parameters"),
                          HasSubstr("unknown macro ${arg} is left out")));
}

TEST(ImportSweepTest, ConvertsHyperband) {
  const Converted sweep = Convert(
      RandomSweep("{x: {min: 0, max: 0.5}}") +
      "early_terminate: {type: hyperband, s: 2, eta: 3, max_iter: 27}\n");
  const WandbJson& searcher = sweep.config["searcher"];
  EXPECT_EQ(searcher["name"], "async_halving");
  EXPECT_EQ(searcher["stop_once"], true);
  EXPECT_EQ(searcher["divisor"], 3);
  EXPECT_EQ(searcher["num_rungs"], 3);
  EXPECT_EQ(searcher["max_length"]["epochs"], 27);
  EXPECT_THAT(sweep.warnings,
              ElementsAre(HasSubstr("trials are stopped at 3, 9 epochs; W&B "
                                    "counts logged values of the metric")));
}

// Logarithms of exact powers are not exact: log(243) / log(3) is below 5.
TEST(ImportSweepTest, CountsTheRungsOfExactPowers) {
  struct Row {
    std::string keys;
    int rungs;
    std::string stops;
  };
  for (const Row& it :
       {Row{"eta: 3, min_iter: 1, max_iter: 243", 6, "1, 3, 9, 27, 81"},
        Row{"eta: 3, min_iter: 3, max_iter: 729", 6, "3, 9, 27, 81, 243"},
        Row{"eta: 3, min_iter: 1, max_iter: 242", 5, "2, 8, 26, 80"},
        Row{"eta: 3, s: 5, max_iter: 243", 6, "1, 3, 9, 27, 81"},
        Row{"eta: 10, min_iter: 1, max_iter: 1000", 4, "1, 10, 100"},
        Row{"eta: 10, min_iter: 1, max_iter: 999", 3, "9, 99"},
        Row{"eta: 5, min_iter: 1, max_iter: 125", 4, "1, 5, 25"},
        Row{"eta: 6, min_iter: 1, max_iter: 216", 4, "1, 6, 36"},
        Row{"eta: 2, min_iter: 1, max_iter: 64", 7, "1, 2, 4, 8, 16, 32"}}) {
    const Converted sweep =
        Convert(RandomSweep("{x: {min: 0, max: 0.5}}") +
                "early_terminate: {type: hyperband, " + it.keys + "}\n");
    EXPECT_EQ(sweep.config["searcher"]["num_rungs"], it.rungs) << it.keys;
    EXPECT_THAT(sweep.warnings,
                Contains(HasSubstr("are stopped at " + it.stops + " epochs")))
        << it.keys;
  }
}

// Keys of Hyperband that decide on nothing are named.
TEST(ImportSweepTest, SaysWhichKeysOfHyperbandAreNotKept) {
  const auto warnings = [](const std::string& keys, std::string length = "") {
    return Convert(RandomSweep("{x: {min: 0, max: 0.5}}") +
                       "early_terminate: {type: hyperband, " + keys + "}\n",
                   {.max_length = std::move(length)})
        .warnings;
  };
  EXPECT_THAT(warnings("min_iter: 5, max_iter: 45"),
              ElementsAre(HasSubstr("are stopped at 5, 15 epochs")));
  EXPECT_THAT(warnings("min_iter: 7, max_iter: 50"),
              Contains(HasSubstr("early_terminate.min_iter: warning: is not "
                                 "kept: rungs are the length divided by "
                                 "powers of eta, of which the first is 16")));
  EXPECT_THAT(warnings("min_iter: 4, max_iter: 27, s: 2"),
              Contains(HasSubstr("min_iter: warning: is not kept: with "
                                 "max_iter, W&B uses s")));
  EXPECT_THAT(warnings("max_iter: 27"),
              Contains(HasSubstr("early_terminate.s: warning: is missing")));
  EXPECT_THAT(warnings("max_iter: 27, s: 1", "epochs=9"),
              Contains(HasSubstr("max_iter: warning: is not kept: "
                                 "--max-length replaces it")));
  EXPECT_THAT(warnings("min_iter: 4", "epochs=27"),
              Contains(HasSubstr("of which the first is 9")));
  EXPECT_THAT(warnings("max_iter: 27, s: 1, strict: true"),
              Contains(HasSubstr("early_terminate.strict: warning: has no "
                                 "counterpart")));
}

TEST(ImportSweepTest, NeedsALengthForHyperbandWithoutAnEnd) {
  const std::string sweep = RandomSweep("{x: {min: 0, max: 0.5}}") +
                            "early_terminate: {type: hyperband, min_iter: 3}\n";
  EXPECT_THAT(RefusalText(sweep),
              ElementsAre(HasSubstr("min_iter does not say how long a run is; "
                                    "add --max-length UNIT=N")));
  const Converted converted = Convert(sweep, {.max_length = "epochs=27"});
  EXPECT_EQ(converted.config["searcher"]["num_rungs"], 3);
}

TEST(ImportSweepTest, TakesWhatTheSweepLacksFromOptions) {
  const std::string sweep =
      "program: a.py\nmethod: random\nparameters: {x: {min: 0, max: 1}}\n";
  EXPECT_THAT(RefusalText(sweep), Contains(HasSubstr("add --metric NAME")));
  const WandbJson searcher = Convert(sweep, {.max_trials = 7,
                                             .max_length = "batches=9",
                                             .metric = "acc",
                                             .maximize = true})
                                 .config["searcher"];
  EXPECT_EQ(searcher["max_trials"], 7);
  EXPECT_EQ(searcher["max_length"]["batches"], 9);
  EXPECT_EQ(searcher["metric"], "acc");
  EXPECT_EQ(searcher["smaller_is_better"], false);
}

TEST(ImportSweepTest, PrefersOptionsToWhatTheSweepHas) {
  const std::string sweep =
      "program: a.py\nmethod: random\nrun_cap: 5\n"
      "metric: {name: gain, goal: maximize}\n"
      "parameters: {x: {min: 0, max: 1}}\n";
  const WandbJson own = Convert(sweep, {}).config["searcher"];
  EXPECT_EQ(own["max_trials"], 5);
  EXPECT_EQ(own["metric"], "gain");
  EXPECT_EQ(own["smaller_is_better"], false);
  const WandbJson given =
      Convert(sweep, {.max_trials = 7, .metric = "loss"}).config["searcher"];
  EXPECT_EQ(given["max_trials"], 7);
  EXPECT_EQ(given["metric"], "loss");
  EXPECT_EQ(given["smaller_is_better"], true);
}

struct RefusedSweep {
  const char* name;  // of the test
  const char* text;  // after `program`, `run_cap` and `metric`
  const char* says;
};

void PrintTo(const RefusedSweep& one, std::ostream* out) { *out << one.text; }

class RefusedSweepTest : public testing::TestWithParam<RefusedSweep> {};

TEST_P(RefusedSweepTest, NamesThePlaceAndTheRemedy) {
  EXPECT_THAT(RefusalText("program: train.py\nrun_cap: 5\nmetric: {name: a}\n" +
                          std::string(GetParam().text) + "\n"),
              Contains(HasSubstr(GetParam().says)));
}

INSTANTIATE_TEST_SUITE_P(
    Sweeps, RefusedSweepTest,
    testing::Values(
        RefusedSweep{"NoMethod", "parameters: {x: {value: 1}}",
                     "sweep.yaml:1:1: method: required but missing"},
        RefusedSweep{"UnknownMethod",
                     "method: baye\nparameters: {x: {value: 1}}",
                     "sweep.yaml:4:9: method: expected grid, random or bayes, "
                     "got 'baye'; did you mean 'bayes'?"},
        RefusedSweep{"NoParameters", "method: grid",
                     "parameters: required but missing"},
        RefusedSweep{"UnknownDistribution",
                     "method: random\nparameters: {x: {distribution: "
                     "log_uniform_value, min: 1, max: 2}}",
                     "parameters.x: unknown distribution 'log_uniform_value'; "
                     "did you mean 'log_uniform_values'?"},
        RefusedSweep{"UnknownKeyOfAParameter",
                     "method: random\nparameters: {x: {mim: 1, max: 2}}",
                     "has no value, values, or min and max"},
        RefusedSweep{"ListInsteadOfAMap",
                     "method: random\nparameters: {x: [1, 2]}",
                     "expected a map such as {min: 0, max: 1}, got a list"},
        RefusedSweep{"Reversed",
                     "method: random\nparameters: {x: {min: 2, max: 1}}",
                     "max 1 is below min 2"},
        RefusedSweep{"NoNumber",
                     "method: random\nparameters: {x: {min: a, max: 1}}",
                     "min: expected a finite number, got the string 'a'"},
        RefusedSweep{"LogOfZero",
                     "method: random\nparameters: {x: {distribution: "
                     "log_uniform_values, min: 0, max: 1}}",
                     "expected a number above 0 on a logarithmic scale"},
        RefusedSweep{"ContinuousGrid",
                     "method: grid\nparameters: {x: {min: 0.5, max: 1}}",
                     "a grid needs values, but this range is continuous"},
        RefusedSweep{"EnvironmentVariable",
                     "method: grid\nparameters: {x: {value: 1}}\n"
                     "command: [\"${program}\", \"${envvar:DATA}\"]",
                     "does not replace variables of the environment"},
        RefusedSweep{"UnknownEarlyTermination",
                     "method: random\nparameters: {x: {value: 1}}\n"
                     "early_terminate: {type: envelope}",
                     "expected hyperband"},
        RefusedSweep{"LargeValue",
                     "method: grid\nparameters: {x: {values: [1, "
                     "18446744073709551615]}}",
                     "parameters.x.values[1]: expected a finite number, got "
                     "18446744073709551615, which is too large for a number; "
                     "quote it if it is a string"},
        RefusedSweep{"LargeConstant",
                     "method: grid\nparameters: {x: {value: -1e400}}",
                     "parameters.x.value: expected a finite number"},
        RefusedSweep{"LongTime",
                     "method: grid\nparameters: {x: {value: "
                     "9223372036854775807:30}}",
                     "too large for a number"},
        RefusedSweep{"InfinityAmongValues",
                     "method: grid\nparameters: {x: {values: [{a: .inf}, 1]}}",
                     "parameters.x.values[0].a: expected a finite number"},
        RefusedSweep{"LargeProbability",
                     "method: random\nparameters: {x: {values: [1, 2], "
                     "probabilities: [1e400, 1]}}",
                     "parameters.x.probabilities[0]: expected a finite"},
        RefusedSweep{"LargeMultiples",
                     "method: random\nparameters: {x: {distribution: "
                     "q_log_uniform, min: 16, max: 256, q: 8}}",
                     "has values up to 1.511e+111, which is too large for an "
                     "integer; min and max are exponents of e: for the values "
                     "themselves, use q_log_uniform_values"},
        RefusedSweep{"LargeUniformMultiples",
                     "method: random\nparameters: {x: {distribution: "
                     "q_uniform, min: -1e300, max: 1, q: 2}}",
                     "too large for an integer; use a smaller range"},
        RefusedSweep{"LargeLogNormal",
                     "method: random\nparameters: {x: {distribution: "
                     "log_normal, mu: 1000}}",
                     "gives values that no number can represent"},
        RefusedSweep{"FractionalIterations",
                     "method: random\nparameters: {x: {value: 1}}\n"
                     "early_terminate: {type: hyperband, max_iter: 0.5}",
                     "max_iter: expected an integer of at least 1"},
        RefusedSweep{"AList", "- a", "sweep.yaml:"}),
    [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace dtrain
