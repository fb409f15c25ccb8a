#include "engine/config/hparam_spec.h"

#include <ostream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/config/read_config.h"

namespace dtrain {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// What `create` reads from a YAML with the hyperparameter x.
nlohmann::json Effective(const std::string& value) {
  const ConfigResult result = ReadConfig(
      "entrypoint: [a]\n"
      "searcher: {name: random, metric: loss, max_trials: 3}\n"
      "hyperparameters:\n"
      "  optimizer: {type: categorical, vals: [adam, sgd, rmsprop]}\n"
      "  n: {type: int, minval: 1, maxval: 5}\n"
      "  flag: {type: categorical, vals: [true, false]}\n"
      "  x: " +
          value + "\n",
      {.file_name = "expected"});
  for (const Diagnostic& one : result.diagnostics) {
    ADD_FAILURE() << one.ToString();
  }
  return result.config ? result.config->effective["hyperparameters"]["x"]
                       : nlohmann::json();
}

struct GoodSpec {
  const char* name;  // of the test
  const char* spec;
  const char* json;  // what `x: JSON` in a YAML would give
};

void PrintTo(const GoodSpec& good, std::ostream* out) { *out << good.spec; }

class GoodSpecTest : public testing::TestWithParam<GoodSpec> {};

TEST_P(GoodSpecTest, IsWhatTheYamlMeans) {
  const GoodSpec& good = GetParam();
  EXPECT_EQ(Effective(ReadHparamSpec("--hp", good.spec).dump()),
            Effective(good.json));
}

INSTANTIATE_TEST_SUITE_P(
    Specs, GoodSpecTest,
    testing::Values(
        GoodSpec{"Log", "log(1e-5,1e-1)",
                 "{type: double, minval: 1e-5, maxval: 0.1, log: true}"},
        GoodSpec{"LogUniform", "loguniform(0.001, 1)",
                 "{type: double, minval: 0.001, maxval: 1, log: true}"},
        GoodSpec{"Wandb", "log_uniform_values(1e-3,1)",
                 "{type: double, minval: 1e-3, maxval: 1, log: true}"},
        GoodSpec{"Double", "double(0,0.5)",
                 "{type: double, minval: 0, maxval: 0.5}"},
        GoodSpec{"Uniform", "uniform(-1,1)",
                 "{type: double, minval: -1, maxval: 1}"},
        GoodSpec{"When", "float(0,0.99) when optimizer==sgd",
                 "{type: double, minval: 0, maxval: 0.99, when: {optimizer: "
                 "sgd}}"},
        GoodSpec{"WhenInAList", "int(1,4) when optimizer in [sgd, rmsprop]",
                 "{type: int, minval: 1, maxval: 4, when: {optimizer: [sgd, "
                 "rmsprop]}}"},
        GoodSpec{"WhenBetween",
                 "[a,b] when n>=2 and n<=4 and optimizer == \"sgd\"",
                 "{type: categorical, vals: [a, b], when: {n: {minval: 2, "
                 "maxval: 4}, optimizer: sgd}}"},
        GoodSpec{"WhenElse", "float(0,1) when flag==true else -1",
                 "{type: double, minval: 0, maxval: 1, when: {flag: true}, "
                 "else: -1}"},
        GoodSpec{"ConstantWhen", "0.9 when optimizer==sgd",
                 "{type: const, val: 0.9, when: {optimizer: sgd}}"},
        GoodSpec{"TextWithWhen", "tell me when it is done",
                 "tell me when it is done"},
        GoodSpec{"QuotedWhen", "'a when b==c'", "'a when b==c'"},
        GoodSpec{"Null", "null", "null"}, GoodSpec{"Tilde", "~", "null"},
        GoodSpec{"NullInAList", "[1, null]",
                 "{type: categorical, vals: [1, null]}"},
        GoodSpec{"NullInACall", "choice(null,a)",
                 "{type: categorical, vals: [null, a]}"},
        GoodSpec{"Float", "float(0,1)", "{type: double, minval: 0, maxval: 1}"},
        GoodSpec{"Int", "int(2,8)", "{type: int, minval: 2, maxval: 8}"},
        GoodSpec{"IntUniform", "int_uniform(2,8)",
                 "{type: int, minval: 2, maxval: 8}"},
        GoodSpec{"RandintExcludesItsMaximum", "randint(2,8)",
                 "{type: int, minval: 2, maxval: 7}"},
        GoodSpec{"OptunasLog", "trial.suggest_float(1e-3, 1, log=True)",
                 "{type: double, minval: 1e-3, maxval: 1, log: true}"},
        GoodSpec{"OptunasInt", "suggest_int(2,8)",
                 "{type: int, minval: 2, maxval: 8}"},
        GoodSpec{"OptunasStep", "suggest_int('n',16,64,step=16)",
                 "{type: int, minval: 16, maxval: 64, step: 16}"},
        GoodSpec{"OptunasStepOfNumbers",
                 "trial.suggest_float(\"x\", 0, 1, step=0.25)",
                 "{type: double, minval: 0, maxval: 1, step: 0.25}"},
        GoodSpec{"OptunasLogIntegers", "suggest_int('n', 1, 512, log=True)",
                 "{type: int, minval: 1, maxval: 512, log: true}"},
        GoodSpec{"RaysLogrand", "tune.lograndint(1,512)",
                 "{type: int, minval: 1, maxval: 511, log: true}"},
        GoodSpec{"RaysQuniform", "tune.quniform(0,0.3,0.1)",
                 "{type: double, minval: 0, maxval: 0.3, step: 0.1}"},
        GoodSpec{"RaysQrandint", "tune.qrandint(3,12,4)",
                 "{type: int, minval: 4, maxval: 12, step: 4}"},
        GoodSpec{"OneMultiple", "qrandint(3,7,4)", "4"},
        GoodSpec{"WandbsQUniform", "q_uniform(0.05,0.25,q=0.1)",
                 "{type: double, minval: 0.1, maxval: 0.2, step: 0.1}"},
        GoodSpec{"WandbsQUniformLeavesItsRange", "q_uniform(0.4,9.6,1)",
                 "{type: int, minval: 0, maxval: 10, step: 1}"},
        GoodSpec{"Normal", "normal(0.5,2)",
                 "{type: normal, mean: 0.5, std: 2}"},
        GoodSpec{"RaysNormal", "tune.randn(mean=1,sd=0.1)",
                 "{type: normal, mean: 1, std: 0.1}"},
        GoodSpec{"RaysNormalByDefault", "tune.randn()",
                 "{type: normal, mean: 0, std: 1}"},
        GoodSpec{"TruncatedNormal", "normal(0,1,low=-2,high=2,count=3)",
                 "{type: normal, mean: 0, std: 1, minval: -2, maxval: 2, "
                 "count: 3}"},
        GoodSpec{"WandbsLogNormal", "log_normal(mu=-4,sigma=1)",
                 "{type: normal, mean: -4, std: 1, log: true}"},
        GoodSpec{"NormalOfLogarithms", "normal(-4,1,log=true,maxval=1)",
                 "{type: normal, mean: -4, std: 1, log: true, maxval: 1}"},
        GoodSpec{"Count", "log(1e-3,1,count=4)",
                 "{type: double, minval: 1e-3, maxval: 1, log: true, "
                 "count: 4}"},
        GoodSpec{"List", "[adam,sgd]",
                 "{type: categorical, vals: [adam, sgd]}"},
        GoodSpec{"Choice", "choice(16,32,true)",
                 "{type: categorical, vals: [16, 32, true]}"},
        GoodSpec{"ChoiceOfAList", "choice(['a,b', 1.5])",
                 "{type: categorical, vals: ['a,b', 1.5]}"},
        GoodSpec{"ChoiceOfLists", "[[1,2],[3]]",
                 "{type: categorical, vals: [[1, 2], [3]]}"},
        GoodSpec{"Const", "const([1,2])", "{type: const, val: [1, 2]}"},
        GoodSpec{"Integer", "32", "32"}, GoodSpec{"Bool", "true", "true"},
        GoodSpec{"Text", "a=b", "'a=b'"},
        GoodSpec{"QuotedText", "\"log(1,2)\"", "'log(1,2)'"},
        GoodSpec{"TextThatLooksLikeANumber", "'32'", "'32'"},
        GoodSpec{"EmptyText", "''", "''"},
        GoodSpec{"OptunasName", "suggest_float(\"lr\", 1e-3, 1, log=True)",
                 "{type: double, minval: 1e-3, maxval: 1, log: true}"},
        GoodSpec{"OptunasNames", "trial.suggest_int(name='n', low=1, high=8)",
                 "{type: int, minval: 1, maxval: 8}"},
        GoodSpec{"OptunasCategories",
                 "suggest_categorical(\"opt\",[\"adam\",\"sgd\"])",
                 "{type: categorical, vals: [adam, sgd]}"},
        GoodSpec{"OptunasTuple", "suggest_categorical('x', (1, 2, 3))",
                 "{type: categorical, vals: [1, 2, 3]}"},
        GoodSpec{"OptunasChoices",
                 "suggest_categorical('x', choices=['a', 'b'])",
                 "{type: categorical, vals: [a, b]}"},
        GoodSpec{"PythonsRange", "choice(range(1,4))",
                 "{type: categorical, vals: [1, 2, 3]}"},
        GoodSpec{"RaysListOfARange", "tune.choice(list(range(4, 17, 4)))",
                 "{type: categorical, vals: [4, 8, 12, 16]}"},
        GoodSpec{"HydrasRange", "range(0,3)",
                 "{type: categorical, vals: [0, 1, 2]}"},
        GoodSpec{"GuildsRange", "[0.1:1]",
                 "{type: double, minval: 0.1, maxval: 1}"},
        GoodSpec{"GuildsLogRange", "loguniform[1e-4:0.1]",
                 "{type: double, minval: 1e-4, maxval: 0.1, log: true}"},
        GoodSpec{"QuotedRange", "'[1:4]'", "'[1:4]'"},
        GoodSpec{"QuotedList", "'1,2,3'", "'1,2,3'"},
        GoodSpec{"QuotedNumber", "\"1e400\"", "'1e400'"},
        GoodSpec{"QuotedBracket", "[\"range(1\", 'b)']",
                 "{type: categorical, vals: ['range(1', 'b)']}"},
        GoodSpec{"QuotedQuotes", "['it''s, (x', b]",
                 "{type: categorical, vals: ['it''s, (x', b]}"},
        GoodSpec{"TextWithAColon", "digits:LeNet", "'digits:LeNet'"},
        GoodSpec{"TextWithBrackets", "what is it (now)", "'what is it (now)'"},
        GoodSpec{"LargestInteger", "9223372036854775807",
                 "9223372036854775807"}),
    [](const auto& one) { return one.param.name; });

struct BadSpec {
  const char* name;  // of the test
  const char* spec;
  const char* says;
};

void PrintTo(const BadSpec& bad, std::ostream* out) { *out << bad.spec; }

class BadSpecTest : public testing::TestWithParam<BadSpec> {};

TEST_P(BadSpecTest, IsRefused) {
  try {
    ReadHparamSpec("--hp", GetParam().spec);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_THAT(error.what(), StartsWith("--hp: "));
    EXPECT_THAT(error.what(), HasSubstr(GetParam().says));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Specs, BadSpecTest,
    testing::Values(
        BadSpec{"EmptyValue", "", "has no value"},
        BadSpec{"UnknownWord", "lognuiform(1,2)", "did you mean 'loguniform'?"},
        BadSpec{"QuantizedNormal", "qrandn(0,1,0.1)",
                "there are no steps of a normal distribution"},
        BadSpec{"NormalWithSteps", "normal(0,1,step=0.1)",
                "there are no steps of a normal distribution"},
        BadSpec{"NormalWithThreeValues", "normal(0,1,2)",
                "bounds are low= and high="},
        BadSpec{"NoDeviation", "normal(0,0)",
                "the standard deviation 0 is not above 0"},
        BadSpec{"TwoMeans", "normal(0,1,mean=2)", "has mean= twice"},
        BadSpec{"MeanOfInt", "int(1,8,mean=3)", "int takes no mean="},
        BadSpec{"TextAsMean", "normal(a,1)", "the mean \"a\" is not a finite"},
        BadSpec{"QuantizedLog", "qloguniform(0.1,1,0.1)",
                "there are no steps on a logarithmic scale"},
        BadSpec{"LogAndSteps", "int(1,8,log=True,step=2)",
                "there are no steps on a logarithmic scale"},
        BadSpec{"LogRandint", "randint(1,8,log=True)", "takes no log=true"},
        BadSpec{"LogIntegersOfZero", "lograndint(0,8)", "bounds above 0"},
        BadSpec{"LograndintOfOneValue", "lograndint(3,4)",
                "lograndint excludes its second bound"},
        BadSpec{"NoMultiple", "qrandint(5,7,4)",
                "no multiple of 4 is between the bounds"},
        BadSpec{"ExponentsOfWandb", "log_uniform(-5,-1)",
                "its bounds are exponents of e in W&B; use log(LOW,HIGH)"},
        BadSpec{"GridSearch", "tune.grid_search([1,2])", "--searcher grid"},
        BadSpec{"NoStep", "quniform(0,1)",
                "quniform takes two bounds and a step"},
        BadSpec{"StepOfZero", "int(1,8,step=0)", "the step 0 is not above 0"},
        BadSpec{"FractionalStep", "int(1,8,step=0.5)",
                "the step 0.5 is not an integer"},
        BadSpec{"StepAndCount", "int(1,8,step=2,count=3)", "use one of them"},
        BadSpec{"NotABool", "float(1,8,log=3)", "log= takes true or false"},
        BadSpec{"ValueAfterCount", "int(1,count=3,8)",
                "unexpected '8' after count="},
        BadSpec{"ChoiceWithCount", "choice(a,count=3)",
                "choice takes no count="},
        BadSpec{"NotClosed", "log(1e-5,1e-1", "no ')' at its end"},
        BadSpec{"OneBound", "log(1)", "takes two bounds"},
        BadSpec{"Exponents", "log(-5,-1)", "not exponents"},
        BadSpec{"LogOfZero", "log(0,1)", "bounds above 0"},
        BadSpec{"Reversed", "double(1,0)", "is not below the second"},
        BadSpec{"Equal", "int(3,3)", "is not below the second"},
        BadSpec{"FractionalInt", "int(1,2.5)",
                "the bound 2.5 is not an integer"},
        BadSpec{"TextBound", "uniform(a,1)",
                "the bound \"a\" is not a finite number"},
        BadSpec{"InfiniteBound", "uniform(0,.inf)", "expected a finite number"},
        BadSpec{"RandintOfOneValue", "randint(3,4)",
                "randint excludes its second bound"},
        BadSpec{"ThirdBound", "log(1,2,3)", "not 3 values"},
        BadSpec{"TwoCounts", "log(1,2,count=3,count=4)", "has count= twice"},
        BadSpec{"NoChoices", "[]", "no values to choose from"},
        BadSpec{"TwoConstants", "const(1,2)", "const takes one value"},
        BadSpec{"Map", "{b: 1}", "is a map"},
        BadSpec{"UnclosedList", "[1,2", "quote a text"},
        BadSpec{"LargeInteger", "18446744073709551615", "is too large"},
        BadSpec{"LargeNegativeInteger", "-9223372036854775809", "is too large"},
        BadSpec{"LargeHexadecimal", "0xFFFFFFFFFFFFFFFF", "is too large"},
        BadSpec{"LargeNumber", "1e400", "is too large"},
        BadSpec{"LargeNumberInAList", "[1,1e400]", "is too large"},
        BadSpec{"LargeNumberInAnInnerList", "[[1,1e400],[2,3]]",
                "is too large"},
        BadSpec{"LargeChoice", "choice(18446744073709551615,1)",
                "is too large"},
        BadSpec{"LargeConstant", "const(-1e400)", "is too large"},
        BadSpec{"LargeBound", "loguniform(1e-4,1e400)", "is too large"},
        BadSpec{"LargeCount", "log(1,2,count=99999999999999999999)",
                "is too large"},
        BadSpec{"Infinity", ".inf", "expected a finite number"},
        BadSpec{"NanInAList", "[.nan,1]", "expected a finite number"},
        BadSpec{"UnclosedBracketInAText", "a)b", "bracket without its"},
        BadSpec{"UnclosedBracketInAList", "[range(1,10]", "bracket without"},
        BadSpec{"Comprehension", "[2**i for i in range(4,8)]", "is code"},
        BadSpec{"ComprehensionInACall", "choice([2**i for i in range(4,8)])",
                "is code"},
        BadSpec{"Call", "choice(np.linspace(0,1,5))", "is code"},
        BadSpec{"Power", "[2**4,2**5]", "is code"},
        BadSpec{"EmptyRange", "choice(range(3,3))", "has no values"},
        BadSpec{"LongRange", "range(0,80000)", "more than 1000; write range"},
        BadSpec{"GuildsIntegers", "[1:4]", "write int(LOW,HIGH), or double"},
        BadSpec{"GuildsUniform", "uniform[0:1]", "write int(LOW,HIGH), or"},
        BadSpec{"GuildsInitialValue", "[0.1:1:0.5]",
                "with parentheses and a comma"},
        BadSpec{"SquareBrackets", "choice[a,b]", "with parentheses"},
        BadSpec{"GuildsLinspace", "linspace[0:1:5]", "with parentheses"},
        BadSpec{"GuildsLogspace", "logspace[-4:-1:4]", "with parentheses"},
        BadSpec{"GuildsRange", "range[1:10:2]", "with parentheses"},
        BadSpec{"Slice", "0.1:1", "is a range of other tools"},
        BadSpec{"SliceWithAStep", "0.1:0.5:0.1", "is a range of other tools"},
        BadSpec{"HydrasList", "1,2,3", "write [A,B] to choose"},
        BadSpec{"HydrasTexts", "adam,sgd", "write [A,B] to choose"},
        BadSpec{"None", "[None,1]", "write null for no value"},
        BadSpec{"Comment", "#ff0000", "'#' begins a comment"},
        BadSpec{"Anchor", "&a", "a value is nothing"},
        BadSpec{"CommentAfterAText", "a #1", "begins a comment"},
        BadSpec{"TwoCommas", "[1,,2]", "no value between two commas"},
        BadSpec{"WhenWithoutComparison", "float(0,1) when sgd",
                "'sgd' is no condition; write when NAME==VALUE"},
        BadSpec{"WhenWithAnotherOperator", "float(0,1) when n>2",
                "'n>2' is no condition"},
        BadSpec{"WhenAndNothing", "float(0,1) when n==2 and m",
                "'m' is no condition"},
        BadSpec{"WhenTwice", "float(0,1) when n==2 and n==3",
                "has 'n' twice; write n in [A,B]"},
        BadSpec{"WhenInNoList", "float(0,1) when n in 2", "in takes a list"},
        BadSpec{"WhenAboveAText", "float(0,1) when n>=a", ">= takes a number"},
        BadSpec{"ElseTwice", "float(0,1) when n==2 else 3 else 4",
                "has else twice"},
        BadSpec{"CategoriesWithoutAList", "suggest_categorical(a,b)",
                "takes a name and a list"}),
    [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace dtrain
