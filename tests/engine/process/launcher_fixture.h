#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/process/local_launcher.h"
#include "tests/support/patience.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {

/// A store and a runtime directory of the test's own, and launchers with real
/// processes, forked by the fake trial host.
class LauncherFixture : public ::testing::Test {
 protected:
  static constexpr Duration kLong = std::chrono::minutes(2);

  LauncherFixture();
  ~LauncherFixture() override;

  /// The number of this test's experiment, which no other process has.
  static std::int64_t Experiment();
  /// `count` CPU slots of one token each.
  LocalLauncherOptions Options(std::int64_t count = 1) const;
  TrialSpec Spec(const std::string& behaviour, std::int64_t number = 1,
                 nlohmann::json hparams = nlohmann::json::object()) const;
  /// One trial of two ranks on a CPU slot each, and its specification, in which
  /// rank `at` (−1: each) has that behaviour and the others that of `others`.
  LocalLauncherOptions TwoRankOptions() const;
  TrialSpec TwoRanks(const std::string& behaviour, int at = -1,
                     const std::string& others = "hang",
                     nlohmann::json hparams = nlohmann::json::object()) const;
  std::string Log(TrialId trial) const;

  /// Waits for the next event of type T; those before it are kept in `seen`.
  /// Fails the test if it does not come.
  template <typename T>
  T Await(Launcher& launcher) {
    const Duration deadline = Clock::System().monotonic() + Patient(kLong);
    while (Clock::System().monotonic() < deadline) {
      LaunchEvent event = launcher.Wait(std::chrono::milliseconds(100));
      if (T* wanted = std::get_if<T>(&event)) return *wanted;
      if (!std::holds_alternative<Idle>(event)) seen.push_back(event);
    }
    ADD_FAILURE() << "the event did not come";
    return T{};
  }
  /// Waits for the next message of type T.
  template <typename T>
  T AwaitMessage(Launcher& launcher) {
    while (!HasFailure()) {
      const MessageReceived said = Await<MessageReceived>(launcher);
      if (const T* wanted = std::get_if<T>(&said.message)) return *wanted;
    }
    return T{};
  }

  std::vector<LaunchEvent> seen;
  TemporaryDirectory directory;
};

/// The processes that live and were started for `experiment`, hosts included.
std::vector<std::int64_t> LivingProcesses(std::int64_t experiment);

/// Whether that becomes true within `limit`, looking now and again.
bool Within(Duration limit, const std::function<bool()>& condition);

std::size_t OpenDescriptors();

}  // namespace dtrain
