#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "engine/data/data_directory.h"
#include "engine/data/memory_source.h"

namespace dtrain {

/// Handwritten digits, grey and square, classes 0 to 9.
struct DigitSets {
  ImageSet training;
  ImageSet validation;
  Normalization normalization;
  std::string description;  // for the log: which data, from where
};

struct DigitOptions {
  std::string dataset = "auto";  // auto, mnist, strokes
  std::string data;              // directory with MNIST; empty: as usual
  std::uint32_t seed = 0;        // of the strokes
  std::int64_t side = 28;        // what they are resized to, bilinearly
  int threads = 1;               // that draw them
};

/// MNIST from the data directory, or the digits that dtrain draws itself,
/// 60,000 and 10,000. `auto` takes MNIST if `data` is set or the data directory
/// has it. Both are kept prepared in the cache. Throws Error(kNotFound) if
/// MNIST is asked for and not there, Error(kFailed) if it is damaged;
/// InvalidHyperparameters for another `dataset`.
DigitSets LoadDigits(const DigitOptions& options,
                     const ReadVariable& variable = ProcessVariable);

}  // namespace dtrain
