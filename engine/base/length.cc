#include "engine/base/length.h"

namespace dtrain {

std::string_view UnitName(Unit unit) {
  switch (unit) {
    case Unit::kBatches:
      return "batches";
    case Unit::kRecords:
      return "records";
    case Unit::kEpochs:
      return "epochs";
  }
  return "batches";
}

}  // namespace dtrain
