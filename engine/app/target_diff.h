#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "engine/app/stores.h"

namespace dtrain {

class Store;

/// The parts of a record that a diff compares.
enum class DiffSection { kConfig, kHparams, kFiles, kEnvironment, kLog };

/// "config", "hparams", "files", "environment" or "log".
std::string_view SectionName(DiffSection section);

/// A text that differs between two records.
struct TextDiff {
  std::string path;  // "config.yaml", "files/model_def.cpp"
  // Whether each of the two records has it.
  std::array<bool, 2> exists = {true, true};
  // Replacement of the hunks: "binary files differ". Empty if there are hunks.
  std::string note;
  std::size_t removed = 0;  // lines
  std::size_t added = 0;
  std::string hunks;  // of a unified diff
};

/// Differences in one section.
struct SectionDiff {
  DiffSection section = DiffSection::kConfig;
  std::vector<TextDiff> texts;
  std::string note;  // what is missing or was not compared; or empty
};

/// One of two compared records.
struct DiffSide {
  std::string id;     // "3" or "3.7", as it was named
  std::string trial;  // whose hyperparameters and log it has; empty if none
};

/// The differences of two experiments or trials.
struct TargetDiff {
  std::array<DiffSide, 2> sides;
  std::vector<SectionDiff> sections;

  bool different() const;
};

/// Compares two experiments or trials:
/// - config: the effective configuration as YAML;
/// - hparams: the hyperparameters of the trial, or of the only or best trial of
///   an experiment;
/// - files: the stored context, file by file;
/// - environment: the provenance, such as commit, libraries and GPUs;
/// - log: what that trial wrote, without times.
/// Throws Error(kNotFound).
TargetDiff DiffTargets(const Store& store, const std::array<Target, 2>& targets,
                       const std::vector<DiffSection>& sections);

}  // namespace dtrain
