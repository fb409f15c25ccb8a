#pragma once

#include <cstdint>

#include <nlohmann/json.hpp>

#include "engine/base/length.h"

namespace dtrain {

/// `length` in batches: epochs are what the loader yields; records are divided
/// by `global_batch_size` of `hparams`, at least 1. Zero stays zero. Throws
/// Error(kFailed) if that hyperparameter is needed and missing.
std::int64_t LengthInBatches(Length length, std::int64_t batches_per_epoch,
                             const nlohmann::json& hparams);

/// `global_batch_size` of `hparams`; throws Error(kFailed) if it is missing,
/// no integer, or below 1. `why` says what needs it.
std::int64_t GlobalBatchSize(const nlohmann::json& hparams, const char* why);

}  // namespace dtrain
