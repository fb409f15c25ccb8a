#include <cmath>

#include <SQLiteCpp/Database.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/store/database.h"
#include "engine/store/store.h"
#include "tests/engine/store/sample_rows.h"
#include "tests/support/field_names.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class StoreWriterTest : public testing::Test {
 protected:
  void Write(const std::function<void(StoreWriter&)>& body) {
    store_.Write(body);
  }
  ExperimentRow Row() { return store_.Experiment(1)->row; }
  TrialRow Trial(std::int64_t number) { return *store_.Trial({1, number}); }

  Store store_ = Store::OpenForWriting(StoreLayout(":memory:"));
};

TEST_F(StoreWriterTest, ExperimentRoundTrips) {
  NewExperiment experiment = SampleExperiment();
  experiment.smaller_is_better = false;
  experiment.storage = "/kept/0b5d";
  Write([&](StoreWriter& writer) { writer.AddExperiment(experiment); });

  const auto detail = store_.Experiment(1);

  ASSERT_TRUE(detail);
  EXPECT_EQ(detail->row.name, "digits");
  EXPECT_EQ(detail->row.description, "a test");
  EXPECT_THAT(detail->row.labels, ElementsAre("fast", "cpu"));
  EXPECT_EQ(detail->row.state, State::kPending);
  EXPECT_EQ(detail->row.searcher, "single");
  EXPECT_EQ(detail->row.metric, "val_loss");
  EXPECT_FALSE(detail->row.smaller_is_better);
  EXPECT_EQ(detail->row.seed, 7u);
  EXPECT_EQ(detail->row.created, Timestamp(1000));
  EXPECT_EQ(detail->row.started, std::nullopt);
  EXPECT_EQ(detail->row.best, std::nullopt);
  EXPECT_EQ(detail->yaml, "name: digits\n");
  EXPECT_EQ(detail->config["name"], "digits");
  EXPECT_EQ(detail->provenance["host"], "here");
  EXPECT_EQ(detail->storage, "/kept/0b5d");
}

TEST_F(StoreWriterTest, ExperimentsAreNumberedFromOne) {
  EXPECT_EQ(AddSample(store_, 0), 1);
  EXPECT_EQ(AddSample(store_, 0), 2);
}

TEST_F(StoreWriterTest, ExperimentKeepsItsFirstStartThroughAPause) {
  AddSample(store_, 0);
  Write([](StoreWriter& writer) {
    writer.SetExperimentState(1, State::kRunning, Timestamp(5));
    writer.SetExperimentState(1, State::kPaused, Timestamp(6));
    writer.SetExperimentState(1, State::kRunning, Timestamp(7));
  });

  EXPECT_EQ(Row().state, State::kRunning);
  EXPECT_EQ(Row().started, Timestamp(5));
  EXPECT_EQ(Row().ended, std::nullopt);
}

TEST_F(StoreWriterTest, TrialKeepsItsFirstStartAndItsLastEnd) {
  AddSample(store_, 1);
  Write([](StoreWriter& writer) {
    writer.SetTrialState({1, 1}, State::kRunning, Timestamp(5));
    writer.SetTrialState({1, 1}, State::kPaused, Timestamp(6));
    writer.SetTrialState({1, 1}, State::kRunning, Timestamp(7));
    writer.SetTrialState({1, 1}, State::kError, Timestamp(8), "why");
  });
  auto trial = store_.Trial({1, 1}).value();
  EXPECT_EQ(trial.started, Timestamp(5));
  EXPECT_EQ(trial.ended, Timestamp(8));
  EXPECT_EQ(trial.reason, "why");

  Write([](StoreWriter& writer) {
    writer.SetTrialState({1, 1}, State::kRunning, Timestamp(9));
  });
  trial = store_.Trial({1, 1}).value();
  EXPECT_EQ(trial.started, Timestamp(5));
  EXPECT_EQ(trial.ended, std::nullopt);
}

TEST_F(StoreWriterTest, FailedExperimentKeepsItsReasonUntilItRunsAgain) {
  AddSample(store_, 0);
  Write([](StoreWriter& writer) {
    writer.SetExperimentState(1, State::kError, Timestamp(8), "no data");
  });
  EXPECT_EQ(Row().error, "no data");
  EXPECT_EQ(Row().ended, Timestamp(8));

  Write([](StoreWriter& writer) {
    writer.SetExperimentState(1, State::kRunning, Timestamp(9), "unused");
  });

  EXPECT_EQ(Row().error, "");
  EXPECT_EQ(Row().ended, std::nullopt);
}

TEST_F(StoreWriterTest, PausedExperimentKeepsItsReason) {
  AddSample(store_, 0);
  Write([](StoreWriter& writer) {
    writer.SetExperimentState(1, State::kPaused, Timestamp(8), "disk is full");
  });

  EXPECT_EQ(Row().error, "disk is full");
}

TEST_F(StoreWriterTest, ProgressAndSecondsAreKept) {
  AddSample(store_, 0);
  Write([](StoreWriter& writer) {
    writer.SetExperimentProgress(1, 0.25);
    writer.AddExperimentSeconds(1, 1.5);
    writer.AddExperimentSeconds(1, 2);
  });

  EXPECT_EQ(Row().progress, 0.25);
  EXPECT_EQ(Row().seconds, 3.5);
}

TEST_F(StoreWriterTest, UnknownExperimentOrTrialIsNotFound) {
  EXPECT_THROW(
      Write([](StoreWriter& writer) { writer.SetExperimentProgress(9, 0.5); }),
      Error);
  EXPECT_THROW(
      Write([](StoreWriter& writer) { writer.AddTrial(SampleTrial(9, 1)); }),
      Error);
  EXPECT_THROW(Write([](StoreWriter& writer) {
                 writer.SetTrialRung({1, 1}, 1);
               }),
               Error);
}

TEST_F(StoreWriterTest, TrialRoundTrips) {
  AddSample(store_, 1);

  const TrialRow trial = Trial(1);

  EXPECT_EQ(trial.id, (TrialId{1, 1}));
  EXPECT_EQ(trial.state, State::kPending);
  EXPECT_EQ(trial.hparams["lr"], 0.1);
  EXPECT_EQ(trial.seed, 11u);
  EXPECT_EQ(trial.best, std::nullopt);
  EXPECT_EQ(trial.latest, std::nullopt);
  EXPECT_EQ(trial.latest_checkpoint, "");
  EXPECT_EQ(trial.created, Timestamp(2000));
}

// A process after the end: no trial has that, but a row can.
TEST_F(StoreWriterTest, EveryFieldOfATrialRoundTrips) {
  AddSample(store_, 1);
  const TrialId id = {1, 1};
  Write([&](StoreWriter& writer) {
    writer.SetTrialState(id, State::kRunning, Timestamp(2500));
    writer.AddCheckpoint(SampleCheckpoint(id, 100, "aaaaaaaa"));
    writer.AddCheckpoint(SampleCheckpoint(id, 200, "bbbbbbbb"));
    writer.AddCheckpoint(SampleCheckpoint(id, 300, "cccccccc"));
    writer.AddValidation(id, 0.25, 100, /*smaller_is_better=*/true);
    writer.AddValidation(id, 0.5, 200, /*smaller_is_better=*/true);
    writer.AddMetrics(id, MetricKind::kValidation, 100, /*epoch=*/1.5,
                      {{"loss", 0.25}}, Timestamp(3000));
    writer.SetTrialBatches(id, 400);
    writer.SetTrialRung(id, 3);
    writer.SetTrialRestarts(id, 5, 2);
    writer.SetTrialPreemptions(id, 6);
    writer.SetTrialStar(id, true);
    writer.SetTrialNote(id, "odd");
    writer.AddTrialSeconds(id, 7.5);
    writer.SetTrialState(id, State::kError, Timestamp(9000), "late crash");
    writer.SetTrialProcess(
        id,
        {.pid = 4242, .start_ticks = 777, .boot_id = "boot", .slots = "cpu:1"});
  });

  const nlohmann::json fields = AllFields(Trial(1));

  EXPECT_EQ(
      fields,
      nlohmann::json(
          {{"id", "1.1"},
           {"request_id", "0b5d1b1e-6f4c-4a38-9d6c-3f1a5b2c7d8e"},
           {"state", "ERROR"},
           {"reason", "late crash"},
           {"hparams", {{"lr", 0.1}}},
           {"seed", 11},
           {"batches", 400},
           {"rung", 3},
           {"best", {0.25, 100, 1.5, "aaaaaaaa-6f4c-4a38-9d6c-3f1a5b2c7d8e"}},
           {"latest", {0.5, 200, 0.0, "bbbbbbbb-6f4c-4a38-9d6c-3f1a5b2c7d8e"}},
           {"latest_checkpoint", "cccccccc-6f4c-4a38-9d6c-3f1a5b2c7d8e"},
           {"restarts", 5},
           {"failures", 2},
           {"preemptions", 6},
           {"runs", 1},
           {"slots", "cpu:1"},
           {"pid", 4242},
           {"pid_start", 777},
           {"boot_id", "boot"},
           {"created", 2000},
           {"started", 2500},
           {"ended", 9000},
           {"seconds", 7.5},
           {"star", true},
           {"note", "odd"},
           {"point", 0},
           {"repeat", 0}}));
  // These follow from the number and searcher.repeats.
  EXPECT_THAT(EqualFields(fields, AllFields(TrialRow{})),
              ElementsAre("point", "repeat"));
}

TEST_F(StoreWriterTest, EndedTrialsAreCountedOnce) {
  AddSample(store_, 3);
  Write([](StoreWriter& writer) {
    writer.SetTrialState({1, 1}, State::kCompleted, Timestamp(3));
    writer.SetTrialState({1, 1}, State::kError, Timestamp(4), "late crash");
    writer.SetTrialState({1, 2}, State::kRunning, Timestamp(3));
    writer.SetTrialState({1, 3}, State::kStopped, Timestamp(3));
    writer.SetTrialState({1, 3}, State::kRunning, Timestamp(5));
  });

  EXPECT_EQ(Row().trials, 3);
  EXPECT_EQ(Row().trials_ended, 1);
  EXPECT_EQ(Trial(1).reason, "late crash");
  EXPECT_EQ(Trial(1).ended, Timestamp(4));
}

TEST_F(StoreWriterTest, ProcessOfATrialIsStoredUntilItEnds) {
  AddSample(store_, 1);
  Write([](StoreWriter& writer) {
    writer.SetTrialProcess(
        {1, 1}, {.pid = 4242, .start_ticks = 777, .boot_id = "boot"});
  });
  EXPECT_EQ(Trial(1).pid, 4242);
  EXPECT_EQ(Trial(1).pid_start, 777);
  EXPECT_EQ(Trial(1).boot_id, "boot");
  EXPECT_EQ(Trial(1).runs, 1);

  Write([](StoreWriter& writer) {
    writer.ClearTrialProcess({1, 1}, 2.5);
    writer.SetTrialProcess(
        {1, 1}, {.pid = 4343, .start_ticks = 778, .boot_id = "boot"});
    writer.SetTrialState({1, 1}, State::kCompleted, Timestamp(9));
  });

  EXPECT_EQ(Trial(1).pid, 0);
  EXPECT_EQ(Trial(1).runs, 2);
  EXPECT_EQ(Trial(1).seconds, 2.5);
}

TEST_F(StoreWriterTest, TrialsCountersAreKept) {
  AddSample(store_, 1);
  Write([](StoreWriter& writer) {
    writer.SetTrialRestarts({1, 1}, 2, 1);
    writer.SetTrialRung({1, 1}, 3);
    writer.SetTrialBatches({1, 1}, 400);
  });

  EXPECT_EQ(Trial(1).restarts, 2);
  EXPECT_EQ(Trial(1).rung, 3);
  EXPECT_EQ(Trial(1).batches, 400);
}

TEST_F(StoreWriterTest, SameTrialTwiceIsRefusedAndLeavesNoTrace) {
  AddSample(store_, 1);

  EXPECT_THROW(
      Write([](StoreWriter& writer) { writer.AddTrial(SampleTrial(1, 1)); }),
      Error);

  EXPECT_EQ(Row().trials, 1);
}

TEST_F(StoreWriterTest, SearcherEventsRoundTripInOrder) {
  AddSample(store_, 0);
  Write([](StoreWriter& writer) {
    writer.AddSearcherEvent(1, {1, {{"type", "started"}}, {"create"}});
    writer.AddSearcherEvent(1, {2, {{"type", "created"}}, {}});
  });

  const auto events = store_.SearcherEvents(1, 0);
  const auto later = store_.SearcherEvents(1, 1);

  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].event["type"], "started");
  EXPECT_EQ(events[0].operations, nlohmann::json({"create"}));
  ASSERT_EQ(later.size(), 1u);
  EXPECT_EQ(later[0].seq, 2);
}

TEST_F(StoreWriterTest, GapInSearcherEventsIsRefused) {
  AddSample(store_, 0);
  Write([](StoreWriter& writer) { writer.AddSearcherEvent(1, {1, {}, {}}); });

  EXPECT_THROW(Write([](StoreWriter& writer) {
                 writer.AddSearcherEvent(1, {3, {}, {}});
               }),
               Error);
  EXPECT_THROW(Write([](StoreWriter& writer) {
                 writer.AddSearcherEvent(1, {1, {}, {}});
               }),
               Error);
}

TEST_F(StoreWriterTest, LatestSnapshotReplacesThePreviousOne) {
  AddSample(store_, 0);
  EXPECT_FALSE(store_.LatestSnapshot(1));

  Write([](StoreWriter& writer) {
    writer.AddSearcherSnapshot(1, 256, {{"state", "old"}});
    writer.AddSearcherSnapshot(1, 512, {{"state", "new"}});
  });

  const auto snapshot = store_.LatestSnapshot(1);
  ASSERT_TRUE(snapshot);
  EXPECT_EQ(snapshot->seq, 512);
  EXPECT_EQ(snapshot->state["state"], "new");
}

using testing::IsEmpty;

class StoreChangesTest : public testing::Test {
 protected:
  // Two experiments with something in every table.
  StoreChangesTest() {
    Fill(1, "0a1b2c3d");
    Fill(2, "1a1b2c3d");
  }
  void Fill(std::int64_t id, const std::string& uuid) {
    AddSample(store_, 2);
    store_.Write([&](StoreWriter& w) {
      w.AddMetrics({id, 1}, MetricKind::kValidation, 5, 1, {{"val_loss", 1}},
                   Timestamp(1));
      w.AddValidation({id, 1}, 1, 5, true);
      w.AddCheckpoint(SampleCheckpoint({id, 1}, 5, uuid));
      w.AddSearcherEvent(id, {.seq = 1, .event = {1}, .operations = {2}});
      w.AddSearcherSnapshot(id, 1, {3});
      w.AddRequest(id, std::nullopt, RequestKind::kPause, Timestamp(2));
      w.AddEvaluation({.trial = {id, 1},
                       .checkpoint = uuid,
                       .batches = 5,
                       .split = "test",
                       .data = "/data",
                       .metrics = {{"loss", INFINITY}, {"top1", 0.5}},
                       .seconds = 1.5,
                       .time = Timestamp(3)});
    });
  }
  std::int64_t Rows(const std::string& table) {
    SQLite::Database database(layout_.Database(), SQLite::OPEN_READONLY);
    return database.execAndGet("SELECT count(*) FROM " + table).getInt64();
  }
  void Write(const std::function<void(StoreWriter&)>& body) {
    store_.Write(body);
  }

  TemporaryDirectory directory_;
  StoreLayout layout_{directory_.path() / "store"};
  Store store_ = Store::OpenForWriting(layout_);
};

TEST_F(StoreChangesTest, DeletesAllRowsOfAnExperimentAndNoOther) {
  Write([](StoreWriter& writer) { writer.DeleteExperiment(1); });

  EXPECT_FALSE(store_.Experiment(1).has_value());
  EXPECT_TRUE(store_.Experiment(2)->row.best.has_value());
  EXPECT_EQ(Rows("experiments"), 1);
  EXPECT_EQ(Rows("experiment_details"), 1);
  EXPECT_EQ(Rows("trials"), 2);
  EXPECT_EQ(Rows("metrics"), 1);
  EXPECT_EQ(Rows("experiment_metrics"), 1);
  EXPECT_EQ(Rows("validations"), 1);
  EXPECT_EQ(Rows("checkpoints"), 1);
  EXPECT_EQ(Rows("searcher_events"), 1);
  EXPECT_EQ(Rows("searcher_snapshots"), 1);
  EXPECT_EQ(Rows("requests"), 1);
  EXPECT_EQ(Rows("evaluations"), 1);
  EXPECT_THAT(store_.Problems(), IsEmpty());
}

TEST_F(StoreChangesTest, EvaluationsRoundTrip) {
  const auto rows = store_.Evaluations(2);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].trial, (TrialId{2, 1}));
  EXPECT_EQ(rows[0].checkpoint, "1a1b2c3d");
  EXPECT_EQ(rows[0].batches, 5);
  EXPECT_EQ(rows[0].split, "test");
  EXPECT_EQ(rows[0].data, "/data");
  EXPECT_EQ(rows[0].metrics, (MetricValues{{"loss", INFINITY}, {"top1", 0.5}}));
  EXPECT_EQ(rows[0].seconds, 1.5);
  EXPECT_EQ(rows[0].time, Timestamp(3));
  EXPECT_THAT(store_.Evaluations(2, 2), IsEmpty());
}

TEST_F(StoreChangesTest, IdsAreNeverReused) {
  Write([](StoreWriter& writer) { writer.DeleteExperiment(2); });

  EXPECT_EQ(store_.LastExperimentId(), 2);
  EXPECT_EQ(AddSample(store_, 1), 3);
}

TEST_F(StoreChangesTest, RefusesChangesOfMissingRows) {
  EXPECT_THROW(Write([](StoreWriter& w) { w.DeleteExperiment(9); }), Error);
  EXPECT_THROW(Write([](StoreWriter& w) { w.SetArchived(9, true); }), Error);
  EXPECT_THROW(Write([](StoreWriter& w) { w.SetLabels(9, {}); }), Error);
  EXPECT_THROW(Write([](StoreWriter& w) { w.SetNote(9, "x"); }), Error);
  EXPECT_THROW(Write([](StoreWriter& w) {
                 w.SetConfig(9, {{"name", "x"}, {"description", nullptr}});
               }),
               Error);
}

TEST_F(StoreChangesTest, ReplacesTheConfigurationWithNameAndDescription) {
  nlohmann::json config = {{"name", "b"}, {"description", "c"}};
  Write([&](StoreWriter& writer) { writer.SetConfig(1, config); });
  EXPECT_EQ(store_.Experiment(1)->row.name, "b");
  EXPECT_EQ(store_.Experiment(1)->row.description, "c");
  EXPECT_EQ(store_.Experiment(1)->config, config);

  config["description"] = nullptr;
  Write([&](StoreWriter& writer) { writer.SetConfig(1, config); });
  EXPECT_EQ(store_.Experiment(1)->row.description, "");
}

TEST_F(StoreChangesTest, ArchivesLabelsAndNotes) {
  Write([](StoreWriter& writer) {
    writer.SetArchived(1, true);
    writer.SetLabels(1, {"x", "y z"});
    writer.SetNote(1, "what a night");
  });

  const auto detail = store_.Experiment(1);
  EXPECT_TRUE(detail->row.archived);
  EXPECT_THAT(detail->row.labels, ElementsAre("x", "y z"));
  EXPECT_EQ(detail->note, "what a night");
  EXPECT_EQ(store_.Experiments({}).size(), 1u);
}

TEST_F(StoreChangesTest, ListsTrialsThatHaveAStarOrANote) {
  Write([](StoreWriter& writer) {
    for (std::int64_t number = 101; number <= 104; ++number) {
      writer.AddTrial({.id = {1, number}});
    }
    writer.SetTrialStar({1, 104}, true);
    writer.SetTrialNote({1, 102}, "odd");
    writer.SetTrialStar({1, 101}, true);
    writer.SetTrialStar({1, 101}, false);
  });

  const auto remarks = store_.TrialRemarks(1);
  ASSERT_EQ(remarks.size(), 2u);
  EXPECT_EQ(remarks[0].number, 102);
  EXPECT_FALSE(remarks[0].star);
  EXPECT_EQ(remarks[0].note, "odd");
  EXPECT_EQ(remarks[1].number, 104);
  EXPECT_TRUE(remarks[1].star);
}

TEST_F(StoreChangesTest, RequestsRemainUntilTheyAreDone) {
  std::int64_t kill = 0;
  Write([&](StoreWriter& writer) {
    kill = writer.AddRequest(1, 2, RequestKind::kKill, Timestamp(3));
  });
  const auto open = store_.OpenRequests(1);
  ASSERT_EQ(open.size(), 2u);
  EXPECT_EQ(open[0].kind, RequestKind::kPause);
  EXPECT_EQ(open[0].trial, std::nullopt);
  EXPECT_EQ(open[1].kind, RequestKind::kKill);
  EXPECT_EQ(open[1].trial, 2);
  EXPECT_EQ(open[1].created, Timestamp(3));

  Write([&](StoreWriter& writer) { writer.FinishRequest(kill); });

  EXPECT_EQ(store_.OpenRequests(1).size(), 1u);
}

TEST_F(StoreChangesTest, RepeatedRequestIsStoredOnce) {
  Write([&](StoreWriter& writer) {
    const auto first =
        writer.AddRequest(1, 2, RequestKind::kKill, Timestamp(3));
    EXPECT_EQ(writer.AddRequest(1, 2, RequestKind::kKill, Timestamp(4)), first);
    EXPECT_NE(writer.AddRequest(1, 1, RequestKind::kKill, Timestamp(4)), first);
    EXPECT_NE(
        writer.AddRequest(1, std::nullopt, RequestKind::kKill, Timestamp(4)),
        first);
    writer.FinishRequest(first);
    EXPECT_NE(writer.AddRequest(1, 2, RequestKind::kKill, Timestamp(5)), first);
  });
}

TEST_F(StoreChangesTest, DetectsChangesOfOthers) {
  Store other = Store::OpenForWriting(layout_);
  EXPECT_TRUE(store_.ChangedByOthers()) << "the first look";
  EXPECT_FALSE(store_.ChangedByOthers());
  Write([](StoreWriter& writer) { writer.SetNote(1, "mine"); });
  EXPECT_FALSE(store_.ChangedByOthers());

  other.Write([](StoreWriter& writer) { writer.SetNote(1, "theirs"); });

  EXPECT_TRUE(store_.ChangedByOthers());
  EXPECT_FALSE(store_.ChangedByOthers());
}

TEST_F(StoreChangesTest, VerificationDoesNotRestoreADeletedCheckpoint) {
  const std::string uuid = store_.Checkpoints(1).front().uuid;
  Write([&](StoreWriter& writer) {
    EXPECT_TRUE(writer.SetCheckpointFound(uuid, "CORRUPT"));
  });
  EXPECT_EQ(store_.Checkpoints(1).front().state, "CORRUPT");
  Write([&](StoreWriter& writer) {
    writer.SetCheckpointState(uuid, "DELETED");
    EXPECT_FALSE(writer.SetCheckpointFound(uuid, "COMPLETED"));
  });
  EXPECT_THAT(store_.Checkpoints(1), IsEmpty());
}

TEST(NotificationsTest, AreKeptUntilTheyAreSentOrGivenUp) {
  Store store = Store::OpenForWriting(StoreLayout(":memory:"));
  NewExperiment experiment = SampleExperiment();
  experiment.notify_url = "http://a/b";
  const auto row = [](const std::string& uuid, const std::string& event,
                      const std::string& target) {
    return NotificationRow{.uuid = uuid,
                           .event = event,
                           .target = target,
                           .body = {{"id", uuid}},
                           .created = Timestamp(5)};
  };
  store.Write([&](StoreWriter& writer) {
    writer.AddExperiment(experiment);
    writer.AddNotification(1, row("a", "best", "url"));
    writer.AddNotification(1, row("b", "best", "command"));
    writer.AddNotification(1, row("c", "best", "url"));  // replaces a
    writer.AddNotification(1, row("d", "completed", "url"));
    writer.AddNotification(1, row("e", "completed", "url"));
  });
  const auto uuids = [&] {
    std::vector<std::string> all;
    for (const auto& one : store.Notifications(1)) all.push_back(one.uuid);
    return all;
  };
  EXPECT_THAT(uuids(), testing::ElementsAre("b", "c", "d", "e"));
  EXPECT_THAT(store.UnsentNotifications(), testing::ElementsAre(1));
  EXPECT_EQ(store.NotifyUrl(1), "http://a/b");
  EXPECT_EQ(store.NotifyUrl(2), "");

  store.Write([&](StoreWriter& writer) {
    for (NotificationRow sent : store.Notifications(1)) {
      sent.attempts = 3;
      sent.error = "gone";
      sent.ended = Timestamp(9);
      writer.EndNotification(sent);
    }
    writer.AddNotification(1, row("f", "best", "url"));  // c was sent
  });

  EXPECT_THAT(uuids(), testing::ElementsAre("b", "c", "d", "e", "f"));
  const NotificationRow first = store.Notifications(1).front();
  EXPECT_EQ(first.attempts, 3);
  EXPECT_EQ(first.error, "gone");
  EXPECT_EQ(first.ended, Timestamp(9));
  EXPECT_EQ(first.body, nlohmann::json({{"id", "b"}}));
  store.Write([](StoreWriter& writer) { writer.DeleteExperiment(1); });
  EXPECT_TRUE(store.UnsentNotifications().empty());
  EXPECT_TRUE(store.Problems().empty());
}

}  // namespace

}  // namespace dtrain
