#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "engine/train/trial.h"
#include "engine/train/trial_context.h"

namespace dtrain {

/// A trial that a library of a user's models gives to dtrain.
struct ExportedTrial {
  std::string_view name;  // "MyTrial" of `entrypoint: model_def:MyTrial`
  std::unique_ptr<Trial> (*make)(TrialContext& context);
};

/// All that such a library gives. `abi` comes first, and the rest means what it
/// says only where that is the same as dtrain's own.
struct ExportedTrials {
  const char* abi;
  const ExportedTrial* trials;
  std::size_t count;
};

/// What the library's one symbol is: `const ExportedTrials* DtrainTrials()`.
inline constexpr const char* kTrialsSymbol = "DtrainTrials";
using TrialsFunction = const ExportedTrials* (*)();

namespace internal {

// The text of a macro's arguments up to the next comma; takes it off `names`.
constexpr std::string_view NextName(std::string_view& names) {
  const std::size_t comma = names.find(',');
  std::string_view name = names.substr(0, comma);
  names.remove_prefix(comma == names.npos ? names.size() : comma + 1);
  while (name.starts_with(' ')) name.remove_prefix(1);
  while (name.ends_with(' ')) name.remove_suffix(1);
  return name;
}

template <typename T>
std::unique_ptr<Trial> MakeExported(TrialContext& context) {
  return std::make_unique<T>(context);
}

template <typename... Trials>
const ExportedTrials* ExportTrials(std::string_view names, const char* abi) {
  static const ExportedTrial trials[] = {
      {NextName(names), MakeExported<Trials>}...};
  static const ExportedTrials exported{abi, trials, sizeof...(Trials)};
  return &exported;
}

}  // namespace internal

}  // namespace dtrain

/// At the end of model_def.cpp, once: the trials that a YAML may name, as
/// DTRAIN_TRIALS(MyTrial, MyOtherTrial). Each is a class with a constructor
/// that takes a TrialContext&.
#define DTRAIN_TRIALS(...)                                                \
  extern "C" [[gnu::visibility("default")]] const dtrain::ExportedTrials* \
  DtrainTrials() {                                                        \
    return dtrain::internal::ExportTrials<__VA_ARGS__>(#__VA_ARGS__,      \
                                                       DTRAIN_ABI);       \
  }
