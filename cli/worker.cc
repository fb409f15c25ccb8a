#include "engine/app/worker.h"

#include <memory>

#include "cli/command_line.h"
#include "cli/commands.h"

namespace dtrain {

CommandRun SetUpWorker(CLI::App& app) {
  auto request = std::make_shared<WorkerRequest>();
  AddOption(app, "--connect", request->connect,
            "Address of the runner, as it prints it")
      .TypeName("HOST:PORT")
      .Required();
  AddOption(app, "--experiment", request->experiment,
            "Experiment whose key in the store proves the connection (default: "
            "the key is in the file that DTRAIN_SECRET_FILE names)")
      .TypeName("ID")
      .AtLeast(1);
  AddOption(app, "--slots", request->slots,
            "Slots to offer: auto, all, none, cpu, cpu:N, gpu:N, most_free, or "
            "GPU numbers such as [0,1] (default: what the experiment uses)")
      .TypeName("SLOTS")
      .Suggests({"auto", "all", "none", "cpu", "most_free"});
  AddOption(app, "--name", request->name,
            "Name to show (default: Slurm's name of the node, or that of this "
            "machine)")
      .TypeName("NAME");
  AddOption(app, "--job", request->job,
            "Job that started it, to show (default: SLURM_JOB_ID)")
      .TypeName("JOB");
  AddOption(app, "--until", request->until,
            "End of this machine's time, or a duration from now such as 4h "
            "(default: SLURM_JOB_END_TIME)")
      .TypeName("TIME");
  AddOption(app, "--grace", request->grace,
            "Pause the trials so long before --until (default: 120s)")
      .TypeName("DURATION");
  AddOption(app, "--idle-timeout", request->idle_timeout,
            "Exit after so long without a trial")
      .TypeName("DURATION");
  AddOption(app, "--connect-timeout", request->patience,
            "Give up if no runner answers for so long (default: 5m)")
      .TypeName("DURATION");
  SetHelp(app,
          {.notes = "SIGTERM, SIGINT or SIGUSR2 pauses its trials, which "
                    "continue elsewhere, and ends it.",
           .exits = {{kExitDone,
                      "the experiment has ended, or it was asked to "
                      "exit"},
                     {kExitFailed,
                      "no runner answered, or the connection to it was lost"},
                     {kExitUsage, "the runner rejected it"},
                     {kExitNotFound},
                     {kExitResources, "this machine has too few slots"}},
           .examples = {
               {"Offer this machine's slots to a runner on node1",
                "dtrain worker --connect node1:29600 --experiment 3"},
               {"Offer two GPUs for four hours",
                "dtrain worker --connect node1:29600 --experiment 3 --slots "
                "gpu:2 --until 4h"}}});
  return RunWith(RunWorker, request);
}

}  // namespace dtrain
