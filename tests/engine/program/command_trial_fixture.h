#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/program/command_trial.h"
#include "engine/wire/message.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {

/// A CommandTrial whose program is a shell script of the test, and whose runner
/// is the test: it acknowledges all, and answers as `answer` says.
class CommandTrialTest : public testing::Test {
 protected:
  CommandTrialTest();

  /// Runs the script to its end, with these limits.
  CommandEnd Run(const std::string& script);
  /// The messages of one kind, in their order.
  template <typename Message>
  std::vector<Message> Messages() const {
    std::vector<Message> found;
    for (const TrialMessage& message : messages_) {
      const auto* match = std::get_if<Message>(&message);
      if (match != nullptr) found.push_back(*match);
    }
    return found;
  }
  /// Why the trial ended; empty for one without a last word.
  static std::string EndText(const CommandEnd& end);
  /// Log of the last run.
  std::string Log() const { return log_; }

  TemporaryDirectory directory_;
  TrialSpec spec_;
  CommandLimits limits_;
  bool acknowledges_ = true;
  // The runner dies when it receives such a message.
  std::function<bool(const TrialMessage&)> dies_at_;
  // The runner's answer to a message, if there is one.
  std::function<std::optional<RunnerMessage>(const TrialMessage&)> answer_;

 private:
  void PlayRunner(int socket);

  std::vector<TrialMessage> messages_;
  std::string log_;
};

}  // namespace dtrain
