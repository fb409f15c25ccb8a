#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include "engine/slots/slots.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

namespace fs = std::filesystem;

GpuSearch ThreeGpus() {
  return {.gpus = {{.index = 0, .uuid = "GPU-aa11"},
                   {.index = 1, .uuid = "GPU-bb22"},
                   {.index = 2, .uuid = "GPU-cc33"}}};
}

// GPU 0 with two instances, and a whole GPU 1.
GpuSearch TwoInstances() {
  return {.gpus = {{.index = 1, .uuid = "GPU-bb22"},
                   {.index = 2,
                    .uuid = "MIG-11",
                    .parent = 0,
                    .parent_uuid = "GPU-aa11"},
                   {.index = 3,
                    .uuid = "MIG-12",
                    .parent = 0,
                    .parent_uuid = "GPU-aa11"}}};
}

std::vector<std::int64_t> Visible(std::string_view variable,
                                  const GpuSearch& all = ThreeGpus()) {
  std::vector<std::int64_t> indexes;
  const GpuSearch visible = VisibleGpus(all, variable);
  EXPECT_EQ(visible.problem, "");
  for (const Gpu& gpu : visible.gpus) indexes.push_back(gpu.index);
  return indexes;
}

std::string FindProblem(std::string_view variable,
                        const GpuSearch& all = ThreeGpus()) {
  const GpuSearch visible = VisibleGpus(all, variable);
  EXPECT_THAT(visible.gpus, IsEmpty());
  return visible.problem;
}

TEST(VisibleGpusTest, SelectsByNumberInTheOrderOfTheVariable) {
  EXPECT_THAT(Visible("2,0"), ElementsAre(2, 0));
}

TEST(VisibleGpusTest, IgnoresBlanks) {
  EXPECT_THAT(Visible(" 0, 1 ,\t2"), ElementsAre(0, 1, 2));
}

TEST(VisibleGpusTest, SelectsByTheFirstCharactersOfUuids) {
  EXPECT_THAT(Visible("GPU-bb,GPU-aa11"), ElementsAre(1, 0));
}

TEST(VisibleGpusTest, CountsARepeatedGpuOnce) {
  EXPECT_THAT(Visible("1,0,1,GPU-aa"), ElementsAre(1, 0));
}

TEST(VisibleGpusTest, EndsAtANegativeNumberOrNoDevFiles) {
  EXPECT_THAT(Visible("1,-1,0"), ElementsAre(1));
  EXPECT_THAT(Visible("NoDevFiles"), IsEmpty());
}

TEST(VisibleGpusTest, HidesAllIfEmpty) {
  EXPECT_THAT(Visible(""), IsEmpty());
  EXPECT_THAT(Visible(" "), IsEmpty());
}

TEST(VisibleGpusTest, RejectsANameOfNoGpu) {
  EXPECT_EQ(FindProblem("0,7"),
            "CUDA_VISIBLE_DEVICES: '7' names no GPU of this machine, which has "
            "0 (GPU-aa11), 1 (GPU-bb22), 2 (GPU-cc33); correct the variable or "
            "unset it");
  EXPECT_THAT(FindProblem("0,,1"),
              StartsWith("CUDA_VISIBLE_DEVICES: '' names"));
  EXPECT_THAT(FindProblem("all"), HasSubstr("'all' names no GPU"));
}

TEST(VisibleGpusTest, RejectsANameOfSeveralGpus) {
  EXPECT_THAT(FindProblem("GPU-"), HasSubstr("'GPU-' names several GPUs"));
  EXPECT_THAT(FindProblem("MIG-1", TwoInstances()), HasSubstr("several GPUs"));
}

TEST(VisibleGpusTest, SelectsMigInstancesByUuid) {
  EXPECT_THAT(Visible("MIG-12,MIG-11", TwoInstances()), ElementsAre(3, 2));
}

TEST(VisibleGpusTest, SelectsTheFirstInstanceOfAGpuInMigMode) {
  EXPECT_THAT(Visible("0", TwoInstances()), ElementsAre(2));
  EXPECT_THAT(Visible("1,GPU-aa", TwoInstances()), ElementsAre(1, 2));
}

TEST(VisibleGpusTest, KeepsTheProblemOfTheSearch) {
  EXPECT_EQ(FindProblem("0", {.problem = "broken"}), "broken");
}

class NvidiaDriverTest : public ::testing::Test {
 protected:
  ~NvidiaDriverTest() override { ::unsetenv("FAKE_DRIVER"); }

  GpuSearch Ask(const char* settings) const {
    ::setenv("FAKE_DRIVER", settings, /*replace=*/1);
    return AskNvidiaDriver({.nvml = nvml_, .cuda = cuda_, .pci = pci_.c_str()});
  }
  // The PCI bus has a GPU of NVIDIA.
  void AddHardware() const {
    fs::create_directories(pci_ / "0000:01:00.0");
    std::ofstream(pci_ / "0000:01:00.0" / "vendor") << "0x10de\n";
    std::ofstream(pci_ / "0000:01:00.0" / "class") << "0x030200\n";
  }

  TemporaryDirectory directory_;
  const fs::path pci_ = directory_.path() / "pci";
  const char* nvml_ = DTRAIN_FAKE_NVML;
  const char* cuda_ = DTRAIN_FAKE_NVML;
};

TEST_F(NvidiaDriverTest, TellsWhyAGpuGetsNoContext) {
  ::setenv("FAKE_DRIVER", "context=214", /*replace=*/1);
  const auto why = [this](const Gpu& gpu) {
    return GpuFailure(gpu, {.cuda = cuda_});
  };
  EXPECT_EQ(why({.index = 0, .uuid = "GPU-a"}),
            "uncorrectable ECC error encountered (CUDA error 214)");
  EXPECT_EQ(why({.index = 1, .uuid = "GPU-b"}), "");
  ::unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST_F(NvidiaDriverTest, ReadsSensors) {
  ::unsetenv("FAKE_DRIVER");
  GpuSensors sensors({.nvml = nvml_});

  const GpuSample a = sensors.Read(0, "GPU-a");
  const GpuSample b = sensors.Read(1, "");
  const GpuSample none = sensors.Read(7, "GPU-x");

  EXPECT_EQ(a.gpu, 0);
  EXPECT_EQ(a.percent, 37);
  EXPECT_EQ(a.memory_bytes, 100);
  EXPECT_EQ(a.watts, 250.5);
  EXPECT_EQ(a.celsius, 61);
  EXPECT_EQ(b.gpu, 1);
  EXPECT_EQ(b.percent, std::nullopt);
  EXPECT_EQ(b.memory_bytes, 100);
  EXPECT_EQ(none.memory_bytes, std::nullopt);
}

TEST_F(NvidiaDriverTest, ReadsNoSensorsWithoutADriver) {
  ::setenv("FAKE_DRIVER", "init=9", /*replace=*/1);
  EXPECT_EQ(GpuSensors({.nvml = nvml_}).Read(0, "GPU-a").percent, std::nullopt);
  EXPECT_EQ(GpuSensors({.nvml = "libno-such-driver.so.1"})
                .Read(0, "GPU-a")
                .memory_bytes,
            std::nullopt);
}

TEST_F(NvidiaDriverTest, ListsGpus) {
  const GpuSearch found = Ask("");
  EXPECT_EQ(found.problem, "");
  EXPECT_THAT(found.warnings, IsEmpty());
  ASSERT_EQ(found.gpus.size(), 2u);
  EXPECT_EQ(found.gpus[1].index, 1);
  EXPECT_EQ(found.gpus[1].uuid, "GPU-b");
  EXPECT_EQ(found.gpus[1].driver, "580.65.06");
  EXPECT_EQ(found.gpus[1].free_bytes, 900);
  EXPECT_FALSE(found.gpus[1].exclusive);
}

TEST_F(NvidiaDriverTest, FindsNothingWithoutLibraries) {
  AddHardware();  // with the free driver, for example
  nvml_ = cuda_ = "libno-such-driver.so.1";
  const GpuSearch found = Ask("");
  EXPECT_EQ(found.problem, "");
  EXPECT_THAT(found.gpus, IsEmpty());
}

TEST_F(NvidiaDriverTest, ReportsADriverThatDoesNotAnswer) {
  const GpuSearch found = Ask("init=18");
  EXPECT_EQ(found.problem,
            "NVIDIA's driver does not answer: Driver/library version mismatch "
            "(NVML error 18); see what nvidia-smi prints");
  EXPECT_THAT(Ask("count=999").problem, HasSubstr("does not list its GPUs"));
}

TEST_F(NvidiaDriverTest, FindsNothingIfTheLibraryIsThereWithoutAGpu) {
  EXPECT_EQ(Ask("init=9").problem, "");
  AddHardware();
  EXPECT_THAT(Ask("init=9").problem, HasSubstr("NVML error 9"));
}

// Programs bring their own CUDA, so only models need a new driver.
TEST_F(NvidiaDriverTest, ListsGpusOfAnyDriver) {
  struct Row {
    const char* settings;
    const char* model_problem;
  };
  for (const Row& row : {
           Row{"driver=470",
               "driver 470.65.06 is too old for built-in "
               "models and model_def.cpp: it supports "
               "CUDA 11.4, and dtrain's LibTorch needs "
               "CUDA 13, which comes with driver 580; "
               "install that or a newer one"},
           Row{"driver=535", "it supports CUDA 12.2, and"},
           Row{"driver=535 mig=0:2", "it supports CUDA 12.2, and"},
           Row{"driver=535 lost=0", "it supports CUDA 12.2, and"},
           Row{"driver=580", ""},
       }) {
    SCOPED_TRACE(row.settings);
    const GpuSearch found = Ask(row.settings);
    EXPECT_EQ(found.problem, "");
    EXPECT_THAT(found.gpus, Not(IsEmpty()));
    EXPECT_THAT(found.model_problem, HasSubstr(row.model_problem));
    const GpuSearch models = ForModels(found);
    EXPECT_EQ(models.problem, found.model_problem);
    EXPECT_EQ(models.gpus.empty(), !found.model_problem.empty());
    EXPECT_EQ(found.model_problem.empty(), row.model_problem[0] == '\0');
    // Hidden GPUs concern nobody.
    EXPECT_EQ(VisibleGpus(found, "").model_problem, "");
    EXPECT_EQ(VisibleGpus(found, "1").model_problem, found.model_problem);
  }
  EXPECT_THAT(Ask("driver=535 cuinit=802").problem,
              HasSubstr("CUDA error 802"));
}

TEST_F(NvidiaDriverTest, ReportsACudaThatCannotStart) {
  EXPECT_EQ(Ask("cuinit=802").problem,
            "NVIDIA's driver cannot be used: system not yet initialized (CUDA "
            "error 802); see what nvidia-smi prints");
  cuda_ = "libno-such-driver.so.1";
  EXPECT_THAT(Ask("").problem, HasSubstr("no libcuda.so.1"));
}

TEST_F(NvidiaDriverTest, AsksCudaIfThereIsNoNvml) {
  nvml_ = "libno-such-driver.so.1";
  EXPECT_EQ(Ask("cuinit=100").problem, "");
  EXPECT_EQ(Ask("cuinit=34").problem, "");
  EXPECT_THAT(Ask("cuinit=802").problem, HasSubstr("CUDA error 802"));
  AddHardware();
  EXPECT_THAT(Ask("cuinit=100").problem, HasSubstr("CUDA error 100"));
}

TEST_F(NvidiaDriverTest, WarnsOfALostGpuAndUsesTheOthers) {
  const GpuSearch found = Ask("lost=0");
  ASSERT_EQ(found.gpus.size(), 1u);
  EXPECT_EQ(found.gpus[0].uuid, "GPU-b");
  EXPECT_THAT(found.warnings,
              ElementsAre("GPU 0 (GPU-a) does not answer: GPU is lost (NVML "
                          "error 15); reset it (nvidia-smi -r) or restart the "
                          "machine"));
}

TEST_F(NvidiaDriverTest, IgnoresAGpuThatTheContainerHides) {
  const GpuSearch found = Ask("hidden=0");
  ASSERT_EQ(found.gpus.size(), 1u);
  EXPECT_EQ(found.gpus[0].index, 1);
  EXPECT_THAT(found.warnings, IsEmpty());
}

TEST_F(NvidiaDriverTest, ReadsTheComputeMode) {
  EXPECT_TRUE(Ask("mode=0:3").gpus.at(0).exclusive);
  EXPECT_FALSE(Ask("mode=0:3").gpus.at(1).exclusive);
  const GpuSearch found = Ask("mode=0:2");
  EXPECT_EQ(found.gpus.size(), 1u);
  EXPECT_THAT(found.warnings, ElementsAre(HasSubstr("'prohibited'")));
}

TEST_F(NvidiaDriverTest, ListsMigInstancesInPlaceOfTheirGpu) {
  const GpuSearch found = Ask("mig=0:2");
  ASSERT_EQ(found.gpus.size(), 3u);
  EXPECT_EQ(found.gpus[0].uuid, "GPU-b");
  EXPECT_EQ(found.gpus[1].uuid, "MIG-a0");
  EXPECT_EQ(found.gpus[1].index, 2);
  EXPECT_EQ(found.gpus[1].parent_uuid, "GPU-a");
  EXPECT_EQ(found.gpus[2].uuid, "MIG-a1");
  EXPECT_EQ(found.gpus[2].index, 3);
}

TEST_F(NvidiaDriverTest, WarnsOfAGpuInMigModeWithoutInstances) {
  const GpuSearch found = Ask("mig=1:0");
  EXPECT_EQ(found.gpus.size(), 1u);
  EXPECT_THAT(found.warnings, ElementsAre(HasSubstr("has no instance")));
}

TEST(FindGpusTest, AnswersOnAnyMachine) {
  const GpuSearch found = FindGpus(std::chrono::seconds(20));
  EXPECT_TRUE(found.gpus.empty() || !found.gpus[0].name.empty());
}

}  // namespace
}  // namespace dtrain
