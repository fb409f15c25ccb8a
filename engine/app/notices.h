#pragma once

#include <string>
#include <vector>

#include "engine/report/terminal.h"

namespace dtrain {

/// Options that every command takes, and its stream for notices.
struct GlobalOptions {
  std::string store;  // empty: found as FindStore says
  ColorChoice color = ColorChoice::kAuto;
  bool verbose = false;
  bool quiet = false;
  bool allow_network_fs = false;
  std::vector<std::string> argv;  // as it was typed, for the record
  // Writes to stderr as it is. engine/app itself prints nothing, so that its
  // services run without a terminal. A reference, so that options without it do
  // not compile.
  void (&write_notice)(const std::string& text);
};

/// A stream for notices that drops them.
void IgnoreNotice(const std::string& text);

/// Writes `text` with `globals.write_notice`.
void WriteNotice(const GlobalOptions& globals, const std::string& text);

/// Prints the line TEXT on stderr, escaped; on a terminal broken at words.
void PrintLine(const GlobalOptions& globals, const std::string& text);

/// Prints the notice `dtrain: TEXT` on stderr, escaped; nothing with --quiet.
void PrintNotice(const GlobalOptions& globals, const std::string& text);

/// Prints `dtrain: error: TEXT` on stderr, escaped.
void PrintError(const GlobalOptions& globals, const std::string& text);

}  // namespace dtrain
