#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/base/length.h"
#include "engine/wire/trainer_settings.h"

namespace dtrain {

/// A trial as users name it: experiment 3, trial 7 is "3.7".
struct TrialId {
  std::int64_t experiment = 0;
  std::int64_t number = 0;  // from 1

  friend auto operator<=>(const TrialId&, const TrialId&) = default;
};

/// "EXP.N".
std::string ToString(TrialId id);

/// In the environment of a rank of several: the number of the descriptor that
/// they meet by, see engine/ranks/meeting_place.h: the memory that it shares
/// with the others or, of rank 0 of a trial on several machines, the socket
/// that the others connect to.
inline constexpr const char* kRankMeetingVariable = "DTRAIN_RANK_MEETING";

/// How the ranks of one start of a trial on several machines find each other.
struct RankAddress {
  std::string host;  // of rank 0
  int port = 0;
  // A secret of theirs; between the machines a random text of which it is made.
  std::string token;
  int ranks_here = 1;  // of this machine, from the specification's rank on
};

/// What a trial process is started for.
enum class Task {
  kTrain,
  // To apply the model of `warm_start` to one of its sets: it sends Progress
  // and, to evaluate, one ValidationReport; to predict, it writes what the
  // model says or, of features, what it makes of each sample.
  kEvaluate,
  kPredict,
  kFeatures,
  // Only to see that the model takes the weights of `warm_start`.
  kLoad,
};

/// All that a trial process is told when it starts: the first line on its
/// control socket.
struct TrialSpec {
  TrialId id;
  Task task = Task::kTrain;
  // Of all but kTrain: "training", "validation" or "test", and how many samples
  // of it at most; 0: all.
  std::string split;
  std::int64_t limit = 0;
  // Images to predict on in place of a split: a file that holds their paths,
  // each ended by a zero byte. Or empty.
  std::string images;
  std::int64_t run = 0;  // 0 in the trial's first process; restarts count up
  std::string entrypoint;
  // The library that the entrypoint is in, absolute; empty: it is one of the
  // compiled-in trials.
  std::string library;
  // A program and its arguments, instead of a trial that is compiled in, and
  // the directory that it is executed in.
  std::vector<std::string> command;
  std::string context;
  // The stored context that `context`, the trial's own copy of it, is made from
  // where it is not there; empty: `context` is a directory of the user's.
  std::string master;
  nlohmann::json hparams = nlohmann::json::object();
  nlohmann::json data = nlohmann::json::object();
  std::uint32_t seed = 0;
  // A trial of several ranks is that many processes; each is told of its own.
  int rank = 0;
  int world_size = 1;
  std::optional<RankAddress> address;  // none: all are on this machine
  int threads = 1;                     // intra-op threads
  std::vector<int> gpus;  // ordinals of this rank's devices; empty: CPU
  double gpu_share = 1;   // of its one GPU, which other trials may share
  std::string directory;  // the trial's own, absolute
  // Holds its checkpoints, absolute; empty: checkpoints/ in `directory`.
  std::string checkpoints;
  std::string restore;  // UUID of the checkpoint to go on from, or empty
  // Directory of a checkpoint to begin from with counters at 0, or empty.
  std::string warm_start;
  // Operations completed before, ascending. Those beyond `restore` are carried
  // out again, as they were and untold: what they reported is lost with the
  // checkpoints that came after it.
  std::vector<Length> completed;
  // The operation to begin with: train to this absolute length.
  std::optional<Length> until;
  TrainerSettings settings;

  /// The directory of its checkpoint `uuid`.
  std::string CheckpointPath(const std::string& uuid) const;

  nlohmann::json ToJson() const;
  /// Throws Error(kFailed) for what `ToJson` did not write.
  static TrialSpec FromJson(const nlohmann::json& json);
};

}  // namespace dtrain
