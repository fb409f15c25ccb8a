#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

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

/// CIFAR-10 (Krizhevsky, 2009): 3×32×32, classes 0 to 9.
struct Cifar10Sets {
  ImageSet training;        // the five batches, 50,000 images
  ImageSet test;            // empty if there is none
  bool whole_test = false;  // all of the official 10,000
  std::string description;  // for the log: from where, and what is missing
};

/// Reads the binary version: data_batch_1.bin to data_batch_5.bin and, if it is
/// there, test_batch.bin or, in its place, test_first1000.bin, its beginning.
/// They are looked for in `data` (a directory, or its child
/// cifar-10-batches-bin), else in the usual places; a prepared copy is kept in
/// the cache. Throws Error(kNotFound) that says where it looked if they are not
/// there, Error(kFailed) that names the one that is damaged.
Cifar10Sets LoadCifar10(const std::string& data,
                        const ReadVariable& variable = ProcessVariable);

/// The names of the ten classes, by their index.
std::vector<std::string> Cifar10ClassNames();

}  // namespace dtrain
