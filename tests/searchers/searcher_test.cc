#include "searchers/searcher.h"

#include <cmath>
#include <limits>
#include <stdexcept>

#include <gtest/gtest.h>

namespace dtrain {
namespace {

using nlohmann::json;

TEST(SearcherRecordTest, OperationsRoundTrip) {
  const Operation create =
      Create{3, "bcae4199-142c-4b98-a6d6-f02779182272", {{"lr", 0.1}}, 7};

  EXPECT_EQ(OperationFromJson(ToJson(create)), create);
  EXPECT_EQ(OperationFromJson(ToJson(Operation(ValidateAfter{3, 900}))),
            Operation(ValidateAfter{3, 900}));
  EXPECT_EQ(OperationFromJson(ToJson(Operation(ValidateAfter{3, 900, 5}))),
            Operation(ValidateAfter{3, 900, 5}));
  EXPECT_EQ(OperationFromJson(ToJson(Operation(Close{3}))),
            Operation(Close{3}));
  EXPECT_EQ(OperationFromJson(ToJson(Operation(Shutdown{true}))),
            Operation(Shutdown{true}));
}

TEST(SearcherRecordTest, EventsRoundTrip) {
  const Event event =
      EventFromJson(ToJson(Event(ExitedEarly{4, ExitReason::kInvalidHp})));

  const auto* early = std::get_if<ExitedEarly>(&event);
  ASSERT_NE(early, nullptr);
  EXPECT_EQ(early->trial, 4);
  EXPECT_EQ(early->reason, ExitReason::kInvalidHp);
  const Event added = EventFromJson(ToJson(Event(PlacesAdded{8})));
  EXPECT_EQ(std::get<PlacesAdded>(added).ahead, 8);
}

TEST(SearcherRecordTest, EveryReasonToExitRoundTrips) {
  const auto there_and_back = [](ExitReason reason) {
    const Event event = EventFromJson(ToJson(Event(ExitedEarly{4, reason})));
    return std::get<ExitedEarly>(event).reason;
  };

  EXPECT_EQ(there_and_back(ExitReason::kErrored), ExitReason::kErrored);
  EXPECT_EQ(there_and_back(ExitReason::kInvalidHp), ExitReason::kInvalidHp);
  EXPECT_EQ(there_and_back(ExitReason::kUserStop), ExitReason::kUserStop);
}

TEST(SearcherRecordTest, InfinitiesKeepTheirSign) {
  const double infinity = std::numeric_limits<double>::infinity();
  const auto there_and_back = [](double metric) {
    const Event event =
        EventFromJson(ToJson(Event(ValidationCompleted{0, 100, metric})));
    return std::get<ValidationCompleted>(event).metric;
  };

  EXPECT_EQ(there_and_back(infinity), infinity);
  EXPECT_EQ(there_and_back(-infinity), -infinity);
}

TEST(SearcherRecordTest, SecondsRoundTripAndAreOptional) {
  const auto seconds = [](const json& record) {
    return std::get<ValidationCompleted>(EventFromJson(record)).seconds;
  };
  const json timed = ToJson(Event(ValidationCompleted{0, 100, 0.5, 1.25}));
  const json earlier = {{"event", "validation_completed"},
                        {"trial", 0},
                        {"length", 100},
                        {"metric", 0.5}};

  EXPECT_EQ(seconds(timed), 1.25);
  EXPECT_EQ(seconds(earlier), 0);
  EXPECT_EQ(ToJson(Event(ValidationCompleted{0, 100, 0.5})), earlier);
}

TEST(SearcherRecordTest, NanRoundTrips) {
  const double nan = std::numeric_limits<double>::quiet_NaN();

  const json text = ToJson(Event(ValidationCompleted{0, 100, nan}));
  const Event event = EventFromJson(json::parse(text.dump()));

  EXPECT_EQ(text.at("metric"), "NaN");
  EXPECT_TRUE(std::isnan(std::get<ValidationCompleted>(event).metric));
}

TEST(SearcherRecordTest, RefusesInvalidRecords) {
  EXPECT_THROW(EventFromJson({{"event", "dance"}, {"trial", 1}}),
               std::invalid_argument);
  EXPECT_THROW(EventFromJson({{"event", "closed"}}), std::invalid_argument);
  EXPECT_THROW(OperationFromJson({{"operation", "close"}, {"trial", "x"}}),
               std::invalid_argument);
}

}  // namespace
}  // namespace dtrain
