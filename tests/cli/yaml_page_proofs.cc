// Effects of the keys of docs/yaml.md about an experiment and its search on
// trials that are programs.

#include <filesystem>
#include <fstream>
#include <set>

#include "tests/cli/yaml_page.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// --- Programs ---

constexpr char kSearched[] = "validate $until $DTRAIN_HPARAM_x\n";
// The loss falls, by less and less; the gain stays as it is.
constexpr char kFalling[] =
    "validate 1 5 1; validate 2 4 1; validate 3 3.9 1; validate 4 3.8 1\n"
    "validate 5 3.7 1\n";
// Takes many periods of the monitor.
constexpr char kSampled[] = "sleep 1; validate $until 1\n";
// --- Looks ---

// A field of what the command says.
Look Says(const std::string& command, const std::string& field) {
  return [=](const PageRun& run) {
    return run.Says(command).at(json::json_pointer(field));
  };
}

// True if it is recorded what trial 1 used.
json HasSamples(const PageRun& run) {
  return run.Run({"describe", "1.1", "--json"}).Json().at("system").is_object();
}

json TrialCount(const PageRun& run) {
  return run.Says("trials").at("trials").size();
}

// The state of the first trial, and how many processes it had.
json StateAndRuns(const PageRun& run) {
  return {run.OfTrials("/state").at(0), run.OfTrials("/runs").at(0)};
}

// Batches that all trials have trained together.
json TotalLength(const PageRun& run) {
  std::int64_t total = 0;
  for (const json& batches : run.OfTrials("/batches")) {
    total += batches.get<std::int64_t>();
  }
  return total;
}

// The lengths that were validated at, each once.
json Lengths(const PageRun& run) {
  std::set<int> lengths;
  for (const json& event : run.Events("validation")) {
    lengths.insert(event.at("batches").get<int>());
  }
  return lengths;
}

// Content of the checkpoint that the trial starts from.
json WarmStart(const PageRun& run) {
  const json path = Told("/warm_start")(run);
  if (path.is_null()) return path;
  std::string text;
  std::ifstream(fs::path(path.get<std::string>()) / "4") >> text;
  return text;
}

Proof ToldProof(const std::string& key, const std::string& value,
                const json& without, const json& with) {
  return {.key = key,
          .variant = "told",
          .set = {{key, value}},
          .program = kPlain,
          .look = Told("/" + key),
          .without = without,
          .with = with};
}

// Trials that are told x, one after another.
Settings Search(const std::string& name, const std::string& trials) {
  return {{"searcher.name", name},
          {"searcher.max_trials", trials},
          {"resources.slots", "cpu:1"},
          {"hyperparameters.x", "{type: double, minval: 0, maxval: 1}"}};
}

const Settings kTwoAtOnce = {{"searcher.name", "random"},
                             {"searcher.max_trials", "3"},
                             {"resources.slots", "cpu:2"}};
const Settings kFourTrials =
    Search("random", "4") +
    Settings{{"searcher.max_length", "8"},
             {"searcher.points", "[{x: 0.4}, {x: 0.1}, {x: 0.3}, {x: 0.2}]"}};
const Settings kEight = {{"searcher.max_length", "8"},
                         {"searcher.divisor", "2"}};
const Settings kModelled =
    Search("bayesian_asha", "12") +
    Settings{{"searcher.num_rungs", "2"}, {"searcher.divisor", "2"}};

// Number of files in the directory beside the program.
json FilesOfShared(const PageRun& run) {
  std::error_code missing;
  return std::distance(std::filesystem::directory_iterator(
                           run.directory() / "page/shared", missing),
                       std::filesystem::directory_iterator());
}

}  // namespace

std::vector<Proof> ExperimentProofs() {
  return {
      {.key = "name",
       .set = {{"name", "kept apart"}},
       .program = kPlain,
       .look = Says("describe", "/name"),
       .without = "page",
       .with = "kept apart"},
      {.key = "description",
       .set = {{"description", "A sentence."}},
       .program = kPlain,
       .look = Says("describe", "/description"),
       .without = "",
       .with = "A sentence."},
      {.key = "labels",
       .set = {{"labels", "[night, two words]"}},
       .program = kPlain,
       .look =
           [](const PageRun& run) {
             json found = json::array();
             for (const char* label : {"night", "two words", "words"}) {
               found.push_back(run.Run({"list", "--label", label, "--json"})
                                   .Json()
                                   .at("experiments")
                                   .size());
             }
             return found;
           },
       .without = json{0, 0, 0},
       .with = json{1, 1, 0}},
      {.key = "context",
       .set = {{"context", "{links: [shared]}"}},
       .program = "mkdir -p shared; : >shared/one; validate $until 1\n",
       .look = FilesOfShared,
       .without = 0,
       .with = 1},
      {.key = "context.links",
       .set = {{"context.links", "[shared]"}},
       .program = "mkdir -p shared; : >shared/one; validate $until 1\n",
       .look = FilesOfShared,
       .without = 0,
       .with = 1},
      {.key = "entrypoint",
       .variant = "command",
       .set = {{"entrypoint", R"(env "WORDS=a b" sh 'program.sh')"}},
       .program = "echo \"${WORDS-}\" >$HOME/words; validate $until 1\n",
       .look = Left("words"),
       .without = "",
       .with = "a b"},
      {.key = "entrypoint",
       .variant = "list",
       .set = {{"entrypoint",
                R"([sh, -c, "echo $0 | tr a-z A-Z >$HOME/words; exec sh )"
                R"(program.sh", one])"}},
       .program = kPlain,
       .look = Left("words"),
       .without = "",
       .with = "ONE"},
      {.key = "entrypoint",
       .variant = "placeholders",
       .set = {{"entrypoint", "sh program.sh --seed={{{length}}}"}},
       .program = "echo \"${1-}\" >$HOME/words; validate $until 1\n",
       .look = Left("words"),
       .without = "",
       .with = "--seed={4}"},
      {.key = "metrics",
       .set = {{"metrics", R"({loss: 'loss=(\S+)', step: 'step (\d)'})"}},
       // It reports by itself unless dtrain reads what it prints.
       .program = "echo 'step 4 loss=7'\n"
                  "[ -n \"${PYTHONUNBUFFERED-}\" ] || validate $until 1\n",
       .look =
           [](const PageRun& run) { return run.Reports("validation", "loss"); },
       .without = json::array({json::array({4, 1})}),
       .with = json::array({json::array({4, 7})}),
       .refusals = {{.set = {{"metrics.loss", "'loss=\\d+'"}},
                     .message = "metrics.loss: 'loss=\\d+' has no group; put "
                                "parentheses around the number"}}},
      {.key = "hyperparameters",
       .set = {{"hyperparameters", "{lr: 1e-4, layers: [3, 4], on: yes}"}},
       .program = kPlain,
       .look = Told("/hyperparameters"),
       .without = json::object(),
       .with = json{{"lr", 1e-4}, {"layers", {3, 4}}, {"on", "yes"}}},
      {.key = "data",
       .variant = "told",
       .set = {{"data", "{url: 'file:///d', parts: [1, {deep: null}]}"}},
       .program = kPlain,
       .look = Told("/data"),
       .without = json::object(),
       .with = json{{"url", "file:///d"}, {"parts", {1, {{"deep", nullptr}}}}}},
      ToldProof("records_per_epoch", "640", 0, 640),
      {.key = "records_per_epoch",
       .variant = "counts",
       .base = {{"searcher.max_length", "{records: 1600}"}},
       .set = {{"records_per_epoch", "640"}},
       .program = kPlain,
       .look =
           [](const PageRun& run) {
             return run.Events("validation").at(0).at("epoch");
           },
       .without = 0,
       .with = 2.5},
      ToldProof("min_validation_period", "{epochs: 2}", {{"batches", 0}},
                {{"epochs", 2}}),
      ToldProof("min_checkpoint_period", "{records: 30}", {{"batches", 0}},
                {{"records", 30}}),
      ToldProof("perform_initial_validation", "true", false, true),
      ToldProof("scheduling_unit", "7", 100, 7),
      // It succeeds at the third start.
      {.key = "max_restarts",
       .set = {{"max_restarts", "1"}},
       .program = "echo . >>$HOME/starts\n"
                  "[ $(wc -l <$HOME/starts) -ge 3 ] || exit 3\n"
                  "validate $until 1\n",
       .look = StateAndRuns,
       .without = json{"COMPLETED", 3},
       .with = json{"ERROR", 2},
       .refusals = {{.set = {{"max_restarts", "'5'"}},
                     .message = "max_restarts: expected an integer from 0 to "
                                "1000000, got the string '5'; remove the "
                                "quotes"}}},
      {.key = "rules",
       .base = {{"metrics", R"({loss: 'loss=(\S+)', step: 'step (\d)'})"}},
       .set = {{"rules", "1"}},
       // Rules 1 take the first value of a step.
       .program = "echo 'step 4'; echo 'loss=7'; echo 'loss=3'\n",
       .look =
           [](const PageRun& run) { return run.Reports("validation", "loss"); },
       .without = json::array({json::array({4, 3})}),
       .with = json::array({json::array({4, 7})}),
       .refusals = {{.set = {{"rules", "4"}},
                     .message = "rules: expected an integer from 1 to 3, got "
                                "the integer 4"}}},
      {.key = "time_limit",
       .set = {{"time_limit", "300ms"}},
       .program = "order=$(timeout 4 head -n 1 <&4) || true\n"
                  "[ -n \"$order\" ] || validate $until 1\n",
       .look = [](const PageRun& run) -> json {
         return {run.Says("describe").at("state"), run.result().code};
       },
       .without = json{"COMPLETED", 0},
       .with = json{"PAUSED", 124}},
      {.key = "trial_time_limit",
       .set = {{"trial_time_limit", "300ms"}},
       .program = "validate 1 1\n"
                  "order=$(timeout 4 head -n 1 <&4) || true\n"
                  "[ -n \"$order\" ] || validate $until 1\n",
       .look = OfTrials("/reason"),
       .without = json{nullptr},
       .with = json{"ended early: trial_time_limit of 0.3s reached"}},
      {.key = "searcher.target",
       .base = {{"searcher.smaller_is_better", "false"}},
       .set = {{"searcher.target", "2.5"}},
       .program = "validate 1 3\n"
                  "order=$(timeout 4 head -n 1 <&4) || true\n"
                  "[ -n \"$order\" ] || validate $until 4\n",
       .look = OfTrials("/reason"),
       .without = json{nullptr},
       .with = json{"target reached: trial 1.1, loss 3"}},
      {.key = "searcher.max_duration",
       .set = {{"searcher.max_duration", "300ms"}},
       .program = "sleep 0.6; validate 1 3\n"
                  "order=$(timeout 4 head -n 1 <&4) || true\n"
                  "[ -n \"$order\" ] || validate $until 4\n",
       .look = OfTrials("/reason"),
       .without = json{nullptr},
       .with = json{"max_duration reached"}},
      {.key = "hang_timeout",
       .base = {{"max_restarts", "0"}},
       .set = {{"hang_timeout", "300ms"}},
       .program = "sleep 4\nvalidate $until 1\n",
       .look = OfTrials("/reason"),
       .without = json{nullptr},
       .with = json{"timeout: no step for 0.3s, no report and no output "
                    "(hang_timeout)"},
       .refusals = {{.set = {{"hang_timeout", "0"}},
                     .message =
                         "hang_timeout: expected a duration above 0, got "
                         "the integer 0; write seconds or a number with "
                         "ms, s, m, h or d, such as 90 or 1.5h"}}},
      {.key = "profiling",
       .variant = "program",
       .set = {{"profiling", "{system: false}"}},
       .program = kSampled,
       .look = HasSamples,
       .without = true,
       .with = false},
      {.key = "profiling.system",
       .set = {{"profiling.system", "false"}},
       .program = kSampled,
       .look = HasSamples,
       .without = true,
       .with = false},
      {.key = "environment",
       .set = {{"environment", "{environment_variables: [GREETING=hello]}"}},
       .program = "echo ${GREETING-none} >$HOME/seen; validate $until 1\n",
       .look = Left("seen"),
       .without = "none",
       .with = "hello"},
      {.key = "environment.environment_variables",
       .variant = "map",
       .set = {{"environment.environment_variables",
                "{A: 'a b', cpu: {B: 2}, cuda: {B: 3, C: 4}}"}},
       .program = "echo ${A-} ${B-} ${C-} >$HOME/seen; validate $until 1\n",
       .look = Left("seen"),
       .without = "",
       .with = "a b 2"},
      {.key = "environment.environment_variables",
       .variant = "gpus",
       .base = {{"resources.slots", "[0]"}},
       .set = {{"environment.environment_variables",
                "{A: 1, cpu: {B: 2}, cuda: [A=3, C=4]}"}},
       .program = "echo ${A-} ${B-} ${C-} >$HOME/seen; validate $until 1\n",
       .look = Left("seen"),
       .without = "",
       .with = "3 4",
       .on_fake_gpus = true},
  };
}

// A grid tries the last point first.
std::vector<Proof> HyperparameterProofs() {
  const auto proof = [](const std::string& type, const std::string& range,
                        const json& values) -> Proof {
    return {
        .key = "type " + type,
        .variant = range,
        .base = {{"searcher.name", "grid"}, {"hyperparameters.x", "7"}},
        .set = {{"hyperparameters.x", "{type: " + type + ", " + range + "}"}},
        .program = kPlain,
        .look = OfTrials("/hparams/x"),
        .without = json::array({7}),
        .with = values};
  };
  return {
      proof("const", "val: [1, {type: int}]",
            json::array({json::array({1, json{{"type", "int"}}})})),
      proof("int", "minval: 3, maxval: 5", {5, 4, 3}),
      proof("int", "minval: 1, maxval: 9, count: 3", {9, 5, 1}),
      proof("int", "minval: 16, maxval: 48, step: 16", {48, 32, 16}),
      proof("int", "minval: 1, maxval: 64, log: true, count: 4",
            {64, 16, 4, 1}),
      proof("double", "minval: 0, maxval: 1, count: 3", {1, 0.5, 0}),
      proof("double", "minval: 0.25, maxval: 4, log: true, count: 3",
            {4, 1, 0.25}),
      proof("double", "minval: 0, maxval: 0.3, step: 0.1",
            {0.3, 0.2, 0.1, 0.0}),
      proof("normal", "mean: 3, std: 2, minval: 1, maxval: 5, count: 1", {3.0}),
      proof("log", "minval: 0, maxval: 2, count: 3", {100, 10, 1}),
      proof("log", "minval: -1, maxval: 1, base: 2, count: 3", {2, 1, 0.5}),
      proof("categorical", "vals: [a, 2, [3, 4]]",
            json::array({json{3, 4}, 2, "a"})),
  };
}

std::vector<Proof> EarlyStoppingProofs() {
  const std::string gain =
      "ended early: 'gain' did not improve 2 times in a row (early_stopping)";
  const std::string loss =
      "ended early: 'loss' did not improve 2 times in a row";
  const auto proof = [](const std::string& name, const std::string& value,
                        const json& without, const json& with,
                        const Settings& base) -> Proof {
    return {.key = "early_stopping" + name,
            .base = Settings{{"searcher.max_length", "5"}} + base,
            .set = {{"early_stopping" + name, value}},
            .program = kFalling,
            .look = OfTrials("/reason"),
            .without = json::array({without}),
            .with = json::array({with})};
  };
  const Settings patience = {{"early_stopping.patience", "2"}};
  return {
      proof("", "{metric: gain, patience: 2}", nullptr, gain, {}),
      proof(".metric", "gain", nullptr, gain, patience),
      proof(".patience", "1", gain,
            "ended early: 'gain' did not improve once (early_stopping)",
            patience + Settings{{"early_stopping.metric", "gain"}}),
      proof(".min_delta", "0.5", nullptr,
            loss + " by at least 0.5 (early_stopping)", patience),
      proof(".smaller_is_better", "false", nullptr, loss + " (early_stopping)",
            patience),
  };
}

// Waits until every message was sent or given up. Returns the field of each.
Look OfMessages(const std::string& field) {
  return [=](const PageRun& run) {
    while (true) {
      json fields = json::array();
      bool waits = false;
      const json document = run.Says("describe");
      for (const json& row : document.at("notifications")) {
        waits = waits || row.at("ended").is_null();
        fields.push_back(row.at(field));
      }
      if (!waits) return fields;
    }
  };
}

// The file that the command of the messages has written.
json Message(const PageRun& run) {
  OfMessages("id")(run);
  std::ifstream file(run.directory() / "message");
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::vector<Proof> NotifyProofs() {
  const Settings silent = {{"notify.command", "['true']"}};
  const auto proof = [](const std::string& name, const Settings& base,
                        const std::string& value, Look look,
                        const json& without, const json& with) -> Proof {
    return {.key = "notify" + name,
            .base = base,
            .set = {{"notify" + name, value}},
            .program = kPlain,
            .look = std::move(look),
            .without = without,
            .with = with};
  };
  return {
      proof("", {}, "{command: ['true']}", OfMessages("target"), json::array(),
            {"command true"}),
      proof(".command", silent, "[sh, -c, 'exit 0']", OfMessages("target"),
            {"command true"}, {"command sh"}),
      proof(".url", silent, "http://127.0.0.1:1/x", OfMessages("target"),
            {"command true"}, {"command true", "http://127.0.0.1:1/..."}),
      proof(".url_env", silent, "HOME", OfMessages("error"), {nullptr},
            {nullptr, "is not an address of http or https"}),
      proof(".format",
            {{"notify.command",
              "[sh, -c, 'grep -o \"^{.text.:\" > message; exit 0']"}},
            "slack", Message, "", "{\"text\":\n"),
      proof(".secret_env",
            {{"notify.command",
              "[sh, -c, 'echo \"${DTRAIN_NOTIFY_SIGNATURE%%=*}\" > "
              "message']"}},
            "HOME", Message, "\n", "sha256\n"),
      proof(".on", silent, "[error, best]", OfMessages("event"), {"completed"},
            {"best"}),
  };
}

std::vector<Proof> SearcherProofs() {
  return {
      {.key = "searcher",
       .base = {{"hyperparameters.x", "{type: categorical, vals: [1, 2]}"}},
       .set = {{"searcher", "{name: grid, metric: loss, max_length: 4}"}},
       .program = kPlain,
       .look = TrialCount,
       .without = 1,
       .with = 2},
      {.key = "searcher.name",
       .base = {{"hyperparameters.x", "{type: int, minval: 1, maxval: 3}"}},
       .set = {{"searcher.name", "grid"}},
       .program = kPlain,
       .look = TrialCount,
       .without = 1,
       .with = 3},
      {.key = "searcher.name",
       .variant = "alias",
       .base = Search("async_halving", "4") + kEight,
       .set = {{"searcher.name", "asha"}},
       .program = kSearched,
       .look = OfTrials("/batches"),
       .same = true},
      {.key = "searcher.metric",
       .set = {{"searcher.metric", "gain"}},
       .program = "validate 2 1 9; validate 4 5 3\n",
       .look = Says("best", "/best/0/value"),
       .without = 1,
       .with = 3},
      {.key = "searcher.smaller_is_better",
       .set = {{"searcher.smaller_is_better", "false"}},
       .program = "validate 2 1; validate 4 5\n",
       .look = Says("best", "/best/0/value"),
       .without = 1,
       .with = 5},
      {.key = "searcher.smaller_is_better",
       .variant = "told",
       .set = {{"searcher.smaller_is_better", "false"}},
       .program = kPlain,
       .look = Told("/smaller_is_better"),
       .without = true,
       .with = false},
      {.key = "searcher.max_length",
       .base = {{"searcher.max_length", ""}},
       .set = {{"searcher.max_length", "9"}},
       .program = kPlain,
       .look = OfTrials("/batches"),
       .without = json{4},
       .with = json{9}},
      {.key = "searcher.max_length",
       .variant = "epochs",
       .set = {{"searcher.max_length", "{epochs: 3}"}},
       .program = kPlain,
       .look = Told("/until"),
       .without = json{{"batches", 4}},
       .with = json{{"epochs", 3}}},
      {.key = "searcher.max_length",
       .variant = "records",
       .set = {{"searcher.max_length", "{records: 640}"}},
       .program = kPlain,
       .look = Told("/until"),
       .without = json{{"batches", 4}},
       .with = json{{"records", 640}}},
      {.key = "searcher.max_time",
       .base = {{"searcher.max_length", ""}},
       .set = {{"searcher.max_time", "6"}, {"searcher.time_metric", "batches"}},
       .program = kPlain,
       .look = OfTrials("/batches"),
       .without = json{4},
       .with = json{6}},
      {.key = "searcher.time_metric",
       .base = {{"searcher.max_length", ""},
                {"searcher.max_time", "6"},
                {"searcher.time_metric", "batches"}},
       .set = {{"searcher.time_metric", "records"}},
       .program = kPlain,
       .look = Told("/until"),
       .without = json{{"batches", 6}},
       .with = json{{"records", 6}}},
      {.key = "searcher.max_trials",
       .base = Search("random", "2"),
       .set = {{"searcher.max_trials", "3"}},
       .program = kSearched,
       .look = TrialCount,
       .without = 2,
       .with = 3},
      {.key = "searcher.max_concurrent_trials",
       .base = kTwoAtOnce,
       .set = {{"searcher.max_concurrent_trials", "1"}},
       .program = kSlow,
       .look = TrialsAtOnce,
       .without = 2,
       .with = 1},
      {.key = "searcher.repeats",
       .base = Search("random", "2"),
       .set = {{"searcher.repeats", "3"}},
       .program = kSearched,
       .look = TrialCount,
       .without = 2,
       .with = 6,
       .refusals = {{.set = {{"searcher.name", "async_halving"},
                             {"searcher.max_trials", "2"},
                             {"searcher.repeats", "3"}},
                     .message = "searcher.repeats: only applies to single, "
                                "random, grid, bayesian_asha, not to "
                                "async_halving, whose rungs would compare "
                                "points before all their repeats have ended; "
                                "remove it",
                     .column = -9},
                    {.set = {{"searcher.name", "bayesian_asha"},
                             {"searcher.max_trials", "2"},
                             {"searcher.repeats", "3"}},
                     .message = "searcher.repeats: rungs would compare points "
                                "before all their repeats have ended; add "
                                "num_rungs: 1, or remove repeats"}}},
      {.key = "searcher.repeat_metric",
       .base = Search("random", "1") + Settings{{"searcher.repeats", "3"}},
       .set = {{"searcher.repeat_metric", "max"}},
       .program = "n=$(cat \"$HOME/n\" || echo 0); n=$((n + 1))\n"
                  "echo $n > \"$HOME/n\"; validate $until $n\n",
       .look = Says("best", "/best/0/value"),
       .without = 2.0,
       .with = 3.0},
      {.key = "searcher.num_rungs",
       .base = Search("async_halving", "4") + kEight,
       .set = {{"searcher.num_rungs", "2"}},
       .program = kSearched,
       .look = Lengths,
       .without = json{2, 4, 8},
       .with = json{4, 8}},
      {.key = "searcher.divisor",
       .base = Search("async_halving", "4") +
               Settings{{"searcher.max_length", "16"}},
       .set = {{"searcher.divisor", "2"}},
       .program = kSearched,
       .look = Lengths,
       .without = json{4, 16},
       .with = json{4, 8, 16}},
      {.key = "searcher.stop_once",
       .base = Search("async_halving", "4") + kEight,
       .set = {{"searcher.stop_once", "true"}},
       .program = kSearched,
       .look = OfTrials("/batches"),
       .without = json{4, 2, 8, 2},
       .with = json{8, 2, 8, 2}},
      {.key = "searcher.mode",
       .base = Search("adaptive_asha", "8") + kEight,
       .set = {{"searcher.mode", "aggressive"}},
       .program = kSearched,
       .look = OfTrials("/batches"),
       .without = json{2, 1, 4, 1, 1, 4, 2, 4},
       .with = json{4, 2, 8, 1, 2, 1, 1, 1}},
      {.key = "searcher.mode",
       .variant = "conservative",
       .base = Search("adaptive_asha", "8") + kEight,
       .set = {{"searcher.mode", "conservative"}},
       .program = kSearched,
       .look = OfTrials("/batches"),
       .without = json{2, 1, 4, 1, 1, 4, 2, 4},
       .with = json{2, 1, 4, 1, 4, 2, 4, 8}},
      {.key = "searcher.max_rungs",
       .base = Search("adaptive_asha", "8") + kEight,
       .set = {{"searcher.max_rungs", "2"}},
       .program = kSearched,
       .look = OfTrials("/batches"),
       .without = json{2, 1, 4, 1, 1, 4, 2, 4},
       .with = json{8, 4, 8, 4, 8, 8, 8, 8}},
      {.key = "searcher.bracket_rungs",
       .base = Search("adaptive_asha", "4") + kEight,
       .set = {{"searcher.bracket_rungs", "[1]"}},
       .program = kSearched,
       .look = Lengths,
       .with = json{8}},
      {.key = "searcher.stops",
       .base = {{"searcher.max_length", "8"}},
       .set = {{"searcher.stops", "[2, 5]"}},
       .program = kPlain,
       .look = Lengths,
       .without = json{8},
       .with = json{2, 5, 8}},
      {.key = "searcher.constraints",
       .base = {{"searcher.name", "grid"},
                {"resources.slots", "cpu:1"},
                {"hyperparameters.x", "{type: int, minval: 1, maxval: 4}"}},
       .set = {{"searcher.constraints", "[x % 2 == 0]"}},
       .program = kSearched,
       .look = OfTrials("/hparams/x"),
       .without = json{4, 3, 2, 1},
       .with = json{4, 2}},
      {.key = "searcher.points",
       .base = Search("random", "2"),
       .set = {{"searcher.points", "[{x: 0.25}]"}},
       .program = kSearched,
       .look = [](const PageRun& run) -> json {
         return run.OfTrials("/hparams/x").at(0) == 0.25;
       },
       .without = false,
       .with = true},
      {.key = "searcher single",
       .base = Search("random", "3"),
       .set = {{"searcher.name", "single"}, {"searcher.max_trials", ""}},
       .program = kSearched,
       .look = OfTrials("/batches"),
       .without = json{4, 4, 4},
       .with = json::array({4})},
      {.key = "searcher random",
       .base = {{"hyperparameters.x", "{type: double, minval: 0, maxval: 1}"}},
       .set = {{"searcher.name", "random"}, {"searcher.max_trials", "3"}},
       .program = kSearched,
       .look = OfTrials("/batches"),
       .without = json::array({4}),
       .with = json{4, 4, 4}},
      {.key = "searcher grid",
       .base = {{"hyperparameters.x", "{type: int, minval: 2, maxval: 3}"},
                {"hyperparameters.y", "{type: categorical, vals: [a, b]}"}},
       .set = {{"searcher.name", "grid"}},
       .program = kSearched,
       .look =
           [](const PageRun& run) {
             json points = json::array();
             const json all = run.OfTrials("/hparams");
             for (const json& hparams : all) {
               points.push_back({hparams.at("x"), hparams.at("y")});
             }
             return points;
           },
       .with = json{{3, "b"}, {3, "a"}, {2, "b"}, {2, "a"}}},
      // The best half of each rung continues, by the smallest loss and the
      // largest.
      {.key = "searcher async_halving",
       .base = kFourTrials,
       .set = {{"searcher.name", "async_halving"}, {"searcher.divisor", "2"}},
       .program = kSearched,
       .look = OfTrials("/batches"),
       .without = json{8, 8, 8, 8},
       .with = json{2, 8, 2, 4}},
      {.key = "searcher.smaller_is_better",
       .variant = "promotes",
       .base = kFourTrials + Settings{{"searcher.name", "async_halving"},
                                      {"searcher.divisor", "2"}},
       .set = {{"searcher.smaller_is_better", "false"}},
       .program = kSearched,
       .look = OfTrials("/batches"),
       .without = json{2, 8, 2, 4},
       .with = json{8, 2, 4, 2}},
      {.key = "searcher adaptive_asha",
       .base = Search("async_halving", "8") + kEight,
       .set = {{"searcher.name", "adaptive_asha"}},
       .program = kSearched,
       .look = OfTrials("/batches"),
       .without = json{4, 2, 8, 1, 2, 1, 1, 1},
       .with = json{2, 1, 4, 1, 1, 4, 2, 4}},
      {.key = "searcher bayesian_asha",
       .base = Search("async_halving", "12") + kEight,
       .set = {{"searcher.name", "bayesian"}},
       .program = kSearched,
       .look = Says("describe", "/config/searcher/name"),
       .without = "async_halving",
       .with = "bayesian_asha"},
      // By default as async_halving: 6 trials of 2 batches and 6 of 4.
      {.key = "searcher.budget",
       .base = kModelled,
       .set = {{"searcher.budget", "12"}},
       .program = kSearched,
       .look = TotalLength,
       .without = 36,
       .with = 12},
      {.key = "searcher.budget",
       .variant = "duration",
       .base = kModelled,
       .set = {{"searcher.budget", "1ms"}},
       .program = kSlow,
       .look = TotalLength,
       .without = 36,
       .with = 2},
      {.key = "searcher.cost",
       .base = kModelled,
       .set = {{"searcher.cost", "length"}},
       .program = kSearched,
       .look = Says("describe", "/config/searcher/cost"),
       .without = nullptr,
       .with = "length"},
      {.key = "searcher.warm_start",
       .base = kModelled + Settings{{"searcher.points", "[{x: 0.25}]"}},
       .set = {{"searcher.warm_start", "[1]"}},
       .program = "keep $until; validate $until $DTRAIN_HPARAM_x\n",
       .look = [](const PageRun& run) -> json {
         return run.Says("describe").at("provenance").contains("warm_start");
       },
       .without = false,
       .with = true,
       .continues = true},
      {.key = "searcher.source_trial_id",
       .set = {{"searcher.source_trial_id", "'1.1'"}},
       .program = "keep 4; validate 4 1\n",
       .look = WarmStart,
       .without = nullptr,
       .with = "4",
       .continues = true},
      {.key = "searcher.source_checkpoint_uuid",
       .set = {{"searcher.source_checkpoint_uuid", "@CHECKPOINT"}},
       .program = "keep 4; validate 4 1\n",
       .look = WarmStart,
       .without = nullptr,
       .with = "4",
       .continues = true},
  };
}

}  // namespace dtrain
