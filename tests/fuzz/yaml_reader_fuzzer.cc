// Fuzzes the reader of experiment configurations. A byte FF, which UTF-8 never
// contains, begins an override as `--set` takes it.

#include <algorithm>
#include <string>
#include <vector>

#include "engine/base/text.h"
#include "engine/config/read_config.h"
#include "engine/config/yaml_reader.h"
#include "tests/fuzz/fuzz_target.h"

namespace dtrain {
namespace {

constexpr std::size_t kMaxLevels = 64;

std::size_t CountLevels(const Node& node) {
  std::size_t below = 0;
  for (const Node& item : node.items) {
    below = std::max(below, CountLevels(item));
  }
  for (const Node::Entry& entry : node.entries) {
    below = std::max(below, CountLevels(entry.value));
  }
  return below + (node.IsScalar() ? 0 : 1);
}

// Returns the length of each line in bytes, without its newline.
std::vector<std::size_t> LineLengths(std::string_view text) {
  std::vector<std::size_t> lengths;
  for (const std::string& line : Split(text, '\n')) {
    lengths.push_back(line.size());
  }
  return lengths;
}

// A diagnostic may point right behind the end of a line, even of the last one.
void RequirePlace(const Diagnostic& found,
                  const std::vector<std::size_t>& lines) {
  if (found.line == 0) return;
  Require(found.line > 0 && found.column > 0, "places count from 1");
  const auto line = static_cast<std::size_t>(found.line);
  Require(line <= lines.size(), "a finding's line exists");
  Require(static_cast<std::size_t>(found.column) <= lines[line - 1] + 1,
          "a finding's column exists");
}

void RequireDiagnostics(const ConfigResult& result, std::string_view text) {
  const auto lines = LineLengths(text);
  bool rejected = false;
  for (const Diagnostic& found : result.diagnostics) {
    RequirePlace(found, lines);
    rejected |= found.severity == Severity::kError;
    Require(!found.message.empty(), "a finding has a message");
    const std::string shown = found.ToString();
    Require(EscapeForTerminal(shown) == shown, "a finding is one plain line");
  }
  Require(rejected != result.config.has_value(),
          "there is a configuration unless there is an error");
}

// Compared as text, since a NaN does not equal itself.
std::string Dump(const nlohmann::json& json) { return json.dump(); }

// A valid configuration survives being written as YAML and as JSON.
void RequireRoundTrip(const ExperimentConfig& config) {
  const std::string effective = Dump(config.effective);
  const auto again =
      ReadConfig(ToYaml(config.effective), {.file_name = "again.yaml"});
  Require(again.config.has_value(), "a written configuration is valid");
  Require(Dump(again.config->effective) == effective,
          "writing and reading again changes nothing");
  const ExperimentConfig stored = ConfigFromJson(config.effective);
  Require(Dump(stored.effective) == effective,
          "a stored configuration reads the same");
}

void Check(std::string_view input) {
  const std::vector<std::string> parts = Split(input, '\xFF');
  const std::string& text = parts[0];
  ReadOptions options{.file_name = "fuzz.yaml"};
  options.overrides.assign(parts.begin() + 1, parts.end());

  Findings discarded = Findings::Discarding();
  if (const auto root = ReadYaml(text, {}, discarded)) {
    Require(CountLevels(*root) <= kMaxLevels, "a tree is not too deep");
  }
  const ConfigResult result = ReadConfig(text, options);
  RequireDiagnostics(result, text);
  if (result.config) RequireRoundTrip(*result.config);
}

}  // namespace
}  // namespace dtrain

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  dtrain::Check(dtrain::ToText(data, size));
  return 0;
}
