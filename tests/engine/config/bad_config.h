#pragma once

#include <string>

#include <gtest/gtest.h>

#include "engine/config/experiment_config.h"

namespace dtrain {

/// A configuration with one fault, and what must be said of it.
struct BadConfig {
  const char* name;  // of the test
  std::string text;
  int line;
  int column;
  const char* key;
  const char* says;  // a part of the message
};

/// The findings of one severity about `text`, read from the file "bad.yaml".
Diagnostics FindingsOf(const std::string& text, Severity severity);

/// Expects exactly the one error that `bad` describes, and no configuration.
void ExpectRefused(const BadConfig& bad);

/// A valid experiment of two lines: what is added begins in line 3.
inline const std::string kValid =
    "entrypoint: digits:LeNetTrial\n"
    "searcher: {name: single, metric: loss, max_length: 100}\n";

/// An experiment whose `searcher` is open: what is added begins in line 4.
inline const std::string kSearcher =
    "entrypoint: digits:LeNetTrial\n"
    "searcher:\n"
    "  metric: loss\n";

// The name of a parametrised test is that of its case.
inline std::string CaseName(const testing::TestParamInfo<BadConfig>& info) {
  return info.param.name;
}

}  // namespace dtrain
