#include "engine/config/schema.h"

// The keys of `searcher`.

namespace dtrain {
namespace {

using enum KeyType;

constexpr std::string_view kAsha = "async_halving adaptive_asha";
constexpr std::string_view kParallel =
    "random grid async_halving adaptive_asha";
constexpr std::string_view kSampling = "random async_halving adaptive_asha";

constexpr KeySpec kSearcherKeys[] = {
    {.path = "searcher",
     .type = kSection,
     .doc = "Which trials are run, and for how long.",
     .required = true},
    {.path = "searcher.name",
     .type = kWord,
     .doc = "The search method; asha is async_halving.",
     .required = true,
     .words = "single random grid async_halving asha=async_halving "
              "adaptive_asha",
     .substitutes = "adaptive=adaptive_asha adaptive_simple=adaptive_asha "
                    "sync_halving=async_halving"},
    {.path = "searcher.metric",
     .type = kText,
     .doc = "The validation metric that decides what is best.",
     .least = 1,
     .most = 1000,
     .required = true},
    {.path = "searcher.smaller_is_better",
     .type = kBool,
     .fallback = "true",
     .doc = "Whether a smaller metric is better."},
    {.path = "searcher.max_length",
     .type = kLength,
     .doc = "How long a trial trains at most. Required, but for max_time; "
            "commands under single, random and grid may leave it out."},
    {.path = "searcher.max_time",
     .type = kInt,
     .doc = "Instead of max_length: so many of what time_metric names.",
     .least = 1},
    {.path = "searcher.time_metric",
     .type = kWord,
     .doc = "What max_time counts.",
     .words = "batches records epochs",
     .instead = "dtrain counts nothing else: give the length by max_length"},
    {.path = "searcher.max_trials",
     .type = kInt,
     .doc = "How many trials there are in all.",
     .least = 1,
     .most = 1'000'000,
     .required = true,
     .searchers = kSampling},
    {.path = "searcher.max_concurrent_trials",
     .type = kInt,
     .fallback = "16",
     .doc = "How many trials run at once; 0: no bound.",
     .most = 1'000'000,
     .searchers = kParallel},
    {.path = "searcher.num_rungs",
     .type = kInt,
     .doc = "How many rungs there are; by default as many as max_length and "
            "max_trials have room for, at most 5.",
     .least = 1,
     .most = 64,
     .searchers = "async_halving"},
    {.path = "searcher.divisor",
     .type = kNumber,
     .fallback = "4",
     .doc = "One of so many trials goes on to the next rung.",
     .least = 1,
     .most = 1'000'000,
     .above_least = true,
     .searchers = kAsha},
    {.path = "searcher.stop_once",
     .type = kBool,
     .fallback = "false",
     .doc = "Stop trials for good, instead of pausing and promoting them.",
     .searchers = kAsha},
    {.path = "searcher.mode",
     .type = kWord,
     .fallback = R"("standard")",
     .doc = "How early trials are given up.",
     .words = "conservative standard aggressive",
     .searchers = "adaptive_asha"},
    {.path = "searcher.max_rungs",
     .type = kInt,
     .fallback = "5",
     .doc = "At most so many rungs in a bracket.",
     .least = 1,
     .most = 64,
     .searchers = "adaptive_asha"},
    {.path = "searcher.bracket_rungs",
     .type = kInts,
     .fallback = "[]",
     .doc = "The rungs of each bracket, instead of mode.",
     .least = 1,
     .most = 64,
     .searchers = "adaptive_asha"},
    {.path = "searcher.stops",
     .type = kInts,
     .fallback = "[]",
     .doc = "Lengths before max_length at which the trial is validated and "
            "saved too, as one is that a search promotes.",
     .least = 1,
     .searchers = "single"},
    {.path = "searcher.points",
     .type = kPoints,
     .fallback = "[]",
     .doc = "Hyperparameters to try first: each point gives a value to all "
            "that is searched.",
     .searchers = kSampling},
    {.path = "searcher.source_trial_id",
     .type = kTrialId,
     .doc = "Begin with the weights of this trial's latest checkpoint, "
            "counters at 0."},
    {.path = "searcher.source_checkpoint_uuid",
     .type = kUuid,
     .doc = "Begin with the weights of this checkpoint, counters at 0."},
};

}  // namespace

std::span<const KeySpec> SearcherKeys() { return kSearcherKeys; }

}  // namespace dtrain
