#pragma once

/// Exports a symbol of libdtrain_trial.so to users' models; all other symbols
/// of the library are hidden.
#define DTRAIN_API [[gnu::visibility("default")]]
