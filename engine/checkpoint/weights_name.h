#pragma once

namespace dtrain {

/// The name of a checkpoint's file of weights.
inline constexpr char kWeightsName[] = "model.safetensors";

}  // namespace dtrain
