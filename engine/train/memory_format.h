#pragma once

#include <string>
#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "engine/base/clock.h"
#include "engine/data/data_source.h"
#include "engine/train/trained_objects.h"
#include "engine/wire/trial_spec.h"

namespace dtrain {

class TrainerContext;
class Trial;

/// True if `model` is to use the channels-last memory format, by the setting
/// "on", "off" or "auto". "auto" selects it if the model has two-dimensional
/// convolutions and all of them have 16 channels or more, apart from the
/// image's own channels. On CPUs such networks are faster in it, small ones are
/// not.
bool IsChannelsLast(const std::string& setting, const torch::nn::Module& model);

/// Converts all four-dimensional weights to the channels-last or to the
/// standard memory format. LibTorch's convolutions then compute in it, whatever
/// the format of their input. Values and shapes do not change.
void StoreWeights(torch::nn::Module& model, bool channels_last);

/// True if the faster format is to be measured: the setting is "auto", the
/// trial trains on a GPU and has convolutions, and steps can be tried without
/// an effect. Not with `reproducibility.deterministic`, because the formats
/// round differently.
bool MeasuresMemoryFormat(const TrainerSettings& settings,
                          torch::DeviceType device,
                          const std::vector<NamedModel>& models);

/// Times training steps with `batch` in both formats, stores the weights in the
/// faster one on all ranks, and logs the times. Values of models, gradients,
/// the trial's saved state and random numbers are those of before; optimizers
/// and schedules do not step. Collective. Throws what the trial throws, and
/// Error(kFailed). REQUIRES: optimizers have no state yet.
void ChooseMemoryFormat(TrainerContext& context, Trial& trial,
                        const Batch& batch, const Clock& clock);

}  // namespace dtrain
