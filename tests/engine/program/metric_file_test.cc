#include "engine/program/metric_file.h"

#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/program/found_reports.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class MetricFileTest : public testing::Test {
 protected:
  void Append(const std::string& text) {
    std::ofstream(path(), std::ios::app) << text;
  }
  void Rewrite(const std::string& text) { std::ofstream(path()) << text; }
  // What was found since the last call, as text: "3 acc=0.50".
  std::vector<std::string> Found() {
    file().Poll();
    return DrainReports(findings_);
  }
  std::vector<std::string> End(bool whole = true) {
    file().End(whole);
    file().Settle();
    return DrainReports(findings_);
  }
  std::vector<std::string> Remarks() const {
    std::vector<std::string> texts;
    for (const auto& remark : findings_.remarks) texts.push_back(remark.text);
    return texts;
  }
  fs::path path() const { return directory_.path() / name_; }
  MetricFile& file() {
    if (!file_) {
      file_.emplace(source_, path(), "acc", from_, unit_,
                    unit_ == Unit::kEpochs, findings_);
    }
    return *file_;
  }

  TemporaryDirectory directory_;
  MetricSource source_;
  std::string name_ = "metrics.jsonl";
  Unit unit_ = Unit::kEpochs;
  double from_ = 0;
  MetricFindings findings_;

 private:
  std::optional<MetricFile> file_;
};

class CsvFileTest : public MetricFileTest {
 protected:
  CsvFileTest() { name_ = "metrics.csv"; }
};

TEST_F(MetricFileTest, EachRowIsAReport) {
  EXPECT_THAT(Found(), IsEmpty()) << "it does not exist yet";
  Append("{\"epoch\": 1, \"loss\": 0.5}\n{\"epoch\": 1, \"acc\": 0.7}\n{\"ep");
  EXPECT_THAT(Found(), ElementsAre("1 loss=0.50"));
  Append("och\": 2, \"acc\": NaN, \"name\": \"x\", \"on\": true}\n");
  EXPECT_THAT(Found(), ElementsAre("1 acc=0.70"));
  EXPECT_THAT(End(), ElementsAre("2 acc=nan"));
  EXPECT_THAT(Remarks(), IsEmpty());
}

// The rows of each batch of an epoch, as some loggers write them.
TEST_F(MetricFileTest, TheLastRowOfAStepCounts) {
  file();
  Append(
      "{\"epoch\": 1, \"acc\": 0.1, \"lr\": 3}\n{\"epoch\": 1, \"loss\": 2}\n"
      "{\"epoch\": 1, \"acc\": 0.6}\n");
  EXPECT_THAT(Found(), ElementsAre("1 loss=2.00"));
  EXPECT_EQ(file().held(), 1);
  Append("{\"epoch\": 2, \"loss\": 1}\n");
  EXPECT_THAT(Found(), ElementsAre("1 acc=0.60 lr=3.00", "2 loss=1.00"));
  EXPECT_EQ(file().held(), std::nullopt);
}

TEST_F(MetricFileTest, TheFirstRowOfAStepCountsIfAskedTo) {
  source_.first_value = true;
  file();
  Append("{\"epoch\": 1, \"acc\": 0.1}\n{\"epoch\": 1, \"acc\": 0.6}\n");
  EXPECT_THAT(Found(), ElementsAre("1 acc=0.10", "1 acc=0.60"));
  EXPECT_EQ(file().held(), std::nullopt);
}

// It may lead to a file of another trial, or to one of the user's.
TEST_F(MetricFileTest, LinksAreNotFollowed) {
  const fs::path other = directory_.path() / "other.jsonl";
  std::ofstream(other) << "{\"epoch\": 9, \"acc\": 9}\n";
  file();
  Append("{\"epoch\": 1, \"acc\": 0.1}\n{\"epoch\": 2, \"acc\": 0.2}\n");
  EXPECT_THAT(Found(), ElementsAre("1 acc=0.10"));
  fs::remove(path());
  fs::create_symlink(other, path());
  EXPECT_THAT(Found(), IsEmpty());
  EXPECT_THAT(Found(), IsEmpty());
  EXPECT_THAT(Remarks(),
              ElementsAre("metrics.jsonl is a symbolic link, which is not "
                          "followed; write the metrics there"));
  EXPECT_THAT(End(), ElementsAre("2 acc=0.20"));
}

TEST_F(MetricFileTest, LinksOfItsDirectoriesStayInTheWorkingDirectory) {
  const TemporaryDirectory elsewhere;
  std::ofstream(elsewhere.path() / "metrics.jsonl") << "{\"epoch\": 9}\n";
  fs::create_directory(directory_.path() / "run1");
  std::ofstream(directory_.path() / "run1/metrics.jsonl") << "{}\n";
  fs::create_directory_symlink(elsewhere.path(), directory_.path() / "out");
  fs::create_directory_symlink("run1", directory_.path() / "latest");
  EXPECT_EQ(FindLink(directory_.path() / "latest/metrics.jsonl",
                     "latest/metrics.jsonl"),
            "");
  EXPECT_EQ(
      FindLink(directory_.path() / "out/metrics.jsonl", "out/metrics.jsonl"),
      "out leads out of the working directory by a symbolic link, which is "
      "not followed; write the metrics there");
  EXPECT_EQ(
      FindLink(directory_.path() / "new/metrics.jsonl", "new/metrics.jsonl"),
      "");
}

TEST_F(MetricFileTest, ReadsTheLastLineAtTheEnd) {
  file();
  Append("{\"epoch\": 2, \"acc\": 0.7}");
  EXPECT_THAT(End(), ElementsAre("2 acc=0.70"));
}

TEST_F(MetricFileTest, DropsTheLastLineOfACrash) {
  file();
  Append("{\"epoch\": 1, \"acc\": 0.7}");
  EXPECT_THAT(End(/*whole=*/false), IsEmpty());
}

TEST_F(MetricFileTest, MovesAnEarlierFileOutOfTheWay) {
  Append("{\"epoch\": 1, \"acc\": 0.1}\n");
  EXPECT_THAT(Found(), IsEmpty());
  EXPECT_TRUE(fs::exists(path().string() + ".old1"));
  Append("{\"epoch\": 1, \"acc\": 0.2}\n");
  EXPECT_THAT(End(), ElementsAre("1 acc=0.20"));
}

TEST_F(MetricFileTest, ReadsAFileThatIsWrittenAgain) {
  file();
  Rewrite("{\"epoch\": 1, \"acc\": 0.1}\n{\"epoch\": 2, \"acc\": 0.2}\n");
  EXPECT_THAT(Found(), ElementsAre("1 acc=0.10"));
  Rewrite(
      "{\"epoch\": 1, \"acc\": 0.1, \"lr\": 1}\n"
      "{\"epoch\": 2, \"acc\": 0.2, \"lr\": 1}\n"
      "{\"epoch\": 3, \"acc\": 0.3, \"lr\": 1}\n");
  EXPECT_THAT(Found(), ElementsAre("2 acc=0.20 lr=1.00"));
  fs::remove(path());
  EXPECT_THAT(Found(), IsEmpty());
  Rewrite("{\"epoch\": 4, \"acc\": 0.4}\n");
  EXPECT_THAT(Found(), ElementsAre("3 acc=0.30 lr=1.00"));
  EXPECT_THAT(End(), ElementsAre("4 acc=0.40"));
}

TEST_F(MetricFileTest, TakesTheColumnsThatAreNamed) {
  source_.names = {{"acc", "eval/accuracy"}};
  source_.step = "at";
  file();
  Append("{\"at\": 1, \"eval/accuracy\": 0.5, \"loss\": 3}\n");
  EXPECT_THAT(End(), ElementsAre("1 acc=0.50"));
}

TEST_F(MetricFileTest, WithoutStepsEachResultIsOne) {
  from_ = 4;
  file();
  Append("{\"loss\": 2}\n{\"acc\": 0.5}\n{\"acc\": 0.6}\n");
  EXPECT_THAT(Found(), ElementsAre("5 loss=2.00", "5 acc=0.50", "6 acc=0.60"));
}

TEST_F(MetricFileTest, IgnoresWhatIsNoRow) {
  file();
  Append(
      "oops\n[1]\n{\"epoch\": 1.5, \"acc\": 1}\n{\"epoch\": 1, \"acc\": "
      "\"high\"}\n{\"epoch\": \"one\", \"acc\": 1}\n\n");
  EXPECT_THAT(Found(), IsEmpty());
  EXPECT_THAT(
      Remarks(),
      ElementsAre(HasSubstr("line 1 of metrics.jsonl is not JSON: 'oops'"),
                  HasSubstr("line 2 of metrics.jsonl is not a JSON object"),
                  HasSubstr("the step must be a whole number"),
                  HasSubstr("line 4 of metrics.jsonl has a text for 'acc'"),
                  HasSubstr("has a text in the column of the step, 'epoch'")));
}

TEST_F(MetricFileTest, AsksWhatAnEpochZeroMeans) {
  file();
  Append("{\"epoch\": 0, \"acc\": 1}\n");
  EXPECT_THAT(Found(), IsEmpty());
  EXPECT_THAT(findings_.refusal, HasSubstr("metrics.first_step"));
}

TEST_F(MetricFileTest, SaysThatThereIsNone) {
  file();
  std::ofstream(directory_.path() / "log.jsonl") << "\n";
  EXPECT_THAT(file().Hint(),
              AllOf(HasSubstr("it did not write "),
                    HasSubstr("metrics.jsonl, but there: log.jsonl")));
}

TEST_F(MetricFileTest, SaysWhichColumnsThereAre) {
  file();
  Append("{\"epoch\": 1, \"acd\": 1}\n");
  Found();
  EXPECT_THAT(file().Hint(), HasSubstr("metrics.jsonl has 1 row, and no column "
                                       "'acc'; did you mean 'acd'?"));
}

TEST_F(CsvFileTest, EmptyCellsAreNoValues) {
  source_.first_step = 0;
  file();
  Append("epoch,step,loss,\"acc\"\r\n0,10,0.5,\r\n0,10,,0.7\r\n1,20,nan,0.8\n");
  EXPECT_THAT(End(),
              ElementsAre("1 loss=0.50", "1 acc=0.70", "2 loss=nan acc=0.80"));
  EXPECT_THAT(Remarks(), IsEmpty());
}

TEST_F(CsvFileTest, AHeaderMayComeAgain) {
  file();
  Append("epoch,acc\n1,0.1\nepoch,acc\n2,0.2\n");
  EXPECT_THAT(End(), ElementsAre("1 acc=0.10", "2 acc=0.20"));
}

TEST_F(CsvFileTest, IgnoresRowsWithOtherNumbersOfCells) {
  file();
  Append("epoch,acc\n1,0.1,3\n2,\"0.2\n3,0.3\n");
  EXPECT_THAT(End(), ElementsAre("3 acc=0.30"));
  EXPECT_THAT(Remarks(),
              ElementsAre(HasSubstr("has 3 cells, and the header 2"),
                          HasSubstr("has a quote that is not closed")));
}

TEST_F(CsvFileTest, TakesBatchesFromTheColumnStep) {
  unit_ = Unit::kBatches;
  file();
  Append(
      "\xEF\xBB\xBF"
      "step,epoch,acc\n100,1,0.1\n");
  EXPECT_THAT(End(), ElementsAre("100 acc=0.10"));
}

}  // namespace
}  // namespace dtrain
