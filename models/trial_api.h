#pragma once

/// What libdtrain_trial.so gives to the trial host. C names, so that nothing
/// else of it need be known.
extern "C" {

/// A trial's whole life in this process, a fresh child of the host: reads its
/// specification from `control_fd`, which it then owns, trains, and gives the
/// exit code: 0 if it ended as completed, stopped or invalid, 1 for an error.
[[gnu::visibility("default")]] int DtrainRunTrial(int control_fd);

/// Opens the CUDA half of LibTorch, for the host of a machine with a GPU:
/// before any trial, so that all children have it. Touches no GPU. 0 if that
/// worked; else the reason is logged, and trials can only have the CPU.
[[gnu::visibility("default")]] int DtrainOpenCuda();

/// Opens a library of a user's models and passes the names of its trials to
/// `say`, as a JSON list, or why it cannot be used; then it gives 1.
[[gnu::visibility("default")]] int DtrainListModels(const char* library,
                                                    void (*print)(const char*));
}
