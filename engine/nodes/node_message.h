#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/process/launcher.h"
#include "engine/store/trial_log.h"
#include "engine/wire/trial_spec.h"

namespace dtrain {

// What the runner and those who follow it on other machines say to each other:
// a line of JSON each. Texts of trials that are no UTF-8 are made it.

/// Said now and then by both, so that silence means that the other is gone.
struct Alive {};

/// What two processes must have in common to train one model together.
struct NodeIdentity {
  std::string version;        // of dtrain
  std::string configuration;  // a hash of the effective one
  int ranks = 1;              // that it brings to each trial
  bool gpus = false;          // or CPU slots

  friend bool operator==(const NodeIdentity&, const NodeIdentity&) = default;
};

/// What a follower claims to be, see PeerProof.
struct NodeHello {
  int rank = 0;
  int world_size = 1;
  NodeIdentity identity;
  std::int64_t trials = 1;  // that it can have at one time
  std::string host;         // the name of its machine
};
/// Its ranks of a trial have their slots and processes.
struct PartStarted {
  TrialId trial;
};
struct PartPrinted {
  TrialId trial;
  LogRecord record;
};
/// None of its ranks of a trial lives any more.
struct PartEnded {
  TrialExited exited;
  std::optional<Finished> word;
};
/// It was asked to end by a signal.
struct NodeInterrupted {
  int signal = 0;
};
using NodeReport = std::variant<Alive, NodeHello, PartStarted, PartPrinted,
                                PartEnded, NodeInterrupted>;

/// The answer to a hello that cannot be: why not.
struct NodeRefused {
  std::string reason;
};
/// The answer to one that can.
struct NodeWelcomed {};
/// The experiment that is run.
struct ExperimentBegun {
  std::int64_t experiment = 0;
};
struct StartPart {
  TrialSpec spec;
};
struct StopPart {
  TrialId trial;
};
struct KillPart {
  TrialId trial;
};
/// The experiment is over, or paused.
struct Goodbye {};
using NodeOrder =
    std::variant<Alive, NodeRefused, NodeWelcomed, ExperimentBegun, StartPart,
                 StopPart, KillPart, Goodbye>;

/// What the ranks of a trial prove to each other: made of the secret of all
/// processes and of the token of the specification as it is sent, which is no
/// secret. REQUIRES: spec.address.
std::string RankSecret(const std::string& secret, const TrialSpec& spec);

/// A line, newline included.
std::string EncodeReport(const NodeReport& report);
std::string EncodeOrder(const NodeOrder& order);
/// Throw Error(kFailed) for what is none.
NodeReport DecodeReport(const std::string& line);
NodeOrder DecodeOrder(const std::string& line);

}  // namespace dtrain
