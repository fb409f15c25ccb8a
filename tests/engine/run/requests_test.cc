// Requests of users to a running experiment, from another process.

#include "tests/engine/run/experiment_fixture.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

using testing::Contains;
using testing::HasSubstr;

// A store on disk, with a second connection for the one who asks.
class RequestsTest : public ExperimentTest {
 protected:
  RequestsTest() {
    store_ = Store::OpenForWriting(StoreLayout(directory_.path()));
    Record();
    config_.searcher = {.name = "random",
                        .metric = "loss",
                        .max_length = 100,
                        .max_trials = 3,
                        .max_concurrent_trials = 1};
    trials_.silent = true;  // the trials train for ever
    launcher_.on_wait = [this] {
      if (++waits_ == ask_at_) Ask();
    };
  }

  void Ask() {
    Store other = Store::OpenForWriting(StoreLayout(directory_.path()));
    other.Write([this](StoreWriter& writer) {
      writer.AddRequest(id_, trial_, kind_, Timestamp(1));
    });
  }

  TemporaryDirectory directory_;
  int waits_ = 0;
  int ask_at_ = 5;
  RequestKind kind_ = RequestKind::kPause;
  std::optional<std::int64_t> trial_;
};

TEST_F(RequestsTest, PauseStopsTheTrials) {
  const RunResult result = Run();

  EXPECT_EQ(result.state, State::kPaused);
  EXPECT_EQ(result.signal, 0);
  EXPECT_EQ(Trial().state, State::kPaused);
  EXPECT_TRUE(store_.OpenRequests(id_).empty());
  EXPECT_THAT(reporter_.notices, Contains(HasSubstr("asked to pause")));
}

TEST_F(RequestsTest, KillingAllTrialsCancelsTheExperiment) {
  kind_ = RequestKind::kKill;
  trial_ = 1;
  config_.searcher.max_trials = 1;

  const RunResult result = Run();

  EXPECT_EQ(result.state, State::kCanceled);
  EXPECT_EQ(result.error, "its trial was killed");
  EXPECT_EQ(store_.Experiment(id_)->row.error, "its trial was killed");
  EXPECT_EQ(store_.Experiment(id_)->row.progress, 0);
}

TEST_F(RequestsTest, CancelIsFinal) {
  kind_ = RequestKind::kCancel;

  EXPECT_EQ(Run().state, State::kCanceled);

  EXPECT_EQ(Trial().state, State::kCanceled);
  EXPECT_EQ(Trial().reason, "canceled");
  EXPECT_THAT(launcher_.calls(), Contains("stop 1.1"));
  EXPECT_TRUE(store_.OpenRequests(id_).empty());
}

TEST_F(RequestsTest, KillDoesNotAskTheTrials) {
  kind_ = RequestKind::kKill;

  EXPECT_EQ(Run().state, State::kCanceled);

  EXPECT_THAT(launcher_.calls(), Contains("abort"));
}

TEST_F(RequestsTest, KilledTrialIsRecordedOnce) {
  kind_ = RequestKind::kKill;

  Run();

  EXPECT_THAT(reporter_.ended,
              testing::ElementsAre(testing::AllOf(
                  testing::Field(&TrialRow::state, State::kCanceled),
                  testing::Field(&TrialRow::reason, "canceled"))));
}

TEST_F(RequestsTest, KilledTrialIsReplacedByTheNext) {
  kind_ = RequestKind::kKill;
  trial_ = 1;
  launcher_.on_stop = {};
  timeout_ = std::chrono::seconds(60);
  launcher_.on_wait = [this] {
    if (++waits_ == ask_at_) Ask();
    // The next trials answer.
    if (waits_ > ask_at_) trials_.silent = false;
  };

  EXPECT_EQ(Run().state, State::kCompleted);

  EXPECT_EQ(Trial(1).state, State::kCanceled);
  EXPECT_EQ(Trial(1).reason, "killed by request");
  EXPECT_EQ(Trial(2).state, State::kCompleted);
  EXPECT_EQ(Trial(3).state, State::kCompleted);
  EXPECT_TRUE(store_.OpenRequests(id_).empty());
}

TEST_F(RequestsTest, ResumeForgetsAPauseRequestedFromADeadRunner) {
  ask_at_ = -1;
  trials_.silent = false;
  Ask();

  EXPECT_EQ(Run().state, State::kCompleted);

  EXPECT_TRUE(store_.OpenRequests(id_).empty());
}

TEST_F(RequestsTest, ResumeCompletesAPendingCancel) {
  ask_at_ = -1;
  trials_.silent = false;
  kind_ = RequestKind::kCancel;
  Ask();

  EXPECT_EQ(Run().state, State::kCanceled);

  EXPECT_TRUE(launcher_.started().empty());
}

}  // namespace
}  // namespace dtrain
