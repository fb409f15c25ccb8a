#pragma once

namespace dtrain {

/// Runs one trial that is a command, in a process of its own: reads its
/// TrialSpec as the first line of the control socket, gives the exit code, or
/// ends by the signal that ended the program. TrialHostHooks::run_trial of the
/// command host.
int RunCommandTrial(int control_fd);

}  // namespace dtrain
