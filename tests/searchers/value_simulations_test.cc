// Searches with given metrics, as recorded: the operations are carried out in
// the order in which they were given, and the searcher is saved and brought
// back after every event.

#include <deque>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "searchers/registry.h"
#include "tests/support/golden.h"

namespace dtrain {
namespace {

using nlohmann::json;

constexpr int kCases = 12;

class ValueSimulationTest : public testing::TestWithParam<int> {
 protected:
  ValueSimulationTest()
      : given_(ReadGolden("upstream_value_simulations_0.37.0.json")
                   .at("cases")
                   .at(GetParam())) {}

  std::unique_ptr<Searcher> NewSearcher() const {
    return MakeSearcher(RecordedConfig(given_.at("searcher")), json::object(),
                        /*seed=*/1);
  }

  void Send(const Event& event) {
    for (const Operation& operation : searcher_->Handle(event)) {
      pending_.push_back(operation);
    }
    const json state = json::parse(searcher_->Save().dump());
    searcher_ = NewSearcher();
    searcher_->Load(state);
  }

  void Carry(const Operation& operation) {
    if (std::get_if<Create>(&operation)) {
      lengths_.push_back(json::array());
    } else if (const auto* more = std::get_if<ValidateAfter>(&operation)) {
      Validate(*more);
    } else if (const auto* close = std::get_if<Close>(&operation)) {
      if (!exited_.contains(std::to_string(close->trial))) {
        Send(Closed{close->trial});
      }
    } else {
      ++shutdowns_;
    }
  }

  void Validate(const ValidateAfter& more) {
    const auto trial = static_cast<std::size_t>(more.trial);
    json& done = lengths_.at(trial);
    const json& expected = given_.at("expected_trials").at(trial);
    const std::size_t index = done.size();
    done.push_back(more.length);
    if (expected.at("early_exit_at_op") == index) {
      exited_[std::to_string(more.trial)] = true;
      return Send(ExitedEarly{more.trial, ExitReason::kUserStop});
    }
    Send(ValidationCompleted{more.trial, more.length,
                             expected.at("metrics").at(index)});
  }

  json given_;
  std::unique_ptr<Searcher> searcher_;
  std::deque<Operation> pending_;
  json lengths_ = json::array();
  json exited_ = json::object();
  int shutdowns_ = 0;
};

TEST_P(ValueSimulationTest, TrainsTheRecordedLengths) {
  searcher_ = NewSearcher();

  Send(Started{});
  while (!pending_.empty()) {
    const Operation operation = pending_.front();
    pending_.pop_front();
    Carry(operation);
  }

  json expected = json::array();
  for (const json& trial : given_.at("expected_trials")) {
    expected.push_back(trial.at("ops"));
  }
  EXPECT_EQ(lengths_, expected);
  EXPECT_EQ(shutdowns_, 1);
  EXPECT_EQ(searcher_->Progress(), 1);
}

INSTANTIATE_TEST_SUITE_P(All, ValueSimulationTest, testing::Range(0, kCases));

}  // namespace
}  // namespace dtrain
