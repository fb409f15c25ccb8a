#include "engine/train/batch_length.h"

#include <algorithm>
#include <string>

#include "engine/base/error.h"

namespace dtrain {

std::int64_t GlobalBatchSize(const nlohmann::json& hparams, const char* why) {
  const auto found = hparams.find("global_batch_size");
  if (found == hparams.end()) {
    throw Error(ErrorKind::kFailed,
                "hyperparameter 'global_batch_size' is missing; " +
                    std::string(why) + ": add it under 'hyperparameters'");
  }
  if (!found->is_number_integer() || found->get<std::int64_t>() < 1) {
    throw Error(ErrorKind::kFailed,
                "hyperparameter 'global_batch_size': expected an integer of "
                "at least 1, got " +
                    found->dump());
  }
  return found->get<std::int64_t>();
}

std::int64_t LengthInBatches(Length length, std::int64_t batches_per_epoch,
                             const nlohmann::json& hparams) {
  if (length.count == 0) return 0;
  switch (length.unit) {
    case Unit::kBatches:
      return length.count;
    case Unit::kEpochs:
      return length.count * batches_per_epoch;
    case Unit::kRecords:
      return std::max<std::int64_t>(
          length.count /
              GlobalBatchSize(hparams, "a length in records is divided by it"),
          1);
  }
  return length.count;
}

}  // namespace dtrain
