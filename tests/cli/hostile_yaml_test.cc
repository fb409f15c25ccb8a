// Configurations made to exhaust who reads them: refused in little time and
// memory, with a place, and nothing is created.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cli_runner.h"
#include "tests/support/patience.h"

namespace dtrain {
namespace {

using testing::HasSubstr;

// Seconds and MiB. The sanitizers need several times as much of both.
constexpr const char* kSeconds = kSanitized ? "20" : "2";
constexpr const char* kMebibytes = kSanitized ? "2000" : "200";

struct Hostile {
  const char* name;
  const char* python;  // an expression that gives the text
  const char* message;
};

void PrintTo(const Hostile& hostile, std::ostream* out) {
  *out << hostile.name;
}

class HostileYamlTest : public testing::TestWithParam<Hostile> {
 protected:
  CliRunner dtrain_;
};

// Says the exit code, and what of the limits (seconds of CPU, MiB) was passed.
constexpr char kMeasure[] = R"(
import resource, subprocess, sys
base = """entrypoint: builtin:FaultTrial
searcher: {name: single, metric: loss, max_length: 10}
"""
text = eval(sys.argv[1])
open("a.yaml", "wb").write(text if isinstance(text, bytes) else text.encode())
done = subprocess.run(["dtrain", "create", "a.yaml"], stderr=subprocess.PIPE)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
seconds, mebibytes = used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
print("code", done.returncode)
if seconds > float(sys.argv[2]): print("too slow:", seconds)
if mebibytes > float(sys.argv[3]): print("too large:", mebibytes)
sys.stderr.buffer.write(done.stderr)
)";

TEST_P(HostileYamlTest, IsRefusedWithinBoundsOfTimeAndMemory) {
  const CliResult result = dtrain_.RunProgram(
      {"python3", "-c", kMeasure, GetParam().python, kSeconds, kMebibytes});
  EXPECT_EQ(result.out, "code 2\n");
  EXPECT_THAT(result.err, HasSubstr(GetParam().message));
  EXPECT_LT(result.err.size(), 20'000);
  EXPECT_FALSE(std::filesystem::exists(dtrain_.store()));
}

INSTANTIATE_TEST_SUITE_P(
    Texts, HostileYamlTest,
    testing::Values(
        Hostile{"BillionLaughs",
                "base + 'hyperparameters:\\n  a0: &a0 [x, x, x, x, x, x, x, "
                "x, x]\\n' + ''.join(f'  a{i}: &a{i} [' + ','.join([f'*a{i - "
                "1}'] * 9) + ']\\n' for i in range(1, 10))",
                "a.yaml:8:7: hyperparameters.a4: more than 100000 keys and "
                "values, aliases expanded"},
        Hostile{"CyclicAlias", "base + 'hyperparameters: &a {x: *a}\\n'",
                "a.yaml:3:25: hyperparameters.x: alias inside its own value"},
        Hostile{"DeepLists",
                "base + 'hyperparameters: {x: ' + '[' * 10**5 + ']' * 10**5 + "
                "'}\\n'",
                "more than 100000 brackets"},
        Hostile{"DeepMaps",
                "base + 'hyperparameters: ' + '{a: ' * 90000 + '1' + '}' * "
                "90000 + '\\n'",
                "a.yaml:3:"},
        Hostile{"DeepBlocks",
                "base + 'hyperparameters:\\n' + ''.join(' ' * i + 'a:\\n' for "
                "i in range(1, 1300))",
                "a.yaml:"},
        Hostile{"ScalarOf50Megabytes",
                "base + 'description: ' + 'x' * 50_000_000 + '\\n'",
                "a.yaml: is larger than 1 MB"},
        Hostile{"ScalarOf900Kilobytes",
                "base + 'description: ' + 'x' * 900_000 + '\\n'",
                "a.yaml:3:14: description: has 900000 bytes"},
        Hostile{"ManyKeys",
                "base + ''.join(f'k{i}: 1\\n' for i in range(100_000))",
                "a.yaml:49998:1: more than 100000 keys and values"},
        Hostile{"ManyHyperparameters",
                "base + 'hyperparameters:\\n' + ''.join(f'  k{i}: 1\\n' for i "
                "in range(60_000))",
                "more than 100000 keys and values"},
        Hostile{"LongList", "base + 'labels: [' + 'a,' * 400_000 + 'a]\\n'",
                "labels[99989]: more than 100000 keys and values"},
        Hostile{"GridOfABillionPoints",
                "base.replace('single', 'grid') + 'hyperparameters:\\n' + "
                "''.join(f'  x{i}: {{type: double, minval: 0, maxval: 1, "
                "count: 1000}}\\n' for i in range(3))",
                "a.yaml:3:1: hyperparameters: the grid has 1000000000 points, "
                "at most 100000"},
        Hostile{"GridBeyondEveryInteger",
                "base.replace('single', 'grid') + 'hyperparameters:\\n' + "
                "''.join(f'  x{i}: {{type: double, minval: 0, maxval: 1, "
                "count: 1000000000}}\\n' for i in range(30))",
                "the grid has more than 9223372036854775807 points"},
        Hostile{"NoLength", "base.replace('10', '0')",
                "a.yaml:2:52: searcher.max_length: expected an integer of at "
                "least 1, got the integer 0"},
        Hostile{"HugeLength", "base.replace('10', '9' * 20)",
                "a.yaml:2:52: searcher.max_length: "},
        Hostile{
            "DivisorOfOne",
            "base.replace('single', 'asha').replace('10}', '10, max_trials: "
            "4, num_rungs: 2, divisor: 1}')",
            "searcher.divisor: expected a number above 1"},
        Hostile{"NoMetric", "base.replace('loss', '\"\"')",
                "a.yaml:2:34: searcher.metric: is empty"},
        Hostile{"TooManyTrials",
                "base.replace('single', 'random').replace('10}', '10, "
                "max_trials: 1000000000}')",
                "searcher.max_trials: expected an integer from 1 to 1000000"},
        Hostile{"Utf16", "base.encode('utf-16')",
                "a.yaml:1:1: is UTF-16; save it as UTF-8"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace dtrain
