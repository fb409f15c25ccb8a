#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/data/memory_source.h"
#include "engine/os/process.h"

namespace dtrain {

/// Handwritten digits: grayscale, square, classes 0 to 9.
struct DigitSets {
  ImageSet training;
  ImageSet validation;
  Normalization normalization;
  std::string description;  // for the log: name and location
};

struct DigitOptions {
  std::string dataset = "auto";  // auto, mnist, strokes
  std::string data;              // directory with MNIST; empty: default places
  std::uint32_t seed = 0;        // of drawn digits
  std::int64_t side = 28;        // resized to this side, bilinearly
  int threads = 1;               // for drawing
};

/// Loads MNIST from the data directory, or draws digits: 60,000 for training
/// and 10,000 for validation. "auto" selects MNIST if `data` is set or the data
/// directory has it. Prepared sets are kept in the cache. Throws
/// Error(kNotFound) if MNIST is requested but missing, Error(kFailed) if it is
/// damaged, InvalidHyperparameters for another `dataset`.
DigitSets LoadDigits(const DigitOptions& options,
                     const ReadVariable& variable = ProcessVariable);

/// CIFAR-10 (Krizhevsky, 2009): 3×32×32, classes 0 to 9.
struct Cifar10Sets {
  ImageSet training;        // the five batches, 50,000 images
  ImageSet test;            // may be empty
  bool whole_test = false;  // true: all official 10,000
  std::string description;  // for the log: location, missing files
};

/// Loads the binary version of CIFAR-10: data_batch_1.bin to data_batch_5.bin
/// and, if present, test_batch.bin or else its beginning, test_first1000.bin.
/// Searches `data` (a directory, or its subdirectory cifar-10-batches-bin), or
/// the default places if `data` is empty. A prepared copy is kept in the cache.
/// Throws Error(kNotFound) that lists the places searched, or Error(kFailed)
/// that names a damaged file.
Cifar10Sets LoadCifar10(const std::string& data,
                        const ReadVariable& variable = ProcessVariable);

/// Names of the ten classes, by index.
std::vector<std::string> Cifar10ClassNames();

}  // namespace dtrain
