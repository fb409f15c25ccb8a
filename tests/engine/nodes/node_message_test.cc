#include "engine/nodes/node_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"

namespace dtrain {
namespace {

using testing::ElementsAre;

constexpr TrialId kTrial{.experiment = 3, .number = 7};

template <typename T>
T Again(const T& report) {
  return std::get<T>(DecodeReport(EncodeReport(report)));
}

template <typename T>
T AgainAsOrder(const T& order) {
  return std::get<T>(DecodeOrder(EncodeOrder(order)));
}

TEST(NodeMessageTest, HelloRoundTrips) {
  const WorkerHello hello =
      Again(WorkerHello{.version = "1.2",
                        .host = "box",
                        .claim = RankClaim{.rank = 1,
                                           .world_size = 4,
                                           .configuration = "ab12",
                                           .ranks = 8,
                                           .gpus = true}});

  EXPECT_EQ(hello.version, "1.2");
  EXPECT_EQ(hello.host, "box");
  ASSERT_TRUE(hello.claim);
  EXPECT_EQ(hello.claim->rank, 1);
  EXPECT_EQ(hello.claim->world_size, 4);
  EXPECT_EQ(hello.claim->configuration, "ab12");
  EXPECT_EQ(hello.claim->ranks, 8);
  EXPECT_TRUE(hello.claim->gpus);
  EXPECT_FALSE(Again(WorkerHello{}).claim);
}

TEST(NodeMessageTest, EndRoundTrips) {
  const ShardEnded ended =
      Again(ShardEnded{.exited = {.trial = kTrial,
                                  .exit_code = -1,
                                  .signal = 9,
                                  .rank = 2,
                                  .killed_by_us = true,
                                  .out_of_memory = true,
                                  .not_started = "no such program",
                                  .last_lines = {"a", "b"},
                                  .last_error_line = "b"},
                       .finished = Finished{.reason = EndReason::kError,
                                            .message = "no luck",
                                            .unread = {"lr"}}});

  EXPECT_EQ(ended.exited.trial, kTrial);
  EXPECT_EQ(ended.exited.exit_code, -1);
  EXPECT_EQ(ended.exited.signal, 9);
  EXPECT_EQ(ended.exited.rank, 2);
  EXPECT_TRUE(ended.exited.killed_by_us);
  EXPECT_TRUE(ended.exited.out_of_memory);
  EXPECT_EQ(ended.exited.not_started, "no such program");
  EXPECT_THAT(ended.exited.last_lines, ElementsAre("a", "b"));
  EXPECT_EQ(ended.exited.last_error_line, "b");
  ASSERT_TRUE(ended.finished);
  EXPECT_EQ(ended.finished->reason, EndReason::kError);
  EXPECT_EQ(ended.finished->message, "no luck");
  EXPECT_THAT(ended.finished->unread, ElementsAre("lr"));
}

TEST(NodeMessageTest, RefusesTooDeepNesting) {
  std::string line = EncodeReport(ShardEnded{.exited = {.trial = kTrial}});
  const auto lines = line.find("\"last_lines\":[]");
  ASSERT_NE(lines, std::string::npos);
  line.replace(lines, 15,
               "\"last_lines\":" + std::string(400'000, '[') +
                   std::string(400'000, ']'));
  EXPECT_THROW(DecodeReport(line), Error);
}

TEST(NodeMessageTest, EndWithoutAFinalMessageRoundTrips) {
  EXPECT_FALSE(Again(ShardEnded{.exited = {.trial = kTrial}}).finished);
}

TEST(NodeMessageTest, PrintedBytesRoundTrip) {
  const ShardPrinted printed =
      Again(ShardPrinted{.trial = kTrial,
                         .record = {.time = Timestamp(5),
                                    .rank = 1,
                                    .from_stderr = true,
                                    .level = LogLevel::kWarning,
                                    .partial = true,
                                    .text = "\xff \n \x01"}});

  EXPECT_EQ(printed.trial, kTrial);
  EXPECT_EQ(printed.record.time, Timestamp(5));
  EXPECT_EQ(printed.record.rank, 1);
  EXPECT_TRUE(printed.record.from_stderr);
  EXPECT_TRUE(printed.record.partial);
  EXPECT_EQ(printed.record.level, LogLevel::kWarning);
  EXPECT_EQ(printed.record.text, "\xEF\xBF\xBD \n \x01");
}

TEST(NodeMessageTest, SpecificationRoundTripsWithItsAddress) {
  const TrialSpec spec{
      .id = kTrial,
      .rank = 2,
      .world_size = 4,
      .address = RankAddress{
          .host = "node1", .port = 4000, .token = "t", .ranks_here = 2}};

  const StartShard start = AgainAsOrder(StartShard{spec});

  EXPECT_EQ(Encode(start.spec), Encode(spec));

  ASSERT_TRUE(start.spec.address);
  EXPECT_EQ(start.spec.address->host, "node1");
  EXPECT_EQ(start.spec.address->port, 4000);
  EXPECT_EQ(start.spec.address->ranks_here, 2);
  EXPECT_EQ(start.spec.rank, 2);
}

TEST(NodeMessageTest, SmallMessagesRoundTrip) {
  EXPECT_NO_THROW(Again(Alive{}));
  EXPECT_EQ(Again(ShardStarted{kTrial}).trial, kTrial);
  EXPECT_EQ(Again(ShardStarted{.trial = kTrial, .port = 4000}).port, 4000);
  EXPECT_EQ(Again(WorkerReady{.slots = 3}).slots, 3);
  EXPECT_NO_THROW(AgainAsOrder(Alive{}));
  EXPECT_EQ(AgainAsOrder(NodeRefused{"too late"}).reason, "too late");
  EXPECT_NO_THROW(AgainAsOrder(NodeAccepted{}));
  EXPECT_TRUE(
      AgainAsOrder(StartShard{.spec = {.id = kTrial}, .led_by_runner = true})
          .led_by_runner);
  EXPECT_EQ(AgainAsOrder(StopShard{kTrial}).trial, kTrial);
  EXPECT_EQ(AgainAsOrder(KillShard{kTrial}).trial, kTrial);
  EXPECT_NO_THROW(AgainAsOrder(ShutdownNode{}));
}

TEST(NodeMessageTest, AcceptsOnlyTerminatingSignals) {
  EXPECT_EQ(Again(WorkerDraining{"", 15}).signal, 15);
  for (const int signal : {-5, 9, 64, 1000}) {
    EXPECT_THROW(Again(WorkerDraining{"", signal}), Error) << signal;
  }
}

TEST(NodeMessageTest, RefusesAnImpossibleEnd) {
  const auto end = [](int exit_code, int signal) {
    return Again(ShardEnded{
        .exited = {.trial = kTrial, .exit_code = exit_code, .signal = signal}});
  };
  EXPECT_NO_THROW(end(255, 0));
  EXPECT_NO_THROW(end(-1, 64));
  EXPECT_THROW(end(256, 0), Error);
  EXPECT_THROW(end(-2, 0), Error);
  EXPECT_THROW(end(-1, -5), Error);
  EXPECT_THROW(end(-1, 65), Error);
}

TEST(NodeMessageTest, SecretOfTheRanksIsNotSent) {
  TrialSpec spec{.id = kTrial};
  spec.address = RankAddress{.host = "node1", .token = "t"};
  const std::string mine = RankSecret("secret", spec);

  EXPECT_EQ(RankSecret("secret", spec), mine);
  EXPECT_NE(RankSecret("other", spec), mine);
  spec.address->token = "u";
  EXPECT_NE(RankSecret("secret", spec), mine);
}

TEST(NodeMessageTest, NonsenseIsAnError) {
  for (
      const std::string line :
      {"", "GET / HTTP/1.1", "[]", "{}", R"({"type":5})", R"({"type":"bye"})",
       R"({"type":"hello","rank":"x"})", R"({"type":"ended","trial":{}})",
       R"({"type":"printed","trial":{"experiment":1,"trial":2},"time":1,"rank":0,"stderr":true,)"
       R"("level":"loud","partial":false,"text":""})",
       R"({"type":"start","spec":{}})"}) {
    EXPECT_THROW(DecodeReport(line), Error) << line;
    EXPECT_THROW(DecodeOrder(line), Error) << line;
  }
}

}  // namespace
}  // namespace dtrain
