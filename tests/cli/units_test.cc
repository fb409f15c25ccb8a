// Lengths in their units: programs that count epochs, batches or records, in
// one plot, comparison or report, and in the texts of each command.

#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cli_runner.h"

namespace dtrain {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

// Validates three times, the last time at $DTRAIN_UNTIL, and saves before.
constexpr const char* kCountProgram = R"(#!/bin/sh
set -eu
step=$((DTRAIN_UNTIL / 3))
for i in 1 2 3; do
  echo > "$DTRAIN_DIRECTORY/$i"
  printf '{"type":"checkpoint","%s":%d,"path":"%s"}\n' \
    "$DTRAIN_HPARAM_unit" $((i * step)) "$DTRAIN_DIRECTORY/$i" >&3
  printf '{"type":"validation","%s":%d,"metrics":{"acc":0.%d%d}}\n' \
    "$DTRAIN_HPARAM_unit" $((i * step)) "$i" "$DTRAIN_HPARAM_x" >&3
done
)";

// Trains one unit of the search in ten batches, and interrupts its runner
// between the second and the third, unless it has been resumed.
constexpr const char* kPausedProgram = R"sh(set -eu
say() { printf "$@" >&3; }
i=$((DTRAIN_DONE / STEP))
while [ $i -lt 3 ]; do
  i=$((i + 1))
  at="\"$DTRAIN_UNIT\":$((i * STEP))$(printf "$BATCHES" $i)"
  echo > "$DTRAIN_DIRECTORY/$i"
  say '{"type":"checkpoint",%s,"path":"%s"}\n' "$at" "$DTRAIN_DIRECTORY/$i"
  say '{"type":"validation",%s,"metrics":{"loss":0.%d}}\n' "$at" $i
  if [ $i = 2 ] && [ "$DTRAIN_DONE" = 0 ]; then
    while [ -e "$DTRAIN_DIRECTORY/2" ]; do sleep 0.1; done
    say '{"type":"training",%s,"metrics":{"x":1}}\n' "$LATER"
    kill -INT $(awk '/^PPid/ { print $2 }' /proc/$PPID/status)
    read -r order <&4
    exit 0
  fi
done
)sh";

class UnitsTest : public testing::Test {
 protected:
  static constexpr const char* kEpochs = "1";
  static constexpr const char* kBatches = "2";
  static constexpr const char* kRecords = "3";
  static constexpr const char* kModel = "4";  // counts batches, knows epochs

  UnitsTest() {
    dtrain_.Write("count.sh", kCountProgram);
    CreateProgram("epochs", 3);
    CreateProgram("batches", 300);
    CreateProgram("records", 3000);
#ifdef DTRAIN_HAS_TRIALS
    dtrain_.Write("model.yaml",
                  "name: model\nentrypoint: builtin:FaultTrial\n"
                  "hyperparameters:\n"
                  "  x: {type: int, minval: 1, maxval: 2, count: 2}\n"
                  "  batches_per_epoch: 10\n  global_batch_size: 32\n"
                  "searcher: {name: grid, metric: acc, smaller_is_better: "
                  "false, max_length: {epochs: 2}}\n");
    Create("model.yaml");
#endif
  }

  void CreateProgram(const std::string& unit, int length) const {
    dtrain_.Write(
        unit + ".yaml",
        "name: " + unit + "\nentrypoint: [sh, count.sh]\nhyperparameters:\n" +
            "  x: {type: int, minval: 1, maxval: 2, count: 2}\n  unit: " +
            unit +
            "\nsearcher: {name: grid, metric: acc, smaller_is_better: false, "
            "max_length: {" +
            unit + ": " + std::to_string(length) + "}}\n");
    Create(unit + ".yaml");
  }
  void Create(const std::string& yaml) const {
    const CliResult result = dtrain_.Run({"create", yaml, "-q"});
    ASSERT_EQ(result.code, 0) << result.err;
  }

  // The values of a row; null if there is none.
  static json Row(const json& comparison, const std::string& name) {
    for (const json& row : comparison["rows"]) {
      if (row["name"] == name) return row["values"];
    }
    return nullptr;
  }

  const CliRunner dtrain_;
};

TEST_F(UnitsTest, ComparesNoDifferentUnits) {
  const json found =
      dtrain_.Run({"compare", kEpochs, kBatches, kRecords, "--json"}).Json();
  EXPECT_EQ(Row(found, "epochs")[0]["value"], 6);
  EXPECT_EQ(Row(found, "epochs")[1]["value"], nullptr);
  EXPECT_EQ(Row(found, "batches")[1]["value"], 600);
  EXPECT_EQ(Row(found, "batches")[1]["difference"], nullptr);
  EXPECT_EQ(Row(found, "records")[2]["value"], 6000);
  for (const json& row : found["rows"])
    EXPECT_NE(row["section"], "best so far");
  EXPECT_EQ(found["warnings"],
            json({"experiment 1 counts epochs; experiment 2 counts batches; "
                  "experiment 3 counts records: their lengths are not "
                  "compared, because 2, 3 report no epochs; 'dtrain plot --x "
                  "time' compares by time"}));
}

#ifdef DTRAIN_HAS_TRIALS
TEST_F(UnitsTest, ComparesInEpochsWhereTheyAreKnown) {
  const json found =
      dtrain_.Run({"compare", kEpochs, kModel, "--json", "--all"}).Json();
  EXPECT_EQ(Row(found, "batches")[1]["value"], 40);
  EXPECT_EQ(Row(found, "epochs")[0]["value"], 6);
  EXPECT_EQ(Row(found, "epochs")[1]["value"], 4);
  EXPECT_EQ(Row(found, "epochs")[1]["difference"], -2);
  EXPECT_NE(Row(found, "25 % (1 epoch)"), nullptr);
  EXPECT_NE(Row(found, "100 % (4 epochs)"), nullptr);
  EXPECT_THAT(found["warnings"].dump(),
              HasSubstr("their lengths are compared in epochs"));
}

#endif

TEST_F(UnitsTest, ComparesEqualUnitsUnderTheirName) {
  const CliResult result = dtrain_.Run({"compare", kRecords, "3.1", "--all"});
  EXPECT_THAT(result.out, AllOf(HasSubstr("\nrecords "), HasSubstr("6000")));
  EXPECT_THAT(result.err, Not(HasSubstr("counts")));
}

TEST_F(UnitsTest, PlotsOverEpochsOnlyWhereTheyAreKnown) {
  const CliResult none = dtrain_.Run({"plot", kBatches, "--x", "epochs"});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err,
              HasSubstr("--x epochs: experiment 2 reports no epochs; use --x "
                        "batches or --x time\n"));
  for (const char* kind : {"curves", "history"}) {
    const CliResult some = dtrain_.Run(
        {"plot", kRecords, kEpochs, "--x", "epochs", "--kind", kind});
    EXPECT_EQ(some.code, 0) << some.err;
    EXPECT_THAT(some.err,
                HasSubstr("experiment 3 reports no epochs and is left out"));
    EXPECT_THAT(some.out, HasSubstr("experiment 1, epochs:"));
  }
}

TEST_F(UnitsTest, PlotSaysThatUnitsDiffer) {
  const CliResult mixed = dtrain_.Run({"plot", kEpochs, kBatches});
  EXPECT_THAT(mixed.out, HasSubstr("batches or epochs"));
  EXPECT_THAT(mixed.err,
              HasSubstr("experiment 1 counts epochs; experiment 2 counts "
                        "batches: they cannot be compared along this axis; "
                        "--x time compares them\n"));
#ifdef DTRAIN_HAS_TRIALS
  const CliResult converted =
      dtrain_.Run({"plot", kEpochs, kModel, "--kind", "history"});
  EXPECT_THAT(converted.out, HasSubstr("epochs of all trials together"));
  EXPECT_THAT(converted.err,
              HasSubstr("the axis shows epochs; --x batches shows their own"));
#endif
}

TEST_F(UnitsTest, MetricsHaveNoEpochThatWasNotReported) {
  const json rows =
      dtrain_.Run({"metrics", kBatches, "--json"}).Json()["metrics"];
  EXPECT_EQ(rows.at(0)["batches"], 100);
  EXPECT_EQ(rows.at(0)["epoch"], nullptr);
  EXPECT_THAT(dtrain_.Run({"metrics", kBatches}).out,
              HasSubstr("      100         -  acc"));
  EXPECT_THAT(dtrain_.Run({"metrics", kBatches, "--csv"}).out,
              HasSubstr("2.1,validation,100,,acc,"));
  const json columns =
      dtrain_.Run({"metrics", kBatches, "--columns", "epoch", "--json"})
          .Json()["metrics"];
  EXPECT_EQ(columns.at(0)["columns"]["epoch"], nullptr);
  EXPECT_EQ(dtrain_.Run({"metrics", kEpochs, "--json"})
                .Json()["metrics"]
                .at(0)["epoch"],
            1);
}

// The lengths and units of all objects in `json` that have `batches`, apart
// from profiles, which count batches.
void FindLengths(const json& json, std::set<std::string>& found) {
  for (const auto& [name, part] : json.items()) {
    if (part.is_structured() && name != "profile" && name != "config") {
      FindLengths(part, found);
    }
  }
  if (!json.is_object() || !json.contains("batches")) return;
  EXPECT_EQ(json.value("length", nlohmann::json()), json["batches"]) << json;
  found.insert(json["length"].dump() + " " + json.value("unit", "no unit"));
}

// `batches` has this name whatever it counts; `length` and `unit` say it.
TEST_F(UnitsTest, RowsHaveALengthInItsUnit) {
  for (const auto& [id, unit, length] :
       std::vector<std::tuple<std::string, std::string, int>>{
           {kEpochs, "epochs", 3},
           {kBatches, "batches", 300},
#ifdef DTRAIN_HAS_TRIALS
           {kModel, "batches", 20},
#endif
           {kRecords, "records", 3000}}) {
    const std::string uuid = dtrain_.Run({"checkpoints", id + ".1", "--json"})
                                 .Json()["checkpoints"]
                                 .back()["uuid"];
    std::vector<std::vector<std::string>> commands = {
        {"list"},
        {"trials", id},
        {"best", id},
        {"describe", id},
        {"describe", id + ".1"},
        {"metrics", id},
        {"checkpoints", id},
        {"checkpoint", "show", uuid},
        {"checkpoint", "verify", uuid},
        {"wait", id},
        {"create", (id == kModel ? "model" : unit) + ".yaml"}};
#ifdef DTRAIN_HAS_TRIALS
    if (id == kModel) {
      commands.push_back({"evaluate", uuid, "--record"});
      commands.push_back({"describe", id});
      commands.push_back({"reproduce", id + ".1", "--against", id + ".2"});
    }
#endif
    const std::string expected = std::to_string(length) + " " + unit;
    for (std::vector<std::string> command : commands) {
      command.push_back("--json");
      const CliResult result = dtrain_.Run(command);
      std::set<std::string> found;
      FindLengths(result.Json(), found);
      EXPECT_THAT(found, testing::Contains(expected))
          << testing::PrintToString(command) << result.out;
    }
    const std::string tail = "," + std::to_string(length) + "," + unit + "\r\n";
    for (const std::vector<std::string>& command :
         std::vector<std::vector<std::string>>{{"trials", id},
                                               {"best", id},
                                               {"metrics", id},
                                               {"checkpoints", id},
                                               {"checkpoint", "verify", id}}) {
      std::vector<std::string> words = command;
      words.push_back("--csv");
      const std::string out = dtrain_.Run(words).out;
      EXPECT_THAT(out, HasSubstr("length,unit\r\n")) << command[0];
      EXPECT_THAT(out, HasSubstr(tail)) << command[0];
    }
  }
}

// What a user reads of a pause, a resumption and an end, in a search that
// counts `unit`; the program may report batches beside it.
struct PausedSearch {
  std::string unit;
  int step = 1;
  bool reports_batches = false;
  std::string saved;    // where the last checkpoint before the pause is
  std::string reached;  // where the pause is
  std::string end;
};

TEST_F(UnitsTest, TextsAndEventsAreInTheUnitOfTheSearch) {
  const std::vector<PausedSearch> cases = {
      {"epochs", 1, false, "epoch 2", "epoch 2", "epoch 3"},
      {"epochs", 1, true, "epoch 2 (batch 20)", "epoch 2.5 (batch 25)",
       "epoch 3 (batch 30)"},
      {"records", 100, false, "record 200", "record 250", "record 300"},
      {"records", 100, true, "record 200 (batch 20)", "record 250 (batch 25)",
       "record 300 (batch 30)"},
      {"batches", 10, false, "batch 20", "batch 25", "batch 30"}};
  for (const PausedSearch& one : cases) {
    const std::string step = std::to_string(one.step);
    const std::string name =
        one.unit + (one.reports_batches ? " beside batches" : "");
    SCOPED_TRACE(name);
    const std::string later =
        one.unit == "epochs" && !one.reports_batches
            ? R"("epochs":2)"
            : "\"" + one.unit + "\":" +
                  (one.unit == "epochs" ? "2.5"
                                        : std::to_string(one.step * 5 / 2)) +
                  (one.reports_batches ? R"(,"batches":25)" : "");
    const std::string batches = one.reports_batches ? R"(,"batches":%d0)" : "";
    dtrain_.Write("paused.sh", "STEP=" + step + "\nBATCHES='" + batches +
                                   "'\nLATER='" + later + "'\n" +
                                   kPausedProgram);
    dtrain_.Write("paused.yaml",
                  "name: paused\nentrypoint: [sh, paused.sh]\n"
                  "records_per_epoch: 100\nresources: {slots: cpu}\n"
                  "searcher: {name: single, metric: loss, max_length: {" +
                      one.unit + ": " + std::to_string(3 * one.step) + "}}\n");
    const CliResult paused =
        dtrain_.Run({"create", "paused.yaml", "-v"},
                    {.environment = {{"DTRAIN_STOP_GRACE", "100s"}}});
    ASSERT_EQ(paused.code, 130) << paused.err;
    const std::string id = dtrain_.Run({"list", "--json"})
                               .Json()["experiments"]
                               .back()["id"]
                               .dump();
    EXPECT_THAT(paused.err, HasSubstr(" at " + one.saved));
    EXPECT_THAT(paused.err, HasSubstr("validation at " + one.saved));
    EXPECT_THAT(paused.err, HasSubstr("paused at " + one.reached));
    if (one.saved != one.reached) {
      EXPECT_THAT(paused.err, HasSubstr("resumes from " + one.saved +
                                        ", its last checkpoint"));
      EXPECT_THAT(dtrain_.Run({"describe", id + ".1"}).out,
                  HasSubstr("resumes from " + one.saved + ","));
    }
    const CliResult resumed = dtrain_.Run({"resume", id, "-v"});
    ASSERT_EQ(resumed.code, 0) << resumed.err;
    EXPECT_THAT(resumed.err, HasSubstr("resumed from " + one.saved));
    EXPECT_THAT(resumed.err, HasSubstr("completed at " + one.end));
    EXPECT_THAT(resumed.out, HasSubstr("loss 0.1 at "));
    EXPECT_THAT(
        dtrain_.Run({"logs", id}).out,
        HasSubstr("at " + std::to_string(2 * one.step) + " " + one.unit));
    EXPECT_THAT(dtrain_.Run({"describe", id}).out,
                HasSubstr("loss 0.1 at " + one.unit.substr(0, 5)));
    const CliResult lines =
        dtrain_.Run({"create", "paused.yaml", "--jsonl"},
                    {.environment = {{"DTRAIN_STOP_GRACE", "100s"}}});
    std::istringstream stream(lines.out);
    std::set<std::string> events;
    for (std::string line; std::getline(stream, line);) {
      const json event = json::parse(line);
      std::set<std::string> found;
      FindLengths(event, found);
      if (!found.empty()) events.insert(event["event"]);
      const std::string counted = one.reports_batches ? "batches" : one.unit;
      for (const std::string& length : found) {
        // At the beginning, what the program reports is unknown.
        if (length.starts_with("0 ")) continue;
        EXPECT_THAT(length, testing::EndsWith(" " + counted)) << line;
      }
    }
    const CliResult again =
        dtrain_.Run({"resume", std::to_string(std::stoi(id) + 1), "--jsonl"});
    ASSERT_EQ(again.code, 0) << again.err;
    std::istringstream resumed_stream(again.out);
    json start;
    for (std::string line; std::getline(resumed_stream, line);) {
      json event = json::parse(line);
      if (event["event"] == "trial_started") start = std::move(event);
    }
    EXPECT_EQ(start["from_length"], one.reports_batches ? 20 : 2 * one.step);
    EXPECT_EQ(start["from_batches"], start["from_length"]);
    EXPECT_THAT(events, testing::IsSupersetOf({"trial_started", "training",
                                               "validation", "checkpoint",
                                               "trial_ended", "end"}));
  }
}

TEST_F(UnitsTest, ExpressionsKnowTheUnitThatTheTableShows) {
  for (const auto& [id, unit, length] :
       std::vector<std::tuple<std::string, std::string, std::string>>{
           {kEpochs, "epochs", "3"},
           {kBatches, "batches", "300"},
           {kRecords, "records", "3000"}}) {
    const std::string filter = unit + " >= " + length;
    EXPECT_EQ(dtrain_
                  .Run({"trials", id, "--csv", "--columns", unit, "--filter",
                        filter, "--sort=-" + unit, "--limit", "1"})
                  .out,
              unit + "\r\n" + length + "\r\n");
    EXPECT_EQ(dtrain_
                  .Run({"metrics", id + ".1", "--csv", "--columns", unit,
                        "--filter", filter, "--sort", unit})
                  .out,
              unit + "\r\n" + length + "\r\n");
    EXPECT_EQ(dtrain_.Run({"best", id, "--filter", filter}).code, 0);
    EXPECT_EQ(dtrain_.Run({"wait", id, "--require", filter}).code, 0);
    EXPECT_EQ(dtrain_.Run({"wait", id, "--require", unit + " < 1"}).code, 4);
  }
  for (const char* command : {"trials", "metrics"}) {
    const CliResult other =
        dtrain_.Run({command, kBatches, "--filter", "epochs > 1"});
    EXPECT_EQ(other.code, 3) << command;
    EXPECT_THAT(other.err, HasSubstr("'epochs'"));
  }
}

TEST_F(UnitsTest, AMetricOfTheUnitsNameComesFirst) {
  dtrain_.Write("metric.sh",
                "printf '{\"type\":\"validation\",\"epochs\":2,\"metrics\":"
                "{\"acc\":1,\"epochs\":7}}\\n' >&3\n");
  dtrain_.Write("metric.yaml",
                "name: metric\nentrypoint: [sh, metric.sh]\n"
                "searcher: {name: single, metric: acc, max_length: {epochs: "
                "2}}\n");
  Create("metric.yaml");
  EXPECT_EQ(
      dtrain_.Run({"trials", "last", "--csv", "--columns", "epochs,batches"})
          .out,
      "epochs,batches\r\n7,2\r\n");
}

TEST_F(UnitsTest, ReportsNameEachUnit) {
  const std::string text =
      dtrain_.Run({"report", kEpochs, kRecords, "--md"}).out;
  EXPECT_THAT(text, HasSubstr("at epoch 3"));
  EXPECT_THAT(text, HasSubstr("| trial | acc | epochs | state |"));
  EXPECT_THAT(text, HasSubstr("at record 3000"));
  EXPECT_THAT(text, HasSubstr("| trial | acc | records | state |"));
  const std::string page =
      dtrain_.Run({"report", kEpochs, kRecords, "--html", "-"}).out;
  EXPECT_THAT(page, HasSubstr("epochs or records of all trials together"));
  EXPECT_THAT(page, HasSubstr("experiment 1 counts epochs"));
  EXPECT_THAT(page, HasSubstr("<th>records</th>"));
}

#ifdef DTRAIN_HAS_TRIALS
// Each trial that is promoted ends early, on its way to the second rung.
TEST_F(UnitsTest, ReachesNoRungByEndingEarly) {
  dtrain_.Write("early.yaml",
                "name: early\nentrypoint: builtin:FaultTrial\n"
                "hyperparameters:\n"
                "  x: {type: double, minval: 0, maxval: 1}\n"
                "  batches_per_epoch: 30\n  global_batch_size: 32\n"
                "searcher: {name: async_halving, metric: acc, "
                "smaller_is_better: true, max_trials: 8, num_rungs: 2, "
                "max_length: {epochs: 8}, max_concurrent_trials: 1}\n"
                "perform_initial_validation: true\n"
                "scheduling_unit: 7\nmin_validation_period: {records: 1000}\n"
                "early_stopping: {patience: 2}\n"
                "reproducibility: {experiment_seed: 371175117}\n");
  Create("early.yaml");
  const CliResult described = dtrain_.Run({"describe", "5"});
  EXPECT_THAT(described.out,
              ContainsRegex("by rung +1: 8; [1-9] trials? ended early, before "
                            "the next rung\n"));
  const CliResult plot = dtrain_.Run({"plot", "5", "--kind", "rungs"});
  EXPECT_THAT(plot.out, Not(HasSubstr("rung 2")));
  EXPECT_THAT(plot.err,
              ContainsRegex("[1-9] trials? ended early, before the length"));
  EXPECT_THAT(dtrain_.Run({"describe", kModel}).out, Not(HasSubstr("by rung")));
}
#endif

}  // namespace
}  // namespace dtrain
