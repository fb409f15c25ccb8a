#include "engine/train/gpu_memory.h"

#include <algorithm>

#include "engine/base/text.h"

namespace dtrain {

std::string OutOfMemoryMessage(const GpuMemory& memory) {
  const std::int64_t others =
      std::max<std::int64_t>(memory.total - memory.free - memory.reserved, 0);
  std::string message = "the GPU is out of memory: of " +
                        FormatBytes(memory.total) + ", this trial has " +
                        FormatBytes(memory.reserved) + " (tensors " +
                        FormatBytes(memory.allocated) + ")";
  if (memory.limit > 0) {
    message += " of the " + FormatBytes(memory.limit) + " of its share";
  }
  message += ", others and the driver " + FormatBytes(others) + ", and " +
             FormatBytes(memory.free) + " are free; ";
  const bool is_crowded = others > memory.reserved && memory.limit == 0;
  if (is_crowded) message += "`nvidia-smi` says who has the rest, or ";
  return message +
         "lower global_batch_size (aggregation_frequency makes up for it), set "
         "optimizations.mixed_precision to bf16 or optimizations.cuda_graphs "
         "to "
         "false, or take a smaller model";
}

}  // namespace dtrain
