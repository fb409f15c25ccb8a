#pragma once

namespace dtrain {

/// The name of a checkpoint's file of weights.
inline constexpr char kWeightsName[] = "model.safetensors";
/// The checkpoint that a trial of Task::kLoad writes, inside its directory.
inline constexpr char kImportedDirectory[] = "imported";

}  // namespace dtrain
