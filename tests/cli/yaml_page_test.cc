// Every row of docs/yaml.md has a proof: an experiment through the binary in
// which the key has a visible effect, and one in which an invalid value is
// refused.

#include "tests/cli/yaml_page.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <ostream>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/text.h"

namespace dtrain {

static void PrintTo(const Proof& proof, std::ostream* out) {
  *out << proof.key << ' ' << proof.variant;
}

static void PrintTo(const Refusal& refusal, std::ostream* out) {
  *out << refusal.key << ' ' << refusal.message;
}

namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::UnorderedElementsAreArray;

// --- The page ---

/// A row of a table: its cells, without blanks around.
using Cells = std::vector<std::string>;

struct Table {
  Cells head;
  std::vector<Cells> rows;
};

Cells SplitCells(const std::string& line) {
  Cells cells;
  for (const std::string& text : Split(line.substr(1), '|')) {
    const std::size_t begin = text.find_first_not_of(' ');
    const std::size_t end = text.find_last_not_of(' ');
    cells.push_back(begin == text.npos ? ""
                                       : text.substr(begin, end - begin + 1));
  }
  if (!cells.empty() && cells.back().empty()) cells.pop_back();
  return cells;
}

std::vector<Table> TablesOfPage() {
  std::vector<Table> tables;
  std::ifstream page(DTRAIN_SOURCE_DIR "/docs/yaml.md");
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    const bool is_row = line.starts_with("|");
    if (is_row && !inside) {
      tables.push_back({.head = SplitCells(line)});
    } else if (is_row && !line.starts_with("|---")) {
      tables.back().rows.push_back(SplitCells(line));
    }
    inside = is_row;
  }
  return tables;
}

struct KeyRow {
  std::string key;
  std::string doc;
  std::string status;  // of the column `runs`
};

// The tables of keys.
std::vector<KeyRow> KeyRows() {
  std::vector<KeyRow> rows;
  for (const Table& table : TablesOfPage()) {
    if (table.head != Cells{"key", "type", "default", "what it does", "runs"}) {
      continue;
    }
    for (const Cells& cells : table.rows) {
      rows.push_back({.key = cells.at(0).substr(1, cells.at(0).size() - 2),
                      .doc = cells.at(3),
                      .status = cells.at(4)});
    }
  }
  return rows;
}

// "searcher grid", "type log": what the page has beside keys.
std::vector<std::string> OtherRows() {
  std::vector<std::string> names;
  for (const Table& table : TablesOfPage()) {
    const std::string& kind = table.head.at(0);
    if (kind != "type" && kind != "searcher") continue;
    for (const Cells& cells : table.rows) {
      names.push_back(kind + ' ' + cells.at(0));
    }
  }
  return names;
}

// --- The proofs ---

template <typename T>
void Append(std::vector<T>& all, const std::vector<T>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

std::vector<Proof> ProgramProofs() {
  std::vector<Proof> all = ExperimentProofs();
  for (const auto& part : {HyperparameterProofs(), SearcherProofs(),
                           ResourcesProofs(), SlurmProofs(), CheckpointProofs(),
                           EarlyStoppingProofs(), NotifyProofs()}) {
    Append(all, part);
  }
  return all;
}

// Proofs of builds with and without LibTorch.
std::vector<Proof> AllProofs() {
  std::vector<Proof> all = ProgramProofs();
  Append(all, TrainerProofs());
  Append(all, OwnModelProofs());
  return all;
}

// Those of the proofs, and the others.
std::vector<Refusal> AllRefusals() {
  std::vector<Refusal> all = Refusals();
  for (const Proof& proof : AllProofs()) {
    for (Refusal refusal : proof.refusals) {
      if (refusal.key.empty()) refusal.key = proof.key;
      all.push_back(std::move(refusal));
    }
  }
  return all;
}

std::string TestName(const std::string& key, const std::string& variant) {
  std::string name = key + (variant.empty() ? "" : "_" + variant);
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

// All that the experiment is, and without @CHECKPOINT.
Settings MakeSettings(const Proof& proof, const Settings& set,
                      const std::string& checkpoint = "") {
  Settings settings = ProgramSettings() + proof.base + set;
  for (auto& [key, value] : settings) {
    if (value == "@CHECKPOINT") value = checkpoint;
  }
  return settings;
}

// A job is the script itself, in the background. It has ended when it is a
// zombie, since the runner becomes its parent.
void WriteFakeSlurm(const std::filesystem::path& directory) {
  std::filesystem::create_directories(directory);
  const auto write = [&](const std::string& name, const std::string& script) {
    std::ofstream(directory / name) << "#!/bin/bash\n" << script;
    std::filesystem::permissions(directory / name,
                                 std::filesystem::perms(0700));
  };
  write("sbatch",
        "[[ \" $* \" == *--test-only* ]] && exit\n"
        "SLURM_JOB_ID=7 setsid bash \"${@: -1}\" >/dev/null 2>&1 &\n"
        "echo $! >${0%/*}/job\necho 7\n");
  write("squeue",
        "job=$(<${0%/*}/job)\n"
        "[[ -e /proc/$job/exe ]] && state=RUNNING || state=COMPLETED\n"
        "echo \"7|$state|None|n1|1:00:00|dtrain-1|other\"\n");
  write("srun", "while [[ $1 == --* ]]; do shift; done\nexec \"$@\"\n");
  write("scancel", "");
}

CliCall MakeCall(const Proof& proof, const PageRun& run) {
  CliCall call;
  call.environment["DTRAIN_SYSTEM_PERIOD"] = "20ms";
  if (proof.on_fake_gpus) {
    call.environment["LD_LIBRARY_PATH"] = DTRAIN_FAKE_DRIVER;
    call.environment["CUDA_MPS_PIPE_DIRECTORY"] = run.directory() / "no-pipes";
  }
  if (proof.on_fake_slurm) {
    call.environment["PATH"] =
        (run.directory() / "slurm").string() + ":/usr/bin:/bin";
    WriteFakeSlurm(run.directory() / "slurm");
  }
  if (proof.on_fast_floats) {
    const auto file = run.directory() / "cpuinfo";
    std::ofstream(file) << "flags : avx512_bf16 avx512_fp16\n";
    call.environment["FAKE_CPUINFO"] = file;
    call.environment["LD_PRELOAD"] = DTRAIN_PRELOAD;
    // The liar is loaded before the sanitizer.
    call.environment["ASAN_OPTIONS"] = "verify_asan_link_order=0";
  }
  return call;
}

json Seen(const Proof& proof, const Settings& set, PageRun& run) {
  const CliCall call = MakeCall(proof, run);
  std::string checkpoint;
  if (proof.continues) {
    run.Create(MakeSettings(proof, {}), proof.program, call);
    checkpoint = run.Says("checkpoints").at("checkpoints").at(0).at("uuid");
  }
  const CliResult result =
      run.Create(MakeSettings(proof, set, checkpoint), proof.program, call);
  EXPECT_TRUE(run.HasStore()) << result.err;
  if (!run.HasStore()) return "nothing was created";
  return proof.look(run);
}

void Expect(const Proof& proof, const json& without, const json& with,
            const std::string& output) {
  if (proof.without) {
    EXPECT_EQ(without, *proof.without) << output;
  }
  if (proof.with) {
    EXPECT_EQ(with, *proof.with) << output;
  }
  if (proof.same) {
    EXPECT_EQ(without, with) << output;
  } else {
    EXPECT_NE(without, with) << output;
  }
}

class YamlKeyTest : public testing::TestWithParam<Proof> {};

TEST_P(YamlKeyTest, ChangesTheObservedValue) {
  const Proof& proof = GetParam();
  PageRun first;
  PageRun second;
  const json without = Seen(proof, {}, first);
  const json with = Seen(proof, proof.set, second);
  Expect(proof, without, with, second.result().err);
}

std::string NameOfProof(const testing::TestParamInfo<Proof>& info) {
  return TestName(info.param.key, info.param.variant);
}

INSTANTIATE_TEST_SUITE_P(Programs, YamlKeyTest,
                         testing::ValuesIn(ProgramProofs()), NameOfProof);

#ifdef DTRAIN_HAS_TRIALS
INSTANTIATE_TEST_SUITE_P(Trainer, YamlKeyTest,
                         testing::ValuesIn(TrainerProofs()), NameOfProof);

// One test, for the model is compiled once; and each YAML is run once.
TEST(YamlOwnModelTest, ReceivesTheValuesOfTheYaml) {
  PageRun run;
  run.WriteModel(OwnModelSource());
  std::map<std::string, int> made;
  const auto seen = [&](const Proof& proof, const Settings& set) -> json {
    const std::string text = PageYaml(MakeSettings(proof, set)).text();
    if (made.contains(text)) {
      run.LookAt(made[text]);
      return proof.look(run);
    }
    json what = Seen(proof, set, run);
    made[text] = run.experiment();
    return what;
  };
  for (const Proof& proof : OwnModelProofs()) {
    SCOPED_TRACE(TestName(proof.key, proof.variant));
    const json without = seen(proof, {});
    const json with = seen(proof, proof.set);
    Expect(proof, without, with, run.result().err);
  }
}
#endif

// --- What is refused ---

class YamlRefusalTest : public testing::TestWithParam<Refusal> {};

TEST_P(YamlRefusalTest, NamesThePlaceAndTheKey) {
  const Refusal& refusal = GetParam();
  const Settings settings = ProgramSettings() + refusal.set;
  PageRun run;
  const CliResult result = run.Create(settings, "validate $until 1\n");
  EXPECT_EQ(result.code, 2) << result.err;
  EXPECT_FALSE(run.HasStore());
  std::string message = refusal.message;
  if (const std::size_t at = message.find('@'); at != message.npos) {
    message.replace(at, 1, run.directory().string());
  }
  const PageYaml yaml(settings);
  const std::string place =
      yaml.FindPosition(refusal.set.back().first, refusal.column);
  EXPECT_THAT(result.err, HasSubstr("page/page.yaml:" + place + ": " + message))
      << yaml.text();
  // Keys that this version cannot run are still valid.
  const bool is_valid = message.find(": not yet: ") != message.npos;
  EXPECT_EQ(run.Run({"validate", "page/page.yaml", "--here"}).code,
            is_valid ? 0 : 2);
}

INSTANTIATE_TEST_SUITE_P(Page, YamlRefusalTest,
                         testing::ValuesIn(AllRefusals()),
                         [](const testing::TestParamInfo<Refusal>& info) {
                           return TestName(info.param.key,
                                           std::to_string(info.index));
                         });

// --- The page and the proofs ---

class YamlPageTest : public testing::Test {
 protected:
  static std::set<std::string> KeysThat(const std::string& status) {
    std::set<std::string> keys;
    for (const KeyRow& row : KeyRows()) {
      if (row.status == status) keys.insert(row.key);
    }
    return keys;
  }
};

TEST_F(YamlPageTest, EveryRowHasAProof) {
  std::set<std::string> rows = KeysThat("yes");
  EXPECT_GT(rows.size(), 70u);
  for (const std::string& row : OtherRows()) rows.insert(row);
  EXPECT_TRUE(rows.contains("type log"));
  EXPECT_TRUE(rows.contains("searcher grid"));
  std::set<std::string> proven;
  for (const Proof& proof : AllProofs()) proven.insert(proof.key);
  EXPECT_THAT(proven, UnorderedElementsAreArray(rows));
}

TEST_F(YamlPageTest, EveryRowHasARefusal) {
  std::set<std::string> rows;
  for (const KeyRow& row : KeyRows()) {
    if (row.status != "ignored") rows.insert(row.key);
  }
  for (const std::string& row : OtherRows()) {
    if (row.starts_with("type ")) rows.insert(row);
  }
  std::set<std::string> refused;
  for (const Refusal& refusal : AllRefusals()) refused.insert(refusal.key);
  EXPECT_THAT(refused, UnorderedElementsAreArray(rows));
}

// A proof that sets something else proves nothing about its key.
TEST_F(YamlPageTest, EveryProofSetsItsKeyOnce) {
  std::map<std::string, int> names;
  for (const Proof& proof : AllProofs()) {
    const std::string name = TestName(proof.key, proof.variant);
    EXPECT_EQ(++names[name], 1) << name;
    EXPECT_TRUE(proof.same || proof.without || proof.with || proof.set.size())
        << name;
    if (proof.key.find(' ') != proof.key.npos) continue;
    EXPECT_TRUE(std::ranges::any_of(proof.set, [&](const auto& setting) {
      return (setting.first + '.').starts_with(proof.key + '.');
    })) << name;
  }
  for (const Refusal& refusal : AllRefusals()) {
    EXPECT_THAT(refusal.message, HasSubstr(": ")) << refusal.key;
  }
}

TEST_F(YamlPageTest, IgnoredKeysGiveOneNoteEachAndNothingElse) {
  Settings settings = ProgramSettings();
  std::vector<std::string> notes;
  for (const KeyRow& row : KeyRows()) {
    if (row.status != "ignored") continue;
    const bool only_empty = row.key == "resources.slurm";
    settings.emplace_back(row.key, only_empty ? "{}" : "{a: [1, b]}");
  }
  const PageYaml yaml(settings);
  for (const KeyRow& row : KeyRows()) {
    if (row.status != "ignored") continue;
    const auto name = static_cast<int>(Split(row.key, '.').back().size());
    notes.push_back("page/page.yaml:" + yaml.FindPosition(row.key, -name - 2) +
                    ": " + row.key + ": note: ignored: " + row.doc);
  }
  ASSERT_GT(notes.size(), 30u);
  PageRun run;
  const CliResult result = run.Create(settings, "validate $until 1\n");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("page/page.yaml: note: " +
                                    std::to_string(notes.size()) + " keys"));
  const CliResult each =
      run.Run({"validate", "page/page.yaml", "--keys", "-v"});
  std::vector<std::string> told;
  for (const std::string& line : Split(each.err, '\n')) {
    if (line.find(": note: ") != line.npos) told.push_back(line);
  }
  EXPECT_THAT(told, UnorderedElementsAreArray(notes));
  EXPECT_EQ(run.OfTrials("/state"), json({"COMPLETED"}));
}

}  // namespace
}  // namespace dtrain
