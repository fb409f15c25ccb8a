#pragma once

/// Marks what of libdtrain_trial.so a user's own model may call: all else in it
/// is hidden.
#define DTRAIN_API [[gnu::visibility("default")]]
