#pragma once

#include <string>
#include <vector>

#include "engine/report/terminal.h"

namespace dtrain {

/// Options that every command takes.
struct GlobalOptions {
  std::string store;  // empty: found as FindStore says
  ColorChoice color = ColorChoice::kAuto;
  bool verbose = false;
  bool quiet = false;
  bool allow_network_fs = false;
  std::vector<std::string> argv;  // as it was typed, for the record
};

/// Prints the notice `dtrain: TEXT` on stderr, escaped; nothing with --quiet.
void Say(const GlobalOptions& globals, const std::string& text);

/// Prints `dtrain: error: TEXT` on stderr, escaped.
void SayError(const GlobalOptions& globals, const std::string& text);

}  // namespace dtrain
