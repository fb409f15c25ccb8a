#include "engine/os/process_meter.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

// The text of /proc/PID/stat of a process with these fields; `cpu` has utime,
// stime, cutime and cstime.
struct Stat {
  std::string name = "python";
  char state = 'S';
  std::int64_t parent = 1;
  std::int64_t session = 0;
  std::string cpu = "0 0 0 0";
  std::int64_t pages = 0;

  std::string Text(std::int64_t pid) const {
    return std::to_string(pid) + " (" + name + ") " + state + " " +
           std::to_string(parent) + " 5 " + std::to_string(session) +
           " 0 -1 4194304 9 9 9 9 " + cpu + " 20 -5 8 0 777 123456789 " +
           std::to_string(pages) + " 18446744073709551615 1 1\n";
  }
};

struct ParseCase {
  std::string name;
  std::string text;
  bool is_process = true;
};

class ParseProcessTest : public testing::TestWithParam<ParseCase> {};

TEST_P(ParseProcessTest, TakesTheFieldsBehindTheLastParenthesis) {
  const auto process = ParseProcess(7, GetParam().text);

  ASSERT_EQ(process.has_value(), GetParam().is_process);
  if (!process) return;
  EXPECT_EQ(process->pid, 7);
  EXPECT_EQ(process->parent, 3);
  EXPECT_EQ(process->session, 4);
  EXPECT_EQ(process->start_ticks, 777);
  EXPECT_EQ(process->cpu_ticks, 1111);
  EXPECT_EQ(process->resident_pages, 50);
}

std::string Named(const std::string& name) {
  return Stat{.name = name,
              .parent = 3,
              .session = 4,
              .cpu = "1 10 100 1000",
              .pages = 50}
      .Text(7);
}

INSTANTIATE_TEST_SUITE_P(
    Names, ParseProcessTest,
    testing::Values(ParseCase{"plain", Named("python")},
                    ParseCase{"parentheses", Named("a) b (")},
                    ParseCase{"another_stat", Named("x) S 1 2 3 (y")},
                    ParseCase{"newline", Named("a\nb")},
                    ParseCase{"empty_name", Named("")},
                    ParseCase{"empty", "", false},
                    ParseCase{"cut_in_the_name", "7 (pyth", false},
                    ParseCase{"cut_behind_the_name", "7 (python) ", false}),
    [](const auto& info) { return info.param.name; });

TEST(ParseProcessTest, KnowsAZombie) {
  EXPECT_TRUE(ParseProcess(7, Stat{.state = 'Z'}.Text(7))->zombie);
  EXPECT_FALSE(ParseProcess(7, Stat{.state = 'R'}.Text(7))->zombie);
}

// A directory that looks like /proc.
class ProcessMeterTest : public testing::Test {
 protected:
  void Write(std::int64_t pid, const Stat& stat, const std::string& io = "",
             const std::string& memory = "") {
    const fs::path directory = proc_.path() / std::to_string(pid);
    fs::create_directories(directory);
    std::ofstream(directory / "stat") << stat.Text(pid);
    if (!io.empty()) std::ofstream(directory / "io") << io;
    if (!memory.empty()) {
      std::ofstream(directory / "smaps_rollup") << memory;
    }
  }
  void Remove(std::int64_t pid) {
    fs::remove_all(proc_.path() / std::to_string(pid));
  }
  ProcessUse Read(bool thorough = false) { return meter_.Read(thorough).at(1); }
  double ReadTicks() {
    return Read().cpu_seconds * static_cast<double>(::sysconf(_SC_CLK_TCK));
  }

  TemporaryDirectory proc_;
  ProcessMeter meter_{proc_.path()};
};

TEST_F(ProcessMeterTest, AddsUpRootsTheirSessionsAndTheirDescendants) {
  Write(100, {.cpu = "1 0 0 0", .pages = 1});
  Write(101, {.parent = 100, .session = 101, .cpu = "2 0 0 0", .pages = 2});
  Write(50, {.parent = 101, .session = 50, .cpu = "4 0 0 0", .pages = 4});
  Write(102, {.parent = 1, .session = 100, .cpu = "8 0 0 0", .pages = 8});
  Write(200, {.parent = 1, .session = 200, .cpu = "16 0 0 0", .pages = 16});
  Write(201, {.parent = 200, .session = 200, .cpu = "32 0 0 0", .pages = 32});
  fs::create_directories(proc_.path() / "sys");
  meter_.Add(1, {100});

  EXPECT_EQ(Read().processes, 4);
  EXPECT_DOUBLE_EQ(ReadTicks(), 15);
  EXPECT_EQ(Read().memory_bytes, 15 * ::sysconf(_SC_PAGESIZE));
}

TEST_F(ProcessMeterTest, SeparatesGroupsAndForgetsThem) {
  Write(100, {});
  Write(101, {});
  Write(102, {});
  meter_.Add(1, {100, 101});
  meter_.Add(2, {102});

  const auto uses = meter_.Read(/*thorough=*/false);
  meter_.Remove(1);

  EXPECT_EQ(uses.at(1).processes, 2);
  EXPECT_EQ(uses.at(2).processes, 1);
  EXPECT_EQ(meter_.Read(false).size(), 1U);
}

TEST_F(ProcessMeterTest, CountsTheCpuOfEndedChildrenOnce) {
  Write(100, {.cpu = "10 1 0 0"});
  Write(101, {.parent = 100, .cpu = "5 2 0 0"});
  meter_.Add(1, {100});
  EXPECT_DOUBLE_EQ(ReadTicks(), 18);

  Remove(101);
  Write(100, {.cpu = "10 1 6 3"});

  EXPECT_DOUBLE_EQ(ReadTicks(), 20);
  EXPECT_EQ(Read().processes, 1);
}

TEST_F(ProcessMeterTest, CountsTheCpuOfZombiesOnly) {
  Write(100, {.cpu = "1 0 0 0"});
  Write(101, {.state = 'Z', .parent = 100, .cpu = "2 0 0 0"});
  meter_.Add(1, {100});

  EXPECT_DOUBLE_EQ(ReadTicks(), 3);
  EXPECT_EQ(Read().processes, 1);
}

TEST_F(ProcessMeterTest, SkipsAProcessThatVanishesWhileItIsRead) {
  Write(100, {.cpu = "1 0 0 0"}, "read_bytes: 10\nwrite_bytes: 20\n");
  fs::create_directories(proc_.path() / "101");  // its files are gone
  meter_.Add(1, {100, 101});

  EXPECT_EQ(Read().processes, 1);
  EXPECT_EQ(Read().read_bytes, 10);
  Remove(100);
  Remove(101);
  EXPECT_EQ(Read().processes, 0);
  EXPECT_EQ(Read().read_bytes, std::nullopt);
}

TEST_F(ProcessMeterTest, ReadsBytesOfStorage) {
  Write(100, {},
        "rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 4096\n"
        "write_bytes: 8192\ncancelled_write_bytes: 5\n");
  Write(101, {.parent = 100}, "rchar: 1\nread_bytes: 1\nwrite_bytes: 2\n");
  meter_.Add(1, {100});

  EXPECT_EQ(Read().read_bytes, 4097);
  EXPECT_EQ(Read().written_bytes, 8194);
}

TEST_F(ProcessMeterTest, ReadsProportionalSetsIfThorough) {
  Write(100, {}, "", "00400000-7ffe ---p [rollup]\nRss: 9 kB\nPss: 3 kB\n");
  Write(101, {.parent = 100}, "", "x\nPss:  4 kB\nPss_Dirty:  1 kB\n");
  meter_.Add(1, {100});

  EXPECT_EQ(Read().pss_bytes, std::nullopt);
  EXPECT_EQ(Read(/*thorough=*/true).pss_bytes, 7 * 1024);
}

// A child whose parent has died between the two looks is adopted by the root.
TEST_F(ProcessMeterTest, LooksAgainAtAProcessWhoseParentWasNotSeen) {
  Write(100, {});
  Write(300, {.parent = 299});
  meter_.Add(1, {100});
  ASSERT_EQ(Read().processes, 1);

  Write(300, {.parent = 100});

  EXPECT_EQ(Read().processes, 2);
}

TEST_F(ProcessMeterTest, LooksAtOthersOnceUnlessThorough) {
  Write(1, {.parent = 0});
  Write(100, {});
  Write(300, {.parent = 1});
  meter_.Add(1, {100});
  ASSERT_EQ(Read().processes, 1);

  Write(300, {.parent = 100});

  EXPECT_EQ(Read().processes, 1);
  EXPECT_EQ(Read(/*thorough=*/true).processes, 2);
}

TEST_F(ProcessMeterTest, ARootMayHaveBeenAnotherProcessBefore) {
  Write(1, {.parent = 0});
  Write(100, {});
  Write(101, {});
  meter_.Add(1, {100});
  ASSERT_EQ(Read().processes, 1);

  meter_.Add(2, {101});

  EXPECT_EQ(meter_.Read(false).at(2).processes, 1);
}

TEST(RealProcessMeterTest, FindsThisProcess) {
  ProcessMeter meter;
  meter.Add(1, {::getpid()});

  const ProcessUse use = meter.Read(/*thorough=*/true).at(1);

  EXPECT_GE(use.processes, 1);
  EXPECT_GT(use.memory_bytes, 100'000);
}

TEST(RealProcessMeterTest, UnreadableProcIsEmpty) {
  ProcessMeter meter("/no/such/directory");
  meter.Add(1, {::getpid()});

  EXPECT_EQ(meter.Read(/*thorough=*/true).at(1).processes, 0);
}

}  // namespace
}  // namespace dtrain
