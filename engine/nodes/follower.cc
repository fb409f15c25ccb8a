#include "engine/nodes/follower.h"

#include <memory>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/nodes/runner_link.h"

namespace dtrain {
namespace {

std::string HelloOf(const FollowerOptions& options) {
  return EncodeReport(NodeHello{.rank = options.env.rank,
                                .world_size = options.env.world_size,
                                .identity = options.identity,
                                .trials = options.launcher.slots.count,
                                .host = options.host});
}

std::unique_ptr<RunnerLink> Join(const FollowerOptions& options,
                                 const std::string& name) {
  // An invalid secret is an error before there is a runner.
  (void)options.secret.Read();
  if (options.notice) {
    options.notice(name + "waiting for the runner, RANK=0, at " +
                   EscapeForTerminal(ToString(options.env.runner)));
  }
  return JoinRunner(
      {.runner = options.env.runner,
       .secret = options.secret,
       .claim = HelloOf(options),
       .name = name,
       .address = "MASTER_ADDR, MASTER_PORT",
       .start_there = "start the same command with RANK=0 there",
       .same_secret = "give all processes the same store (--store), or set "
                      "DTRAIN_SECRET_FILE for all to a file of 32 random bytes "
                      "that only you can read",
       .loss_advice = "resume the experiment there with RANK=0, and start this "
                      "command again",
       .clock = options.launcher.clock,
       .patience = options.patience,
       .secret_patience = options.secret_patience,
       .notice = options.notice});
}

}  // namespace

int Follow(FollowerOptions options) {
  const std::string name = "RANK=" + std::to_string(options.env.rank) + ": ";
  const std::unique_ptr<RunnerLink> link = Join(options, name);
  if (options.notice) options.notice("following " + link->peer());
  link->Joined();
  const NodeOrder first = link->Await();
  if (std::holds_alternative<ShutdownNode>(first)) return 0;
  const auto* begun = std::get_if<ExperimentStarted>(&first);
  if (begun == nullptr) {
    throw Error(ErrorKind::kFailed,
                link->peer() + " sent an order before its experiment");
  }
  options.launcher.experiment = begun->experiment;
  return RemoteTrials(*link, {.name = name,
                              .roots = std::move(options.roots),
                              .launcher = std::move(options.launcher),
                              .answer_patience = options.answer_patience,
                              .notice = std::move(options.notice)})
      .Run();
}

}  // namespace dtrain
