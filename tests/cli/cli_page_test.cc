// The options of all commands, proven: for each of them cli_page.txt has a
// proof, which is run here.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <ostream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/text.h"
#include "tests/support/cli_runner.h"
#include "tests/support/json_schema.h"
#include "tests/support/sample_store.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

// Flags of a command by their names; each is known by the last, the long one.
using Flags = std::map<std::string, std::string>;

// "" is the program itself, "data fetch" a command of a command.
using CommandFlags = std::map<std::string, Flags>;

std::string ReadText(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

void AddFlags(const std::string& text, Flags& flags) {
  static const std::regex kFlag("(^|[ ,])(--?[a-z][a-z-]*)");
  std::vector<std::string> names;
  const std::sregex_iterator end;
  for (std::sregex_iterator at(text.begin(), text.end(), kFlag); at != end;
       ++at) {
    names.push_back((*at)[2]);
  }
  for (const std::string& name : names) flags[name] = names.back();
}

// Options that `help` lists: "  -d, --detach    Run in the background".
Flags FlagsInHelp(const std::string& help) {
  static const std::regex kNames("^  (-[a-z-]+(, --[a-z-]+)?)");
  Flags flags;
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) {
    std::smatch names;
    if (line.starts_with("  -h, --help")) continue;
    if (std::regex_search(line, names, kNames)) AddFlags(names[1], flags);
  }
  return flags;
}

CommandFlags FlagsOfTheProgram() {
  const CliRunner dtrain;
  const std::string help = dtrain.Run({"--help"}).out;
  CommandFlags all = {{"", FlagsInHelp(help)}};
  all[""]["--help"] = "--help";
  for (const std::string& command : CommandsInHelp(help)) {
    const std::string own = dtrain.Run({command, "--help"}).out;
    const std::size_t subcommands = own.find("\nSubcommands:\n");
    if (subcommands == std::string::npos) {
      all[command] = FlagsInHelp(own);
      continue;
    }
    for (const std::string& sub : CommandsInHelp(own.substr(subcommands))) {
      all[command + " " + sub] =
          FlagsInHelp(dtrain.Run({command, sub, "--help"}).out);
    }
  }
  return all;
}

// One of cli_page.txt.
struct Proof {
  int line = 0;
  std::string command;
  std::string flag;   // as it is written there
  std::string first;  // shell commands before the run
  std::string run;    // what follows "dtrain"; [--flag] is left out once
  std::string shows;  // in what only the run with the flag prints
  std::string hides;  // in what only the run without it prints
  std::string bad;    // what is refused
  std::vector<std::string> tests;
};

void PrintTo(const Proof& proof, std::ostream* out) {
  *out << "cli_page.txt:" << proof.line;
}

std::string CommandName(const std::string& words) {
  const std::vector<std::string> all = Split(words, ' ');
  if (all.front().starts_with("[")) return "";
  const bool nested = all.front() == "checkpoint" || all.front() == "data" ||
                      all.front() == "notify" || all.front() == "set";
  return nested ? all[0] + " " + all[1] : all[0];
}

std::vector<Proof> ReadProofs() {
  std::vector<Proof> proofs;
  std::ifstream in(fs::path(DTRAIN_SOURCE_DIR) / "tests/cli/cli_page.txt");
  int number = 0;
  bool begins = true;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.empty()) begins = true;
    if (line.empty() || line.starts_with("#")) continue;
    if (begins) proofs.push_back({.line = number});
    begins = false;
    Proof& proof = proofs.back();
    const std::string value = line.size() > 7 ? line.substr(7) : "";
    const std::string key = line.substr(0, line.find(' '));
    if (key == "flag") {
      const std::size_t blank = value.rfind(' ');
      proof.command = blank == value.npos ? "" : value.substr(0, blank);
      proof.flag = value.substr(blank + 1);
    } else if (key == "run") {
      const std::size_t flag = value.find("[-") + 1;
      proof.command = CommandName(value);
      proof.flag = value.substr(flag, value.find_first_of(" =]", flag) - flag);
      proof.run = value;
    } else if (key == "test") {
      proof.tests.push_back(value);
    } else {
      const std::map<std::string, std::string*> fields = {
          {"first", &proof.first},
          {"shows", &proof.shows},
          {"hides", &proof.hides},
          {"bad", &proof.bad}};
      *fields.at(key) = value;
    }
  }
  return proofs;
}

// Programs and experiments that the proofs run.
void WritePrograms(const CliRunner& dtrain) {
  const std::string validate =
      "printf '{\"type\":\"validation\",\"batches\":%d,\"metrics\":{\"loss\":"
      "%s}}\\n' ";
  const std::string checkpoint =
      "echo 1 > $DTRAIN_DIRECTORY/$1\n"
      "printf '{\"type\":\"checkpoint\",\"batches\":%d,\"path\":\"%s\"}\\n' ";
  const std::map<std::string, std::string> programs = {
      // Says hello, saves a checkpoint, has as loss what lr is.
      {"one", "echo \"hello $DTRAIN_HPARAM_lr\"\nset -- a\n" + checkpoint +
                  "10 $DTRAIN_DIRECTORY/a >&3\n" + validate +
                  "10 $DTRAIN_HPARAM_lr >&3\n"},
      // Is better at its first validation than at its last.
      {"two", "set -- a\n" + checkpoint + "10 $DTRAIN_DIRECTORY/a >&3\n" +
                  validate + "10 1 >&3\nset -- b\n" + checkpoint +
                  "20 $DTRAIN_DIRECTORY/b >&3\n" + validate + "20 2 >&3\n"},
      // Waits until it is stopped, at most three seconds.
      {"slow", "read -t 3 -r order <&4 && exit\n" + validate + "10 1 >&3\n"},
      // Ignores operations for four seconds.
      {"deaf", "echo begun\nsleep 4\n" + validate + "10 1 >&3\n"},
      // Waits until it is stopped; once there is a file `again` it ends at
      // once.
      {"pause",
       "echo \"hello $DTRAIN_HPARAM_lr\"\n"
       "[ -e $HOME/again ] || { read -r order <&4; touch "
       "$HOME/again; exit; }\n" +
           validate + "10 1 >&3\n"},
      // Fails if lr is 4, after the smaller loss.
      {"half", validate +
                   "10 $((5 - DTRAIN_HPARAM_lr)) >&3\n"
                   "[ $DTRAIN_HPARAM_lr = 3 ] || echo '{\"type\":\"end\","
                   "\"reason\":\"fatal\",\"message\":\"no\"}' >&3\n"},
      // Has another loss each time.
      {"count",
       "echo >> $HOME/count\n" + validate + "10 $(wc -l < $HOME/count) >&3\n"}};
  for (const auto& [name, body] : programs) {
    fs::permissions(dtrain.Write(name + ".sh", "#!/bin/bash\n" + body),
                    fs::perms::owner_all);
    const std::string yaml = "name: " + name + "\nentrypoint: ./" + name +
                             ".sh\nresources: {slots: cpu}\n"
                             "checkpoint_policy: all\n";
    dtrain.Write(name + ".yaml",
                 yaml +
                     "hyperparameters: {lr: 3}\n"
                     "searcher: {name: single, metric: loss}\n");
    dtrain.Write(name + "_search.yaml",
                 yaml +
                     "hyperparameters:\n"
                     "  lr: {type: categorical, vals: [3, 4]}\n"
                     "searcher: {name: grid, metric: loss}\n");
  }
  dtrain.Write("bad.yaml", "nmae: x\n");
  // A set in other/ as `data fetch` leaves it.
  dtrain.Write("photos.sh",
               "mkdir -p other/hymenoptera\n"
               "echo > other/hymenoptera/a.jpg\n"
               "set -- $(sha256sum other/hymenoptera/a.jpg)\n"
               "echo '{\"format\":\"dtrain-data\",\"files\":[{\"name\":"
               "\"a.jpg\",\"bytes\":1,\"sha256\":\"'$1'\"}]}' "
               "> other/.hymenoptera.fetched\n");
  dtrain.Write("search.yaml",
               "entrypoint: builtin:FaultTrial\n"
               "hyperparameters: {x: {type: double, minval: 0, maxval: 1}}\n"
               "searcher: {name: asha, metric: loss, max_trials: 6, "
               "num_rungs: 2, divisor: 3, max_length: 9}\n");
}

// Returns a command line that is refused: a flag takes no value but true and
// false.
std::string BadLine(const Proof& proof) {
  if (!proof.bad.empty()) return proof.bad;
  std::string line = proof.run.substr(0, proof.run.find_first_of(";|"));
  const std::size_t flag = line.find("[-");
  line.replace(line.find(']', flag), 1, "=maybe");
  return line.erase(flag, 1);
}

class CliProofTest : public testing::TestWithParam<Proof> {
 protected:
  // Returns the output of a run and its exit code, in its own directory.
  static std::string Observe(const std::string& words) {
    const CliRunner dtrain;
    FillSampleStore(dtrain.store());
    WritePrograms(dtrain);
    const Proof& proof = GetParam();
    if (!proof.first.empty()) {
      dtrain.RunProgram({"sh", "-c", proof.first + " >&2"});
    }
    const bool is_json = proof.flag == "--json" || proof.flag == "--jsonl";
    const CliResult result =
        is_json ? dtrain.Run(Split(words, ' '))
                : dtrain.RunProgram({"sh", "-c", "dtrain " + words});
    if (!proof.first.empty()) dtrain.Run({"-q", "kill", "4"});
    return "exit " + std::to_string(result.code) + "\n" + result.out +
           result.err;
  }
};

TEST_P(CliProofTest, Holds) {
  const Proof& proof = GetParam();
  if (!proof.run.empty()) {
    const std::size_t begin = proof.run.find("[-");
    const std::size_t end = proof.run.find(']', begin);
    ASSERT_NE(end, std::string::npos);
    const std::string before = proof.run.substr(0, begin);
    const std::string after = proof.run.substr(end + 1);
    const std::string with =
        Observe(before + proof.run.substr(begin + 1, end - begin - 1) + after);
    // Without one of the two blanks around it.
    const std::string without = Observe(
        before.empty() ? after.substr(std::min<std::size_t>(1, after.size()))
                       : before.substr(0, before.size() - 1) + after);
    ASSERT_NE(proof.shows + proof.hides, "");
    if (!proof.shows.empty()) {
      EXPECT_THAT(with, HasSubstr(proof.shows));
      EXPECT_THAT(without, Not(HasSubstr(proof.shows)));
    }
    if (!proof.hides.empty()) {
      EXPECT_THAT(with, Not(HasSubstr(proof.hides)));
      EXPECT_THAT(without, HasSubstr(proof.hides));
    }
  }
  const std::string bad = BadLine(proof);
  EXPECT_THAT(Observe(bad), testing::StartsWith("exit 2\n")) << bad;
}

std::string ProofName(const testing::TestParamInfo<Proof>& info) {
  std::string name = info.param.command + info.param.flag;
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name + "_" + std::to_string(info.index);
}

INSTANTIATE_TEST_SUITE_P(Flags, CliProofTest, testing::ValuesIn(ReadProofs()),
                         ProofName);

TEST(CliPageTest, EachFlagHasAProofAndEachProofAFlag) {
  const CommandFlags program = FlagsOfTheProgram();
  ASSERT_GT(program.size(), 40);
  std::set<std::pair<std::string, std::string>> proven;
  for (const Proof& proof : ReadProofs()) {
    const auto command = program.find(proof.command);
    ASSERT_NE(command, program.end())
        << "cli_page.txt:" << proof.line << ": no command " << proof.command;
    const auto flag = command->second.find(proof.flag);
    ASSERT_NE(flag, command->second.end())
        << "cli_page.txt:" << proof.line << ": " << proof.command << " has no "
        << proof.flag;
    EXPECT_TRUE(!proof.run.empty() || !proof.tests.empty()) << proof.line;
    EXPECT_TRUE(!proof.bad.empty() || !proof.run.empty()) << proof.line;
    proven.emplace(proof.command, flag->second);
  }
  for (const auto& [command, flags] : program) {
    for (const auto& [name, flag] : flags) {
      EXPECT_TRUE(proven.contains({command, flag}))
          << "no proof of " << command << " " << flag;
    }
  }
}

// Adds the tests that `program --gtest_list_tests` lists, as "Suite.Name";
// parameterized tests without their parameters.
void AddTestsIn(const std::string& list, std::set<std::string>& tests) {
  std::istringstream lines(list);
  std::string suite;
  for (std::string line; std::getline(lines, line);) {
    line.resize(std::min(line.find("  # "), line.size()));
    if (!line.starts_with("  ")) {
      const std::size_t slash = line.find('/');
      suite = slash == line.npos ? line : line.substr(slash + 1);
    } else {
      tests.insert(suite + line.substr(2, line.find('/') - 2));
    }
  }
}

// A build without LibTorch has not all of them; their sources it has.
bool IsInSources(const std::string& name) {
  static const std::string kText = [] {
    std::string text;
    for (const auto& entry : fs::directory_iterator(
             fs::path(DTRAIN_SOURCE_DIR) / "tests" / "cli")) {
      text += ReadText(entry.path());
    }
    return text;
  }();
  const std::size_t dot = name.find('.');
  return kText.find("(" + name.substr(0, dot) + ", " + name.substr(dot + 1) +
                    ")") != kText.npos;
}

TEST(CliPageTest, TestsThatAreNamedAsProofsAreThere) {
  const CliRunner runner;
  std::set<std::string> tests;
  for (const char* program : {"/proc/self/exe", DTRAIN_FAULT_TEST}) {
    AddTestsIn(
        runner
            .RunProgram({fs::canonical(program).string(), "--gtest_list_tests"})
            .out,
        tests);
  }
  ASSERT_GT(tests.size(), 100);
#ifdef DTRAIN_HAS_TRIALS
  constexpr bool kHasAll = true;
#else
  constexpr bool kHasAll = false;
#endif
  for (const Proof& proof : ReadProofs()) {
    for (const std::string& name : proof.tests) {
      EXPECT_TRUE(tests.contains(name) || (!kHasAll && IsInSources(name)))
          << "cli_page.txt:" << proof.line << ": there is no test " << name;
    }
  }
}

}  // namespace
}  // namespace dtrain
