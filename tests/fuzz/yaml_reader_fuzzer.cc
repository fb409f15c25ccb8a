// A configuration as a user writes it. What stands behind a byte FF, which no
// UTF-8 has, is an override, as `--set` takes it.

#include <algorithm>
#include <string>
#include <vector>

#include "engine/base/text.h"
#include "engine/config/experiment_config.h"
#include "engine/config/yaml_reader.h"
#include "tests/fuzz/fuzz_checks.h"

namespace dtrain {
namespace {

constexpr std::size_t kMostLevels = 64;

std::size_t LevelsOf(const Node& node) {
  std::size_t below = 0;
  for (const Node& item : node.items) {
    below = std::max(below, LevelsOf(item));
  }
  for (const Node::Entry& entry : node.entries) {
    below = std::max(below, LevelsOf(entry.value));
  }
  return below + (node.IsScalar() ? 0 : 1);
}

// The bytes of each line, its newline not counted.
std::vector<std::size_t> LineLengths(std::string_view text) {
  std::vector<std::size_t> lengths;
  for (const std::string& line : Split(text, '\n')) {
    lengths.push_back(line.size());
  }
  return lengths;
}

// One may point right behind the end of a line, and so of the text.
void RequirePlace(const Diagnostic& found,
                  const std::vector<std::size_t>& lines) {
  if (found.line == 0) return;
  Require(found.line > 0 && found.column > 0, "places count from 1");
  const auto line = static_cast<std::size_t>(found.line);
  Require(line <= lines.size(), "a finding's line is one of the text");
  Require(static_cast<std::size_t>(found.column) <= lines[line - 1] + 1,
          "a finding's column is one of its line");
}

void RequireDiagnostics(const ConfigResult& result, std::string_view text) {
  const auto lines = LineLengths(text);
  bool refused = false;
  for (const Diagnostic& found : result.diagnostics) {
    RequirePlace(found, lines);
    refused |= found.severity == Severity::kError;
    Require(!found.message.empty(), "a finding says something");
    const std::string said = found.ToString();
    Require(EscapeForTerminal(said) == said, "a finding is one plain line");
  }
  Require(refused != result.config.has_value(),
          "there is a configuration unless there is an error");
}

// As text, for a NaN is not equal to itself.
std::string Dump(const nlohmann::json& json) { return json.dump(); }

// What was understood, written as YAML and as JSON, is understood the same.
void RequireRoundTrip(const ExperimentConfig& config) {
  const std::string effective = Dump(config.effective);
  const auto again =
      ReadConfig(ToYaml(config.effective), {.file_name = "again.yaml"});
  Require(again.config.has_value(), "what was read, written out, is valid");
  Require(Dump(again.config->effective) == effective,
          "what was read, written out, reads the same");
  const ExperimentConfig stored = ConfigFromJson(config.effective);
  Require(Dump(stored.effective) == effective,
          "what was stored reads the same");
}

void Check(std::string_view input) {
  const std::vector<std::string> parts = Split(input, '\xFF');
  const std::string& text = parts[0];
  ReadOptions options{.file_name = "fuzz.yaml"};
  options.overrides.assign(parts.begin() + 1, parts.end());

  Findings unheard = Findings::Unheard();
  if (const auto root = ReadYaml(text, {}, unheard)) {
    Require(LevelsOf(*root) <= kMostLevels, "a tree is not too deep");
  }
  const ConfigResult result = ReadConfig(text, options);
  RequireDiagnostics(result, text);
  if (result.config) RequireRoundTrip(*result.config);
}

}  // namespace
}  // namespace dtrain

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  dtrain::Check(dtrain::TextOf(data, size));
  return 0;
}
