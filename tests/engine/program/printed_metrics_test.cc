#include "engine/program/printed_metrics.h"

#include <cmath>
#include <string>

#include <fcntl.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/os/line_reader.h"
#include "engine/os/spawn.h"
#include "tests/engine/program/found_reports.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// What is found in lines, as text: "3 acc=0.5 loss=1".
class PrintedMetricsTest : public testing::Test {
 protected:
  void Print(const std::string& text, bool overwritten = false) {
    metrics().Read({.text = text, .overwritten = overwritten});
  }
  void End(bool whole = true) { metrics().End(whole); }
  std::vector<std::string> Found() { return DrainReports(findings_); }
  std::vector<std::string> Remarks() const {
    std::vector<std::string> texts;
    for (const auto& remark : findings_.remarks) texts.push_back(remark.text);
    return texts;
  }
  PrintedMetrics& metrics() {
    if (!metrics_) {
      metrics_.emplace(source_, "acc", from_, refuses_zero_, findings_);
    }
    return *metrics_;
  }

  MetricSource source_{
      .names = {{"acc", "acc[:= ]+(\\S+)"}, {"loss", "loss[:= ]+(\\S+)"}}};
  double from_ = 0;
  bool refuses_zero_ = true;
  MetricFindings findings_;

 private:
  std::optional<PrintedMetrics> metrics_;
};

// Steps begin, as in "Epoch 1/10".
class BeginningStepsTest : public PrintedMetricsTest {
 protected:
  BeginningStepsTest() { source_.step = "[Ee]poch (\\d+)"; }
};

// The first values of a step count.
class FirstValueTest : public BeginningStepsTest {
 protected:
  FirstValueTest() { source_.first_value = true; }
};

// Steps end, as in "epoch 1 done".
class EndingStepsTest : public PrintedMetricsTest {
 protected:
  EndingStepsTest() { source_.step_end = "epoch (\\d+) done"; }
};

TEST_F(BeginningStepsTest, TheLastValuesOfAStepCount) {
  Print("Epoch 1");
  Print("batch 0 loss=5 acc=0.1");
  Print("batch 4 loss=1 acc=0.6");
  EXPECT_THAT(Found(), IsEmpty());
  EXPECT_EQ(metrics().held(), 1);
  Print("Epoch 2");
  EXPECT_THAT(Found(), ElementsAre("1 acc=0.60 loss=1.00"));
  EXPECT_EQ(metrics().held(), std::nullopt);
  Print("loss=0.5 acc=0.7");
  Print("acc=0.8");
  End();
  EXPECT_THAT(Found(), ElementsAre("2 acc=0.80 loss=0.50"));
  EXPECT_THAT(Remarks(), IsEmpty());
}

TEST_F(BeginningStepsTest, AStepThatIsSettledIsReported) {
  Print("epoch 3 acc=0.1");
  EXPECT_EQ(metrics().held(), std::nullopt) << "the loss is missing";
  Print("loss=2");
  EXPECT_EQ(metrics().held(), 3);
  metrics().Settle();
  EXPECT_THAT(Found(), ElementsAre("3 acc=0.10 loss=2.00"));
  Print("acc=0.2");
  EXPECT_THAT(Remarks(), ElementsAre(HasSubstr("was printed again in step 3")));
  Print("epoch 4 acc=0.3");
  End();
  EXPECT_THAT(Found(), ElementsAre("4 acc=0.30"));
}

TEST_F(FirstValueTest, ReportsALineWithAllMetricsAtOnce) {
  Print("epoch 1: loss=0.5 acc=0.7");
  EXPECT_THAT(Found(), ElementsAre("1 acc=0.70 loss=0.50"));
  Print("acc=0.8 loss=0.4 at the end of epoch 2");
  EXPECT_THAT(Found(), ElementsAre("2 acc=0.80 loss=0.40"));
  End();
  EXPECT_THAT(Found(), IsEmpty());
  EXPECT_THAT(Remarks(), IsEmpty());
}

TEST_F(BeginningStepsTest, CollectsTheLinesOfAStep) {
  Print("Epoch 1/2");
  Print("batch 10 loss=0.9");
  Print("batch 20 loss=0.8");
  EXPECT_THAT(Found(), IsEmpty());
  Print("acc=0.5");
  Print("Epoch 2/2");
  EXPECT_THAT(Found(), ElementsAre("1 loss=0.80 acc=0.50"));
  Print("loss=0.7");
  Print("Epoch 3/2");
  EXPECT_THAT(Found(), ElementsAre("2 loss=0.70")) << "a training report";
  Print("acc=0.6");
  End();
  EXPECT_THAT(Found(), ElementsAre("3 acc=0.60"));
}

TEST_F(BeginningStepsTest, CollectsSeveralLinesThatNameTheSameStep) {
  Print("epoch 1 loss=0.9");
  Print("epoch 1 acc=0.5");
  End();
  EXPECT_THAT(Found(), ElementsAre("1 loss=0.90 acc=0.50"));
}

TEST_F(FirstValueTest, IgnoresAValueThatIsPrintedAgain) {
  Print("epoch 1 loss=0.9 acc=0.5");
  Print("loss=0.1");
  Print("acc=0.5");
  EXPECT_THAT(Remarks(), IsEmpty());
  Print("test acc=0.6");
  Print("test acc=0.7");
  EXPECT_THAT(Found(), SizeIs(1));
  EXPECT_THAT(Remarks(),
              ElementsAre(HasSubstr("'acc' was printed again in step 1, as "
                                    "0.6; 0.5 is recorded")));
}

TEST_F(BeginningStepsTest, IgnoresAResultBeforeTheFirstStep) {
  Print("loss=3");
  EXPECT_THAT(Remarks(), IsEmpty());
  Print("acc=0.1");
  EXPECT_THAT(Remarks(), ElementsAre(HasSubstr("metrics.step_end")));
  Print("epoch 1");
  End();
  EXPECT_THAT(Found(), IsEmpty());
}

TEST_F(BeginningStepsTest, IgnoresStepsThatGoBack) {
  Print("epoch 3 acc=0.3 loss=1");
  Print("epoch 1 acc=0.1 loss=1");
  Print("acc=0.2");
  EXPECT_THAT(Remarks(), ElementsAre(HasSubstr("step 1 comes after step 3")));
  Print("epoch 4 acc=0.4 loss=1");
  End();
  EXPECT_THAT(Found(),
              ElementsAre("3 acc=0.30 loss=1.00", "4 acc=0.40 loss=1.00"));
}

TEST_F(BeginningStepsTest, AsksWhatAnEpochZeroMeans) {
  Print("epoch 0 acc=0.3 loss=1");
  EXPECT_THAT(findings_.refusal, HasSubstr("metrics.first_step: 0"));
  EXPECT_THAT(Found(), IsEmpty());
  EXPECT_THAT(Remarks(), IsEmpty());
}

TEST_F(BeginningStepsTest, CountsFromZeroIfAskedTo) {
  source_.first_step = 0;
  Print("epoch 0 acc=0.3 loss=1");
  Print("epoch 1 acc=0.4 loss=1");
  End();
  EXPECT_THAT(Found(),
              ElementsAre("1 acc=0.30 loss=1.00", "2 acc=0.40 loss=1.00"));
  EXPECT_EQ(findings_.refusal, "");
}

TEST_F(BeginningStepsTest, TakesAStepZeroAsInitialValidationIfAskedTo) {
  source_.first_step = 1;
  Print("epoch 0 acc=0.3 loss=1");
  Print("epoch 1 acc=0.4 loss=1");
  End();
  EXPECT_THAT(Found(),
              ElementsAre("0 acc=0.30 loss=1.00", "1 acc=0.40 loss=1.00"));
}

TEST_F(BeginningStepsTest, TakesBatchZeroAsItIs) {
  refuses_zero_ = false;
  Print("epoch 0 acc=0.3 loss=1");
  End();
  EXPECT_THAT(Found(), SizeIs(1));
  EXPECT_EQ(findings_.refusal, "");
  EXPECT_THAT(metrics().Hint(), HasSubstr("metrics.first_step: 0"));
}

TEST_F(BeginningStepsTest, FollowsProgressBars) {
  Print("epoch 1:  90% loss=0.8 acc=0.2", /*overwritten=*/true);
  Print("epoch 1: 100% loss=0.7 acc=0.3");
  EXPECT_THAT(Found(), IsEmpty());
  Print("epoch 2: loss=0.6 acc=0.4", /*overwritten=*/true);
  EXPECT_THAT(Found(), ElementsAre("1 acc=0.30 loss=0.70"));
  Print("epoch 3: loss=0.5 acc=0.5", /*overwritten=*/true);
  EXPECT_THAT(Found(), ElementsAre("2 acc=0.40 loss=0.60"));
}

TEST_F(FirstValueTest, WaitsForTheEndOfAProgressBar) {
  Print("epoch 1:  10% loss=0.9 acc=0.1", /*overwritten=*/true);
  Print("epoch 1:  90% loss=0.8 acc=0.2", /*overwritten=*/true);
  EXPECT_THAT(Found(), IsEmpty()) << "it may be overwritten";
  Print("epoch 1: 100% loss=0.7 acc=0.3");
  EXPECT_THAT(Found(), ElementsAre("1 acc=0.30 loss=0.70"));
  Print("epoch 2: loss=0.6 acc=0.4", /*overwritten=*/true);
  Print("epoch 3: loss=0.5 acc=0.5", /*overwritten=*/true);
  EXPECT_THAT(Found(), ElementsAre("2 acc=0.40 loss=0.60"));
}

TEST_F(BeginningStepsTest, DropsTheTrainingValuesOfAStepThatWasCutOff) {
  Print("epoch 1 loss=1");
  End(/*whole=*/false);
  EXPECT_THAT(Found(), IsEmpty());
}

TEST_F(BeginningStepsTest, KeepsTheResultOfAStepThatWasCutOff) {
  Print("epoch 1 acc=1");
  End(/*whole=*/false);
  EXPECT_THAT(Found(), ElementsAre("1 acc=1.00"));
}

TEST_F(EndingStepsTest, CollectsTheLinesBefore) {
  Print("loss=0.9");
  Print("acc=0.5");
  EXPECT_THAT(Found(), IsEmpty());
  Print("epoch 1 done");
  EXPECT_THAT(Found(), ElementsAre("1 loss=0.90 acc=0.50"));
  Print("acc=0.6 loss=1 epoch 2 done");
  EXPECT_THAT(Found(), ElementsAre("2 acc=0.60 loss=1.00"));
  Print("acc=0.7");
  End();
  EXPECT_THAT(Found(), IsEmpty());
  EXPECT_THAT(Remarks(), ElementsAre(HasSubstr("after the last line that "
                                               "matches metrics.step_end")));
}

TEST_F(EndingStepsTest, ValuesOfAnIgnoredStepAreNotThoseOfTheNext) {
  Print("acc=0.5 epoch 2 done");
  EXPECT_THAT(Found(), ElementsAre("2 acc=0.50"));
  Print("loss=0.9 acc=0.1");
  Print("epoch 1 done");
  EXPECT_THAT(Found(), IsEmpty());
  Print("acc=0.6 epoch 3 done");
  EXPECT_THAT(Found(), ElementsAre("3 acc=0.60"));
  EXPECT_THAT(Remarks(), ElementsAre(HasSubstr("step 1 comes after step 2")));
}

TEST_F(PrintedMetricsTest, EachResultIsAStep) {
  Print("loss=0.9");
  Print("loss=0.8");
  Print("acc=0.5");
  Print("loss=0.7 acc=0.6");
  EXPECT_THAT(Found(),
              ElementsAre("1 loss=0.80 acc=0.50", "2 acc=0.60 loss=0.70"));
}

TEST_F(PrintedMetricsTest, AResultMayComeBeforeTheOtherMetrics) {
  Print("acc=0.5");
  Print("loss=0.9");
  Print("acc=0.6");
  Print("acc=0.7");
  End();
  EXPECT_THAT(Found(),
              ElementsAre("1 acc=0.50 loss=0.90", "2 acc=0.60", "3 acc=0.70"));
}

TEST_F(PrintedMetricsTest, CountsOnFromACheckpoint) {
  from_ = 5;
  Print("loss=0.9 acc=0.5");
  EXPECT_THAT(Found(), ElementsAre("6 acc=0.50 loss=0.90"));
}

TEST_F(PrintedMetricsTest, TextThatIsOverwrittenIsNoStep) {
  Print("acc=0.5", /*overwritten=*/true);
  End();
  EXPECT_THAT(Found(), IsEmpty());
  EXPECT_THAT(metrics().Hint(), HasSubstr("only with metrics.step"));
}

TEST_F(PrintedMetricsTest, SkipsColoursAndControlCharacters) {
  Print("\x1b[1;32macc=\x1b[0m\x1b]0;title\a0.5\x1b[K \bloss=1");
  EXPECT_THAT(Found(), ElementsAre("1 acc=0.50 loss=1.00"));
}

TEST_F(PrintedMetricsTest, TheFirstOfSeveralValuesCounts) {
  Print("acc=0.5 best acc=0.9 loss=1");
  Print("acc=0.6 best acc=0.9 loss=1");
  EXPECT_THAT(Found(),
              ElementsAre("1 acc=0.50 loss=1.00", "2 acc=0.60 loss=1.00"));
  EXPECT_THAT(Remarks(),
              ElementsAre(HasSubstr("several values for 'acc', 0.5 "
                                    "and 0.9; the first one counts")))
      << "once";
}

TEST_F(PrintedMetricsTest, TextThatIsNoNumberIsIgnored) {
  Print("acc=n/a");
  EXPECT_THAT(Found(), IsEmpty());
  EXPECT_THAT(Remarks(),
              ElementsAre("line 1 of the output has the text 'n/a' for 'acc', "
                          "which is not a number: 'acc=n/a'"));
  EXPECT_TRUE(findings_.remarks[0].ignored);
}

TEST_F(PrintedMetricsTest, WarnsOnceIfNothingMatches) {
  for (int i = 0; i < 250; ++i) Print(i == 0 ? "Loading\x1b[0m" : "data");
  EXPECT_THAT(Remarks(), ElementsAre("no expression of metrics has matched in "
                                     "the first 100 lines; they begin with "
                                     "'Loading', 'data', 'data'"));
  EXPECT_THAT(metrics().Hint(),
              HasSubstr("matches none of its 250 lines of output"));
}

TEST_F(PrintedMetricsTest, DoesNotWarnIfSomethingMatches) {
  Print("loss=1");
  for (int i = 0; i < 250; ++i) Print("data");
  EXPECT_THAT(Remarks(), IsEmpty());
}

TEST_F(PrintedMetricsTest, LongLinesAreNotSearched) {
  metrics().Read({.too_long = true});
  EXPECT_THAT(Remarks(), ElementsAre(HasSubstr("longer than 65.5 kB")));
}

TEST_F(PrintedMetricsTest, SurvivesInvalidUtf8) {
  Print("\xff\xfe acc=0.5 loss=1 \xc3");
  EXPECT_THAT(Found(), SizeIs(1));
}

TEST(ParseMetricTest, ReadsNumbersAsProgramsPrintThem) {
  EXPECT_EQ(ParseMetric("0.5"), 0.5);
  EXPECT_EQ(ParseMetric(" +1e-3 "), 1e-3);
  EXPECT_EQ(ParseMetric("0.93."), 0.93);
  EXPECT_EQ(ParseMetric("-5,"), -5);
  EXPECT_EQ(ParseMetric("0.5)]"), 0.5);
  EXPECT_TRUE(std::isnan(*ParseMetric("nan,")));
  EXPECT_EQ(ParseMetric("-Infinity"), -INFINITY);
  EXPECT_EQ(ParseMetric("inf"), INFINITY);
}

TEST(ParseMetricTest, RejectsOtherText) {
  for (const auto* text : {"", "-", "e", "93%", "1_000", "1,000", "0x10", "--5",
                           "1e400", "0.5a", "nano", "+-5", "tensor(0.5"}) {
    EXPECT_EQ(ParseMetric(text), std::nullopt) << text;
  }
}

// Lines that come out of a stream, each followed by a character for its kind.
class ProgramOutputTest : public testing::Test {
 protected:
  ProgramOutputTest() : pipe_(MakePipe()) {
    copy_ = UniqueFd(::open((directory_.path() / "copy").c_str(),
                            O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    output_.emplace(std::move(pipe_.reading), copy_.get());
  }
  std::vector<std::string> Write(const std::string& text) {
    EXPECT_TRUE(WriteAll(pipe_.writing.get(), text));
    std::vector<std::string> lines;
    output_->Fill();
    while (const auto line = output_->Next()) lines.push_back(Text(*line));
    return lines;
  }
  std::vector<std::string> Close() {
    pipe_.writing.reset();
    output_->Fill();
    EXPECT_EQ(output_->fd(), -1);
    std::vector<std::string> lines;
    while (const auto line = output_->Next()) lines.push_back(Text(*line));
    if (const auto line = output_->Rest()) lines.push_back(Text(*line));
    return lines;
  }
  std::string Copied() const {
    std::string text(1 << 20, '\0');
    text.resize(::pread(copy_.get(), text.data(), text.size(), 0));
    return text;
  }

  std::optional<ProgramOutput> output_;

 private:
  static std::string Text(const OutputLine& line) {
    return line.too_long
               ? "(long)"
               : std::string(line.text) + (line.overwritten ? "<" : "");
  }

  TemporaryDirectory directory_;
  Pipe pipe_;
  UniqueFd copy_;
};

TEST_F(ProgramOutputTest, SplitsAndCopies) {
  EXPECT_THAT(Write("one\ntw"), ElementsAre("one"));
  EXPECT_THAT(Write("o\n\nthree"), ElementsAre("two", ""));
  EXPECT_THAT(Close(), ElementsAre("three"));
  EXPECT_EQ(Copied(), "one\ntwo\n\nthree");
}

TEST_F(ProgramOutputTest, TellsCarriageReturnsFromNewlines) {
  EXPECT_THAT(Write("10%\r20%\r"), ElementsAre("10%<"));
  EXPECT_THAT(Write("30%\r\n"), ElementsAre("20%<", "30%"));
  EXPECT_THAT(Write("40%\r\r"), IsEmpty());
  EXPECT_THAT(Write("\r\n50%\r"), ElementsAre("40%"));
  EXPECT_THAT(Close(), ElementsAre("50%"));
}

TEST_F(ProgramOutputTest, DiscardsLinesThatAreTooLong) {
  const std::string half(40'000, 'x');
  EXPECT_THAT(Write(half), IsEmpty());
  EXPECT_THAT(Write(half), IsEmpty());
  EXPECT_THAT(Write("\nshort\n"), ElementsAre("(long)", "short"));
  EXPECT_EQ(Copied(), half + half + "\nshort\n");
}

}  // namespace
}  // namespace dtrain
