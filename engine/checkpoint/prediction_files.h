#pragma once

namespace dtrain {

/// What a trial that predicts leaves in its directory: a directory as that of a
/// checkpoint, and in it a safetensors file with the model's `output` [samples,
/// …] as floats and, where the data have targets of one number, `target`
/// [samples]; in the class file a JSON list of the classes' names, maybe empty.
inline constexpr char kPredictionDirectory[] = "predictions";
inline constexpr char kPredictionFile[] = "predictions.safetensors";
inline constexpr char kClassNameFile[] = "classes.json";

}  // namespace dtrain
