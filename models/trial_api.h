#pragma once

/// C functions of libdtrain_trial.so for the trial host, which needs no other
/// header of it.
extern "C" {

/// Runs a whole trial in this process, a fresh child of the host: reads its
/// specification from `control_fd`, which it then owns, trains, and returns the
/// exit code: 0 if the trial is completed, stopped or invalid, 1 for an error.
[[gnu::visibility("default")]] int DtrainRunTrial(int control_fd);

/// Loads LibTorch's CUDA half, for the host of a machine with a GPU: before any
/// trial, so that all children have it. Touches no GPU. Returns 0 if that
/// worked; otherwise the reason is logged, and trials can only use the CPU.
[[gnu::visibility("default")]] int DtrainOpenCuda();

/// Opens a library of a user's models and passes the names of its models to
/// `print`, as a JSON list, or the reason why it cannot be used; then returns
/// 1.
[[gnu::visibility("default")]] int DtrainListModels(const char* library,
                                                    void (*print)(const char*));
}
