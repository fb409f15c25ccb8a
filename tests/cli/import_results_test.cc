// `import-results`: tables, databases and directories of other programs, as
// experiments.

#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/tfevents.h"
#include "tests/support/cli_runner.h"

namespace dtrain {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

// Makes study.db with the tables of Optuna 4 (optuna/storages/_rdb/models.py):
// a study of one objective, and with `more` another one with two.
constexpr char kMakeStudy[] = R"py(
import json, sqlite3, sys
db = sqlite3.connect("study.db")
db.executescript("""
CREATE TABLE studies (study_id INTEGER PRIMARY KEY, study_name VARCHAR(512));
CREATE TABLE version_info (version_info_id INTEGER PRIMARY KEY,
  schema_version INTEGER, library_version VARCHAR(256));
CREATE TABLE study_directions (study_direction_id INTEGER PRIMARY KEY,
  direction VARCHAR(8), study_id INTEGER, objective INTEGER);
CREATE TABLE study_system_attributes (study_system_attribute_id INTEGER
  PRIMARY KEY, study_id INTEGER, key VARCHAR(512), value_json TEXT);
CREATE TABLE trials (trial_id INTEGER PRIMARY KEY, number INTEGER,
  study_id INTEGER, state VARCHAR(8), datetime_start DATETIME,
  datetime_complete DATETIME);
CREATE TABLE trial_params (param_id INTEGER PRIMARY KEY, trial_id INTEGER,
  param_name VARCHAR(512), param_value FLOAT, distribution_json TEXT);
CREATE TABLE trial_values (trial_value_id INTEGER PRIMARY KEY,
  trial_id INTEGER, objective INTEGER, value FLOAT, value_type VARCHAR(7));
CREATE TABLE trial_intermediate_values (trial_intermediate_value_id INTEGER
  PRIMARY KEY, trial_id INTEGER, step INTEGER, intermediate_value FLOAT,
  intermediate_value_type VARCHAR(7));
INSERT INTO version_info VALUES (1, 12, '4.0.0');
""")
lr = json.dumps({"name": "FloatDistribution", "attributes":
  {"step": None, "low": 1e-5, "high": 0.1, "log": True}})
layers = json.dumps({"name": "IntDistribution", "attributes":
  {"log": False, "step": 1, "low": 1, "high": 4}})
opt = json.dumps({"name": "CategoricalDistribution", "attributes":
  {"choices": ["adam", "sgd"]}})
def study(id, name, directions):
    db.execute("INSERT INTO studies VALUES (?, ?)", (id, name))
    for i, direction in enumerate(directions):
        db.execute("INSERT INTO study_directions (direction, study_id,"
          " objective) VALUES (?, ?, ?)", (direction, id, i))
def trial(study, number, state, params, values, steps=()):
    id = study * 100 + number
    db.execute("INSERT INTO trials VALUES (?, ?, ?, ?, ?, ?)", (id, number,
      study, state, "2026-01-02 03:04:05.500000", "2026-01-02 03:04:15.500000"))
    for name, (value, distribution) in params.items():
        db.execute("INSERT INTO trial_params (trial_id, param_name,"
          " param_value, distribution_json) VALUES (?, ?, ?, ?)",
          (id, name, value, distribution))
    for i, value in enumerate(values):
        db.execute("INSERT INTO trial_values (trial_id, objective, value,"
          " value_type) VALUES (?, ?, ?, ?)", (id, i, value, "FINITE"))
    for step, value in steps:
        kind = "NAN" if value is None else "FINITE"
        db.execute("INSERT INTO trial_intermediate_values (trial_id, step,"
          " intermediate_value, intermediate_value_type) VALUES (?, ?, ?, ?)",
          (id, step, value, kind))
study(1, "first", ["MAXIMIZE"])
trial(1, 0, "COMPLETE", {"lr": (0.01, lr), "layers": (2, layers),
  "opt": (1, opt)}, [0.9], [(1, 0.5), (2, 0.9)])
trial(1, 1, "PRUNED", {"lr": (0.1, lr), "layers": (4, layers),
  "opt": (0, opt)}, [], [(1, None)])
trial(1, 2, "FAIL", {"lr": (0.001, lr)}, [])
trial(1, 3, "COMPLETE", {"lr": (0.05, lr), "layers": (1, layers),
  "opt": (0, opt)}, [0.7])
trial(1, 4, "RUNNING", {}, [])
if "more" in sys.argv:
    study(2, "second", ["MINIMIZE", "MAXIMIZE"])
    trial(2, 0, "COMPLETE", {"lr": (0.01, lr)}, [3, 0.5])
db.commit()
)py";

class ImportResultsTest : public testing::Test {
 protected:
  // Imports, and returns the document of --json.
  json Import(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "import-results");
    arguments.push_back("--json");
    const CliResult result = dtrain_.Run(arguments);
    EXPECT_EQ(result.code, 0) << result.err;
    return result.code == 0 ? result.Json() : json();
  }

  json Trials(const std::string& experiment) const {
    return dtrain_.Run({"trials", experiment, "--json"}).Json()["trials"];
  }

  void MakeStudy(const std::string& more = "") const {
    const CliResult made =
        dtrain_.RunProgram({"python3", "-c", kMakeStudy, more});
    ASSERT_EQ(made.code, 0) << made.err;
  }

  // Returns what was refused, in one line.
  std::string Refusal(std::vector<std::string> arguments) const {
    const CliResult result = dtrain_.Run(arguments);
    EXPECT_EQ(result.code, 2) << result.out;
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
    return result.err;
  }

  CliRunner dtrain_;
};

TEST_F(ImportResultsTest, RecordsATableAsACompletedExperiment) {
  dtrain_.Write("results.csv",
                "id,state,hp.lr,hp.opt,loss,acc\n"
                "a,FINISHED,0.1,adam,0.5,0.7\n"
                "b,FINISHED,0.2,sgd,0.25,0.8\n"
                "c,CRASHED,0.3,sgd,,\n");
  const json imported = Import({"results.csv", "--metric", "loss"});
  EXPECT_EQ(imported["experiment"], 1);
  EXPECT_EQ(imported["trials"], 3);
  EXPECT_EQ(imported["best"]["trial"], "1.2");
  EXPECT_EQ(imported["imported"]["format"], "csv");
  const json row = dtrain_.Run({"list", "--json"}).Json()["experiments"][0];
  EXPECT_EQ(row["state"], "COMPLETED");
  EXPECT_EQ(row["name"], "results");
  EXPECT_EQ(row["progress"], 1.0);
  EXPECT_THAT(dtrain_.Run({"list"}).out,
              HasSubstr("results (imported results.csv)"));
  EXPECT_EQ(Trials("1")[2]["state"], "ERROR");
  EXPECT_EQ(Trials("1")[1]["hparams"], json({{"lr", 0.2}, {"opt", "sgd"}}));
  EXPECT_EQ(dtrain_.Run({"metrics", "1.1", "--json"}).Json()["metrics"].size(),
            2);
  EXPECT_THAT(dtrain_.Run({"describe", "1"}).out, HasSubstr("sha256="));
}

TEST_F(ImportResultsTest, WorksWithTheCommandsThatReadResults) {
  std::string table = "hp.lr,hp.opt,score\n";
  for (int i = 1; i <= 12; ++i) {
    table += std::to_string(i) + (i % 2 == 0 ? ",adam," : ",sgd,") +
             std::to_string(i * i) + "\n";
  }
  dtrain_.Write("t.csv", table);
  Import({"t.csv", "--maximize", "--name", "grid"});
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{
           {"best", "1"},
           {"best", "1", "--points"},
           {"compare", "1.1", "1.2"},
           {"importance", "1"},
           {"plot", "1", "--kind", "parallel"},
           {"plot", "1", "--kind", "slice"},
           {"plot", "1"},
           {"report", "1", "--md"},
           {"export", "1"},
           {"describe", "1.3"},
           {"wait", "1"},
           {"label", "1", "--add", "x"},
           {"gc"}}) {
    const CliResult result = dtrain_.Run(command);
    EXPECT_EQ(result.code, 0) << command[0] << ": " << result.err;
  }
  EXPECT_EQ(dtrain_.Run({"best", "1", "--json"}).Json()["best"][0]["trial"],
            "1.12");
  EXPECT_THAT(dtrain_.Run({"best", "1", "--points"}).out,
              HasSubstr("\"lr\": 12"));
  const json doctor = dtrain_.Run({"doctor", "--json"}).Json();
  for (const json& check : doctor["checks"]) {
    const std::string name = check["check"];
    const bool is_of_store = name == "experiments" || name == "search" ||
                             name == "checkpoints" || name == "database";
    EXPECT_TRUE(!is_of_store || check["status"] == "ok") << check;
  }
  EXPECT_EQ(dtrain_.Run({"archive", "1"}).code, 0);
  EXPECT_EQ(dtrain_.Run({"delete", "1", "--yes"}).code, 0);
}

TEST_F(ImportResultsTest, BeginsANewSearch) {
  dtrain_.Write("t.csv", "hp.lr,loss\n0.5,3\n0.25,1\n0.75,2\n");
  Import({"t.csv"});
  fs::permissions(dtrain_.Write("p.sh",
                                "#!/bin/bash\nprintf '{\"type\":\"validation\","
                                "\"batches\":1,\"metrics\":{\"loss\":%s}}\\n' "
                                "$DTRAIN_HPARAM_lr >&3\n"),
                  fs::perms::owner_all);
  dtrain_.Write("s.yaml",
                "name: s\nentrypoint: ./p.sh\nresources: {slots: cpu}\n"
                "hyperparameters: {lr: {type: double, minval: 0, maxval: 1}}\n"
                "searcher: {name: random, metric: loss, max_trials: 3, "
                "warm_start: [1]}\n");
  const CliResult created = dtrain_.Run({"create", "s.yaml"});
  ASSERT_EQ(created.code, 0) << created.err;
  EXPECT_THAT(created.err, HasSubstr("adds 2 points from 1.2, 1.3"));
  EXPECT_EQ(Trials("2")[0]["hparams"]["lr"], 0.25);
}

TEST_F(ImportResultsTest, RefusesCommandsThatNeedARun) {
  dtrain_.Write("t.csv", "hp.lr,loss\n0.5,3\n0.25,1\n");
  Import({"t.csv"});
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{
           {"resume", "1"},
           {"resume", "1", "--failed"},
           {"extend", "1", "--max-trials", "+3"},
           {"set", "max-trials", "1", "+3"},
           {"rerun", "1.1"},
           {"reproduce", "1.1"},
           {"continue", "1.1"},
           {"create", "--from", "1"},
           {"config", "1"},
           {"config", "1.1"},
           {"evaluate", "1.1"},
           {"checkpoint", "export", "1.1", "--to", "files"}}) {
    const std::string refusal = Refusal(command);
    EXPECT_THAT(refusal, HasSubstr("experiment 1 was imported from t.csv"))
        << command[0];
    EXPECT_THAT(refusal, HasSubstr("searcher.warm_start: [1]")) << command[0];
  }
  EXPECT_THAT(dtrain_.Run({"logs", "1"}).err,
              HasSubstr("no log lines, since experiment 1 was imported"));
  EXPECT_EQ(dtrain_.Run({"list", "--json"}).Json()["experiments"].size(), 1);
}

// A trial as both experiments have to have it.
json Comparable(json trial) {
  json same;
  const std::string id = trial["id"];
  same["number"] = id.substr(id.find('.'));
  for (const char* name : {"state", "reason", "hparams", "batches", "rung"}) {
    same[name] = trial[name];
  }
  for (const char* name : {"best", "latest"}) {
    // What a trial that failed has reported is imported as metrics only.
    if (!trial[name].is_object() || trial["state"] == "ERROR") continue;
    trial[name].erase("checkpoint");
    same[name] = trial[name];
  }
  return same;
}

TEST_F(ImportResultsTest, ReadsWhatExportWrites) {
  fs::permissions(
      dtrain_.Write(
          "p.sh",
          "#!/bin/bash\nfor b in 10 20; do\nprintf '{\"type\":\"training\","
          "\"batches\":%d,\"metrics\":{\"loss\":%s}}\\n' $b $b >&3\n"
          "printf '{\"type\":\"validation\",\"batches\":%d,\"metrics\":"
          "{\"loss\":%s,\"acc\":\"NaN\"}}\\n' $b $DTRAIN_HPARAM_lr >&3\ndone\n"
          "[ $DTRAIN_HPARAM_lr = 0.25 ] || echo '{\"type\":\"end\","
          "\"reason\":\"fatal\",\"message\":\"a, \\\"b\\\"\"}' >&3\n"),
      fs::perms::owner_all);
  dtrain_.Write(
      "s.yaml",
      "name: s\nentrypoint: ./p.sh\nresources: {slots: 'cpu:1'}\n"
      "hyperparameters:\n  lr: {type: categorical, vals: [0.25, 0.5]}\n"
      "  opt: {name: {type: categorical, vals: ['=a', 'b,c']}}\n"
      "  on: {type: categorical, vals: [true, false]}\n  width: 3\n"
      "  sizes: {type: categorical, vals: [[1, 2], [3]]}\n"
      "searcher: {name: grid, metric: loss}\n");
  EXPECT_NE(dtrain_.Run({"create", "s.yaml"}).code, 2);
  const json trials = Trials("1");
  ASSERT_EQ(trials.size(), 16);
  const json metrics =
      dtrain_.Run({"metrics", "1", "--json"}).Json()["metrics"];
  std::string experiment = "2";
  for (const std::string format : {"csv", "jsonl"}) {
    ASSERT_EQ(
        dtrain_.Run({"export", "1", "--to", format, "--out", format}).code, 0);
    EXPECT_EQ(Import({format, "--metric", "loss"})["trials"], 16);
    const json copies = Trials(experiment);
    ASSERT_EQ(copies.size(), trials.size());
    for (std::size_t i = 0; i < trials.size(); ++i) {
      EXPECT_EQ(Comparable(copies[i]), Comparable(trials[i])) << format;
    }
    json again =
        dtrain_.Run({"metrics", experiment, "--json"}).Json()["metrics"];
    for (json& row : again) {
      row["trial"] = "1" + row["trial"].get<std::string>().substr(1);
    }
    EXPECT_EQ(again, metrics) << format;
    experiment = "3";
  }
}

TEST_F(ImportResultsTest, ReadsAStudyOfOptuna) {
  MakeStudy();
  const json imported = Import({"optuna:sqlite:///study.db"});
  EXPECT_EQ(imported["trials"], 4);
  EXPECT_EQ(imported["smaller_is_better"], false);
  EXPECT_EQ(imported["best"]["value"], 0.9);
  const json trials = Trials("1");
  EXPECT_EQ(trials[0]["hparams"],
            json({{"lr", 0.01}, {"layers", 2}, {"opt", "sgd"}}));
  EXPECT_EQ(trials[0]["batches"], 2);
  EXPECT_EQ(trials[0]["duration"], 10.0);
  EXPECT_EQ(trials[0]["started"], "2026-01-02T03:04:05.500000Z");
  EXPECT_EQ(trials[1]["state"], "STOPPED");
  EXPECT_EQ(trials[1]["latest"], nullptr) << "a pruned trial has no result";
  EXPECT_EQ(trials[2]["state"], "ERROR");
  const json space = dtrain_.Run({"describe", "1", "--json"})
                         .Json()["config"]["hyperparameters"];
  EXPECT_EQ(space["lr"], json::parse(R"({"type": "double", "log": true,
                                         "minval": 1e-5, "maxval": 0.1})"));
  EXPECT_EQ(space["opt"]["vals"], json({"adam", "sgd"}));
  // The file is known by its contents, too.
  EXPECT_EQ(Import({"study.db", "--metric", "accuracy"})["metric"], "accuracy");
}

struct BadDistribution {
  std::string change;  // of the table trial_params, in SQL
  std::string message;
};

class BadDistributionTest
    : public ImportResultsTest,
      public testing::WithParamInterface<BadDistribution> {};

TEST_P(BadDistributionTest, IsRefusedWithTrialAndParameter) {
  MakeStudy();
  const std::string change = "UPDATE trial_params SET " + GetParam().change +
                             " WHERE trial_id = 101 AND param_name = 'lr'";
  const CliResult changed = dtrain_.RunProgram(
      {"python3", "-c",
       "import sqlite3, sys\ndb = sqlite3.connect('study.db')\n"
       "db.execute(sys.argv[1])\ndb.commit()",
       change});
  ASSERT_EQ(changed.code, 0) << changed.err;
  EXPECT_THAT(
      Refusal({"import-results", "study.db"}),
      HasSubstr("study.db: trial 1: parameter 'lr' " + GetParam().message));
  EXPECT_FALSE(fs::exists(dtrain_.store()));
}

std::string Distribution(const std::string& json) {
  return "distribution_json = '" + json + "'";
}

std::string FloatDistribution(const std::string& attributes) {
  return Distribution(R"({"name": "FloatDistribution", "attributes": )" +
                      attributes + "}");
}

constexpr char kUnknown[] =
    "has an unknown distribution or value; export a CSV; nothing was imported";
constexpr char kUnsupported[] = "has a distribution that is not supported: ";

INSTANTIATE_TEST_SUITE_P(
    Faults, BadDistributionTest,
    testing::Values(
        BadDistribution{"distribution_json = NULL", kUnknown},
        BadDistribution{"distribution_json = x'ff00'", kUnknown},
        BadDistribution{Distribution("low"), kUnknown},
        BadDistribution{Distribution("[]"), kUnknown},
        BadDistribution{Distribution("7"), kUnknown},
        BadDistribution{Distribution("{}"), kUnknown},
        BadDistribution{Distribution(R"({"name": "FloatDistribution"})"),
                        kUnknown},
        BadDistribution{Distribution(R"({"name": 5, "attributes": {}})"),
                        kUnknown},
        BadDistribution{FloatDistribution("[1]"), kUnknown},
        BadDistribution{FloatDistribution("null"), kUnknown},
        BadDistribution{FloatDistribution(R"({"low": 0})"), kUnknown},
        BadDistribution{FloatDistribution(R"({"low": "0", "high": {}})"),
                        kUnknown},
        BadDistribution{FloatDistribution(R"({"low": 0, "high": 1e999})"),
                        kUnknown},
        BadDistribution{FloatDistribution(R"({"low": 0, "high": Infinity})"),
                        kUnknown},
        BadDistribution{FloatDistribution(std::string(50'000, '[') +
                                          std::string(50'000, ']')),
                        kUnknown},
        BadDistribution{Distribution(R"({"name": "CategoricalDistribution", )"
                                     R"("attributes": {"choices": []}})"),
                        kUnknown},
        BadDistribution{Distribution(R"({"name": "CategoricalDistribution", )"
                                     R"("attributes": {"choices": {"a": 1}}})"),
                        kUnknown},
        BadDistribution{"param_value = NULL", kUnknown},
        BadDistribution{"param_value = 'x'", kUnknown},
        BadDistribution{"param_value = 9e999", kUnknown},
        BadDistribution{FloatDistribution(R"({"low": 2, "high": 1})"),
                        kUnsupported},
        BadDistribution{
            FloatDistribution(R"({"low": 0, "high": 1, "log": true})"),
            kUnsupported},
        BadDistribution{
            FloatDistribution(R"({"low": 0, "high": 1, "step": 1e-300})"),
            kUnsupported},
        BadDistribution{Distribution(R"({"name": "IntDistribution", )"
                                     R"("attributes": )"
                                     R"({"low": 0, "high": 1e300}})"),
                        kUnsupported}));

TEST_F(ImportResultsTest, ChoosesStudiesAndObjectives) {
  MakeStudy("more");
  EXPECT_THAT(Refusal({"import-results", "study.db"}),
              HasSubstr("study.db: has 2 studies; choose one with --study: "
                        "first, second; nothing was imported"));
  EXPECT_THAT(Refusal({"import-results", "study.db", "--study", "secnd"}),
              HasSubstr("there is no study 'secnd'; did you mean 'second'?"));
  EXPECT_THAT(Refusal({"import-results", "study.db", "--study", "second"}),
              HasSubstr("has 2 objectives; choose the one that decides with "
                        "--metric: values_0, values_1"));
  const json imported =
      Import({"study.db", "--study", "second", "--metric", "values_1"});
  EXPECT_EQ(imported["smaller_is_better"], false);
  EXPECT_EQ(imported["values"], 2);
}

// A source and what is said of it.
struct ImportCase {
  std::string name;
  std::map<std::string, std::string> files;
  std::vector<std::string> arguments;
  std::string message;
  int code = 0;
};

class ImportCaseTest : public ImportResultsTest,
                       public testing::WithParamInterface<ImportCase> {};

TEST_P(ImportCaseTest, SaysWhatItDoes) {
  for (const auto& [name, text] : GetParam().files) {
    fs::create_directories((dtrain_.directory() / name).parent_path());
    dtrain_.Write(name, text);
  }
  std::vector<std::string> arguments = GetParam().arguments;
  arguments.insert(arguments.begin(), "import-results");
  const CliResult result = dtrain_.Run(arguments);
  EXPECT_EQ(result.code, GetParam().code);
  EXPECT_THAT(result.err, HasSubstr(GetParam().message));
}

std::string EventFile(double loss, SessionStatus outcome) {
  std::string file;
  AppendFileVersion(file, 1);
  AppendTrialStart(file, 1, {{"lr", loss}, {"zip", "010"}});
  AppendScalar(file, "loss", 1, 1, loss);
  AppendTrialEnd(file, 1, outcome);
  return file;
}

constexpr char kGuessed[] =
    "metrics: loss, width; if one is a hyperparameter, name all of those with "
    "--hp";
constexpr char kFirstIsIndex[] =
    "note: left out: column 1, which only numbers the rows";
constexpr char kExported[] =
    "id,state,rung,hp.lr\n1.1,ERROR,0,1\n1.2,COMPLETED,1,2\n";

const std::vector<ImportCase> kImportCases = {
    // Which columns become metrics, and which hyperparameters.
    {"CsvGuesses",
     {{"t.csv", "hp.lr,width,loss\n1,2,3\n"}},
     {"t.csv", "--metric", "loss"},
     kGuessed},
    {"JsonGuesses",
     {{"t.jsonl", R"({"config": {"lr": 1}, "width": 2, "loss": 3})"}},
     {"t.jsonl", "--metric", "loss"},
     kGuessed},
    {"CsvNamesHparams",
     {{"t.csv", "lr,width,loss\n1,2,3\n"}},
     {"t.csv", "--hp", "lr", "--hp", "width"},
     "hyperparameters: lr, width\ndtrain: metrics: loss\n"},
    {"CsvHasOddNumbers",
     {{"t.csv", "hp.a,zip,note, acc,loss\n1,010,x, 1,2\n"}},
     {"t.csv", "--metric", "loss"},
     "not imported, since they are neither numbers nor hyperparameters: zip "
     "(line 2 has '010'), note, acc (line 2 has ' 1'); if one is a "
     "hyperparameter, name all of those with --hp\n"},
    {"CsvHasNoHparams",
     {{"t.csv", "loss\n1\n"}},
     {"t.csv"},
     "hyperparameters: none\n"},
    {"EventsNameBoth",
     {{"tb/a/x.tfevents.1", EventFile(1, SessionStatus::kSuccess)}},
     {"tb"},
     "hyperparameters: lr, zip\ndtrain: metrics: loss\n"},
    {"WandbNamesBoth",
     {{"wandb/a/files/config.yaml", "lr: {value: 1}\n"},
      {"wandb/a/files/wandb-summary.json", R"({"loss": 1, "width": 2})"}},
     {"wandb", "--metric", "loss"},
     "hyperparameters: lr\ndtrain: metrics: loss, width\n"},
    // Columns that only number the rows.
    {"CsvIndex",
     {{"t.csv", ",hp.lr,loss\n0,1,1\n2,1,2\n"}},
     {"t.csv"},
     kFirstIsIndex},
    {"CsvIndexOfSteps",
     {{"t.csv", ",id,step,name,value\n0,a,1,loss,1\n1,a,2,loss,1\n"}},
     {"t.csv"},
     kFirstIsIndex},
    {"CsvIndexLast",
     {{"t.csv", "hp.lr,loss,\n1,1,7\n1,2,8\n"}},
     {"t.csv"},
     "note: left out: column 3, which only numbers the rows"},
    {"CsvUnnamed",
     {{"t.csv", "Unnamed: 0,hp.lr,loss\n0,1,1\n1,1,2\n"}},
     {"t.csv"},
     "note: left out: column 'Unnamed: 0', which only numbers the rows"},
    {"CsvTrailingSeparator",
     {{"t.csv", "hp.lr,loss,\n1,1,\n1,2,\n"}},
     {"t.csv"},
     "hyperparameters: lr\ndtrain: metrics: loss\n"},
    {"JsonIndex",
     {{"t.jsonl", "{\"index\": 0, \"loss\": 1}\n{\"index\": 1}\n"}},
     {"t.jsonl"},
     "note: left out: column 'index', which only numbers the rows"},
    {"CsvIndexIsAMetric",
     {{"t.csv", "hp.lr,index\n1,1\n2,2\n"}},
     {"t.csv", "--metric", "index"},
     "metrics: index\n"},
    {"CsvUnnamedData",
     {{"t.csv", ",hp.lr,loss\n0.5,1,1\n2,1,2\n"}},
     {"t.csv"},
     "t.csv:1: column 1 has no name; name it, or remove it",
     2},
    // NaN and Infinity as Python writes them.
    {"JsonNaN",
     {{"t.jsonl", "{\"loss\": NaN}\n{\"loss\": -Infinity}\n{\"loss\": 2}\n"}},
     {"t.jsonl"},
     "has 3 trials and 3 values; best loss 2, trial 1.3"},
    {"JsonNaNInTexts",
     {{"t.jsonl", R"({"hp": {"a": "is NaN, \"Infinity"}, "loss": Infinity})"}},
     {"t.jsonl"},
     "has 1 trial and 1 value; none has a finite loss"},
    {"JsonNaNHparam",
     {{"t.jsonl", R"({"hp": {"a": NaN}, "loss": 1})"}},
     {"t.jsonl"},
     "t.jsonl:1: hyperparameter a: 'NaN' is not a finite",
     2},
    {"WandbNaNHparam",
     {{"wandb/a/files/config.yaml", "lr: {value: .nan}\n"},
      {"wandb/a/files/wandb-summary.json", R"({"loss": 1})"}},
     {"wandb"},
     "wandb: trial 'a': hyperparameter 'lr' is not a finite number",
     2},
    {"EventsInfinityHparam",
     {{"tb/a/x.tfevents.1", EventFile(HUGE_VAL, SessionStatus::kSuccess)}},
     {"tb"},
     "tb: trial 'a': hyperparameter 'lr' is not a finite number",
     2},
    {"WandbNaN",
     {{"wandb/a/files/wandb-summary.json", R"({"loss": NaN, "acc": 1})"}},
     {"wandb", "--metric", "loss"},
     "2 values; none has a finite loss"},
    {"WandbHistoryNaN",
     {{"wandb/a/files/config.yaml", "lr: {value: 1}\n"},
      {"wandb/a/files/wandb-history.jsonl",
       "{\"loss\": Infinity}\n{\"loss\": 1}\n"}},
     {"wandb"},
     "2 values; best loss 1, trial 1.1"},
    {"ValuesNaN",
     {{"t.csv", "id,state,rung,hp.lr\na,COMPLETED,1,1\n"},
      {"m.jsonl",
       R"({"trial": "a", "step": 1, "name": "loss", "value": NaN})"}},
     {"t.csv", "--values", "m.jsonl", "--metric", "loss"},
     "1 value; none has a finite loss"},
    // Trials that failed.
    {"CsvFailed",
     {{"t.csv", "state,loss\nFAILED,1\nFINISHED,2\n"}},
     {"t.csv"},
     "best loss 2, trial 1.2"},
    {"JsonFailed",
     {{"t.jsonl", "{\"state\": \"invalid\", \"loss\": 1}\n{\"loss\": 2}\n"}},
     {"t.jsonl"},
     "note: values of 1 trial that has failed are kept, but never the best"},
    {"AllFailed",
     {{"t.csv", "state,loss\nERROR,1\n"}},
     {"t.csv"},
     "1 value; none has a finite loss"},
    {"ExportFailed",
     {{"x/trials.csv", kExported},
      {"x/metrics.csv",
       "trial,batches,name,value\n1.1,1,loss,1\n1.2,1,loss,2\n"}},
     {"x"},
     "best loss 2, trial 1.2"},
    {"EventsFailed",
     {{"tb/a/x.tfevents.1", EventFile(1, SessionStatus::kFailure)},
      {"tb/b/x.tfevents.1", EventFile(2, SessionStatus::kSuccess)}},
     {"tb"},
     "best loss 2, trial 1.2"},
};

INSTANTIATE_TEST_SUITE_P(Sources, ImportCaseTest,
                         testing::ValuesIn(kImportCases),
                         [](const auto& info) { return info.param.name; });

TEST_F(ImportResultsTest, RefusesNamesOfOptunaThatCannotBeUsed) {
  MakeStudy();
  const std::string rename =
      "import sqlite3, sys\ndb = sqlite3.connect('study.db')\n"
      "db.execute(\"UPDATE trial_params SET param_name = ? WHERE trial_id = "
      "101 "
      "AND param_name = ?\", sys.argv[1:])\ndb.commit()";
  std::string before = "lr";
  for (const std::string& name :
       std::vector<std::string>{"", ".", "a..b", std::string(2000, 'x')}) {
    ASSERT_EQ(dtrain_.RunProgram({"python3", "-c", rename, name, before}).code,
              0);
    EXPECT_THAT(Refusal({"import-results", "study.db"}),
                HasSubstr("study.db: trial '1': hyperparameter '" +
                          name.substr(0, 30)));
    before = name;
  }
}

TEST_F(ImportResultsTest, NeverTakesAFailedTrialOfOptunaAsTheBest) {
  MakeStudy();
  const CliResult changed = dtrain_.RunProgram(
      {"python3", "-c",
       "import sqlite3\ndb = sqlite3.connect('study.db')\n"
       "db.execute(\"INSERT INTO trial_values (trial_id, objective, value, "
       "value_type) VALUES (102, 0, 1, 'FINITE')\")\ndb.commit()"});
  ASSERT_EQ(changed.code, 0) << changed.err;
  EXPECT_EQ(Import({"study.db"})["best"]["trial"], "1.1");
  EXPECT_EQ(
      dtrain_.Run({"best", "1", "-n", "9", "--json"}).Json()["best"].size(), 2);
}

TEST_F(ImportResultsTest, WarnsOfResultsThatWereImportedBefore) {
  MakeStudy("more");
  dtrain_.Write("t.csv", "hp.lr,loss\n0.5,3\n");
  dtrain_.Write("t.jsonl", R"({"hp.lr": 0.5, "loss": 3})");
  for (const std::string tb : {"tb/a", "copy/tb/a", "copy/tb/b"}) {
    fs::create_directories(dtrain_.directory() / tb);
    dtrain_.Write(tb + "/x.tfevents.1", EventFile(1, SessionStatus::kSuccess));
    dtrain_.Write(tb + "/x.tfevents.2", EventFile(1, SessionStatus::kSuccess));
  }
  const auto import = [&](const std::vector<std::string>& source) {
    std::vector<std::string> arguments = {"import-results"};
    arguments.insert(arguments.end(), source.begin(), source.end());
    const CliResult result = dtrain_.Run(arguments);
    EXPECT_EQ(result.code, 0) << result.err;
    return result.err;
  };
  const auto is_new = Not(HasSubstr("already imported"));
  const auto is_known = HasSubstr("already imported as experiment ");
  EXPECT_THAT(import({"t.csv"}), is_new);
  EXPECT_THAT(
      import({"./t.csv", "--name", "again"}),
      HasSubstr("warning: the same results were already imported as experiment "
                "1; 'dtrain delete 2' removes the new copy"));
  EXPECT_THAT(import({"t.jsonl"}), is_new);
  EXPECT_THAT(import({"study.db", "--study", "first"}), is_new);
  EXPECT_THAT(import({"study.db", "--study", "second", "--metric", "values_0"}),
              is_new);
  EXPECT_THAT(import({"study.db", "--study", "first"}), is_known);
  EXPECT_THAT(import({"tb"}), is_new);
  EXPECT_THAT(import({"copy/tb"}), is_new);
  EXPECT_THAT(import({(dtrain_.directory() / "tb").string()}), is_known);
  fs::remove_all(dtrain_.directory() / "copy/tb/b");
  EXPECT_THAT(import({"copy/tb"}), is_known);
}

TEST_F(ImportResultsTest, RecordsAllOrNothingIfKilled) {
  std::string table = "hp.lr,loss,note\n";
  for (int i = 0; i < 20'000; ++i) table += "1,2,x\n";
  dtrain_.Write("t.csv", table);
  dtrain_.Run({"import-results", "t.csv"},
              {.signal_when = "note:", .signal = SIGKILL});
  const json list = dtrain_.Run({"list", "--json"}).Json()["experiments"];
  EXPECT_TRUE(list.empty() || list[0]["trials"] == 20'000) << list;
}

TEST_F(ImportResultsTest, RefusesOtherAndLockedDatabases) {
  const auto python = [&](const std::string& code) {
    EXPECT_EQ(
        dtrain_.RunProgram({"python3", "-c", "import sqlite3\n" + code}).code,
        0);
  };
  python("db = sqlite3.connect('other.db'); db.execute('CREATE TABLE a (b)')");
  EXPECT_THAT(Refusal({"import-results", "other.db"}),
              HasSubstr("other.db: is a database, but not one of Optuna (no "
                        "table 'studies'); export a CSV from it"));
  python(
      "db = sqlite3.connect('old.db')\ndb.executescript('CREATE TABLE studies "
      "(study_id, study_name); CREATE TABLE trials (trial_id, value)')");
  EXPECT_THAT(Refusal({"import-results", "old.db"}),
              HasSubstr("old.db: is of an old version of Optuna"));
  dtrain_.Write("bad.db", "SQLite format 3" + std::string(2000, '\0'));
  EXPECT_THAT(Refusal({"import-results", "bad.db"}), HasSubstr("bad.db: "));
  MakeStudy();
  const CliResult locked = dtrain_.RunProgram(
      {"python3", "-c",
       "import sqlite3, subprocess, sys\n"
       "db = sqlite3.connect('study.db', isolation_level=None)\n"
       "db.execute('BEGIN EXCLUSIVE')\n"
       "sys.exit(subprocess.call(['dtrain', 'import-results', 'study.db']))"});
  EXPECT_EQ(locked.code, 2);
  EXPECT_THAT(locked.err, HasSubstr("study.db: is locked by another program; "
                                    "import it again when that has ended"));
  EXPECT_THAT(Refusal({"import-results", "optuna:mysql://host/db"}),
              HasSubstr("only databases of SQLite can be read"));
}

TEST_F(ImportResultsTest, ReadsEventFiles) {
  for (int run = 1; run <= 2; ++run) {
    const std::string name = "tb/run" + std::to_string(run);
    fs::create_directories(dtrain_.directory() / name / "train");
    std::string file, other;
    AppendFileVersion(file, 1);
    AppendTrialStart(file, 1, {{"lr", run / 4.0}, {"layers", run}});
    AppendScalar(file, "loss", 1, 1, 2.5);
    AppendScalar(file, "loss", 2, 1, run);
    AppendScalar(other, "loss", 2, 1, 9);
    dtrain_.Write(name + "/events.out.tfevents.1", file);
    dtrain_.Write(name + "/train/events.out.tfevents.2", other + "cut");
  }
  const json imported = Import({"tb", "--metric", "loss"});
  EXPECT_EQ(imported["best"]["value"], 1.0);
  const json trials = Trials("1");
  EXPECT_EQ(trials[1]["hparams"], json({{"lr", 0.5}, {"layers", 2}}));
  EXPECT_EQ(dtrain_.Run({"metrics", "1", "--name", "train/loss", "--json"})
                .Json()["metrics"]
                .size(),
            2);
  dtrain_.Write("tb/run2/events.out.tfevents.3", std::string(100, 'x'));
  EXPECT_THAT(Refusal({"import-results", "tb", "--metric", "loss"}),
              HasSubstr("events.out.tfevents.3: the length of a record has a "
                        "wrong checksum"));
}

TEST_F(ImportResultsTest, ReadsRunsOfWandb) {
  for (const std::string run : {"1", "2"}) {
    const std::string files = "wandb/run-2026-" + run + "/files";
    fs::create_directories(dtrain_.directory() / files);
    dtrain_.Write(files + "/config.yaml",
                  "wandb_version: 1\n_wandb:\n  value: {cli_version: 1}\n"
                  "lr:\n  desc: null\n  value: 0." +
                      run +
                      "\nmodel:\n"
                      "  value: {width: " +
                      run + "}\n");
    dtrain_.Write(
        files + "/wandb-summary.json",
        "{\"loss\": " + run +
            ", \"_step\": 9, \"_runtime\": 2.5, "
            "\"_wandb\": {\"runtime\": 2}, \"table\": {\"path\": \"x\"}}");
  }
  const CliResult result = dtrain_.Run({"import-results", "wandb"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("only the last value of each metric"));
  const json trials = Trials("1");
  ASSERT_EQ(trials.size(), 2);
  EXPECT_EQ(trials[1]["hparams"],
            json({{"lr", 0.2}, {"model", {{"width", 2}}}}));
  EXPECT_EQ(trials[1]["batches"], 9);
  EXPECT_EQ(trials[1]["duration"], 2.5);
  dtrain_.Write("wandb/run-2026-2/files/wandb-history.jsonl",
                "{\"_step\": 0, \"loss\": 3}\n{\"_step\": 1, \"loss\": 2}\n");
  Import({"wandb/run-2026-2"});
  EXPECT_EQ(Trials("2")[0]["latest"]["batches"], 1);
}

TEST_F(ImportResultsTest, RefusesSourcesThatItCannotRead) {
  const auto refusal = [&](const std::vector<std::string>& arguments) {
    std::vector<std::string> all = {"import-results"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return Refusal(all);
  };
  dtrain_.Write("t.csv", "hp.lr,loss,acc\n0.5,3,1\n0.25,1,2\n");
  fs::create_directories(dtrain_.directory() / "empty");
  fs::create_directories(dtrain_.directory() / "binary");
  dtrain_.Write("binary/run-1.wandb", "x");
  dtrain_.Write("list.json", "[{\"loss\": 1}]");
  EXPECT_THAT(refusal({"none.csv"}),
              HasSubstr("none.csv: does not exist; check the path"));
  EXPECT_THAT(refusal({"empty"}),
              HasSubstr("empty: is a directory without results; give a CSV"));
  EXPECT_THAT(refusal({"binary"}), HasSubstr("only W&B's binary files"));
  EXPECT_THAT(refusal({"binary/run-1.wandb"}), HasSubstr("export a CSV"));
  EXPECT_THAT(refusal({"/dev/null"}),
              HasSubstr("is neither a file nor a directory"));
  EXPECT_THAT(refusal({"list.json"}), HasSubstr("write one object a line"));
  EXPECT_THAT(refusal({"t.csv"}),
              HasSubstr("t.csv: has several metrics; choose one with "
                        "--metric: acc, loss; nothing was imported"));
  EXPECT_THAT(refusal({"t.csv", "--metric", "los"}),
              HasSubstr("--metric: no trial has a value of 'los'; did you "
                        "mean 'loss'?"));
  EXPECT_THAT(refusal({"t.csv", "--metric", "loss", "--hp", "lr"}),
              HasSubstr("--hp: there is no column 'lr'"));
  EXPECT_THAT(refusal({"t.csv", "--metric", "loss", "--study", "x"}),
              HasSubstr("--study is for a database of Optuna"));
  EXPECT_THAT(refusal({"t.csv", "--metric", "loss", "--values", "t.csv"}),
              HasSubstr("is no table of values"));
  if (geteuid() != 0) {
    fs::permissions(dtrain_.directory() / "t.csv", fs::perms::none);
    EXPECT_THAT(refusal({"t.csv"}), HasSubstr("cannot be read"));
  }
  EXPECT_FALSE(fs::exists(dtrain_.store()));
}

TEST_F(ImportResultsTest, WarnsOfADirectionThatContradictsTheName) {
  dtrain_.Write("t.csv", "hp.lr,accuracy\n0.5,3\n0.25,1\n");
  EXPECT_THAT(dtrain_.Run({"import-results", "t.csv"}).err,
              HasSubstr("give --maximize if a larger value is better"));
  EXPECT_THAT(dtrain_.Run({"import-results", "t.csv", "--maximize"}).err,
              Not(HasSubstr("--maximize")));
}

}  // namespace
}  // namespace dtrain
