#include "engine/config/schema.h"

// The keys of `optimizations` and `early_stopping`.

namespace dtrain {
namespace {

using enum KeyType;

constexpr KeySpec kTrainingKeys[] = {
    {.path = "optimizations",
     .type = kSection,
     .doc = "How the trainer steps."},
    {.path = "optimizations.aggregation_frequency",
     .type = kInt,
     .fallback = "1",
     .doc = "Batches whose gradients are summed up for one optimizer step.",
     .least = 1,
     .most = 1'000'000},
    {.path = "optimizations.average_aggregated_gradients",
     .type = kBool,
     .fallback = "true",
     .doc = "Divide that sum by the number of batches."},
    {.path = "optimizations.average_training_metrics",
     .type = kBool,
     .fallback = "true",
     .doc = "Average training metrics over ranks and batches."},
    {.path = "optimizations.mixed_precision",
     .type = kWord,
     .fallback = R"("none")",
     .doc = "The type that forward and backward passes compute in.",
     .words = "none bf16 fp16 O0=none O1=fp16",
     .substitutes = "O2=O1 O3=O1"},
    {.path = "optimizations.loss_scale",
     .type = kLossScale,
     .doc = "The scale of the loss under fp16; without it, dynamic."},
    {.path = "optimizations.clip_gradients",
     .type = kOptionalSection,
     .doc = "Clip gradients before each optimizer step, by one of these."},
    {.path = "optimizations.clip_gradients.norm",
     .type = kNumber,
     .doc = "The largest 2-norm of all gradients together.",
     .above_least = true},
    {.path = "optimizations.clip_gradients.value",
     .type = kNumber,
     .doc = "The largest absolute value of a gradient.",
     .above_least = true},
    {.path = "optimizations.sink_size",
     .type = kInt,
     .fallback = "0",
     .doc = "Sink the data: so many steps in one go, which are an epoch; −1: "
            "the whole set; 0: do not.",
     .least = -1,
     .most = 1'000'000'000},
    {.path = "optimizations.dataset_sink_mode",
     .type = kBool,
     .fallback = "true",
     .doc = "Whether `sink_size` is obeyed."},
    {.path = "optimizations.channels_last",
     .type = kSwitch,
     .fallback = R"("auto")",
     .doc = "Whether convolutions keep the channels of images last; auto: "
            "those of networks with many."},
    {.path = "optimizations.cuda_graphs",
     .type = kSwitch,
     .fallback = R"("auto")",
     .doc = "Whether a GPU's steps are captured whole, as a CUDA graph, and "
            "replayed; auto: where the trial says that they can be."},
    {.path = "optimizations.update_in_backward",
     .type = kBool,
     .fallback = "false",
     .doc = "Step each parameter as soon as its gradient is there, which "
            "saves the memory of the gradients."},
    {.path = "early_stopping",
     .type = kOptionalSection,
     .doc = "Ends a trial whose metric has stopped getting better."},
    {.path = "early_stopping.metric",
     .type = kText,
     .doc = "The validation metric to watch; without it, the searcher's.",
     .least = 1,
     .most = 1000},
    {.path = "early_stopping.patience",
     .type = kInt,
     .doc = "Validations in a row without getting better.",
     .least = 1,
     .most = 1'000'000,
     .required = true},
    {.path = "early_stopping.min_delta",
     .type = kNumber,
     .fallback = "0",
     .doc = "Getting better by less than this does not count."},
    {.path = "early_stopping.smaller_is_better",
     .type = kBool,
     .doc = "Whether a smaller metric is better; without it, as the searcher "
            "has it for its metric, else true."},
};

}  // namespace

std::span<const KeySpec> TrainingKeys() { return kTrainingKeys; }

}  // namespace dtrain
