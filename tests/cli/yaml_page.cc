#include "tests/cli/yaml_page.h"

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// First lines of programs. `validate AT LOSS [GAIN]`, `keep AT` makes a
// checkpoint.
constexpr char kFunctions[] = R"sh(set -eu
cp "$DTRAIN_TRIAL" "$HOME/told.json"
unit=${DTRAIN_UNIT:-batches}
until=${DTRAIN_UNTIL:-4}
validate() {
  printf '{"type":"validation","%s":%s,"metrics":{"loss":%s,"gain":%s}}\n' \
    "$unit" "$1" "$2" "${3:-0}" >&3
}
keep() {
  echo "$1" > "$DTRAIN_DIRECTORY/$1"
  printf '{"type":"checkpoint","%s":%s,"path":"%s"}\n' \
    "$unit" "$1" "$DTRAIN_DIRECTORY/$1" >&3
}
)sh";

std::string ReadText(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

}  // namespace

Settings ProgramSettings() {
  return {{"entrypoint", "sh program.sh"},
          {"searcher.name", "single"},
          {"searcher.metric", "loss"},
          {"searcher.max_length", "4"},
          {"resources.slots", "cpu"},
          {"reproducibility.experiment_seed", "7"}};
}

PageYaml::PageYaml(const Settings& settings) {
  std::vector<Key> keys;
  for (const auto& [path, value] : settings) Set(keys, path, value);
  Write(keys, "", /*indent=*/0);
}

void PageYaml::Set(std::vector<Key>& keys, const std::string& path,
                   const std::string& value) {
  const std::size_t dot = path.find('.');
  const std::string name = path.substr(0, dot);
  auto found = std::ranges::find(keys, name, &Key::name);
  if (found == keys.end()) {
    if (value.empty()) return;
    found = keys.insert(found, Key{.name = name});
  }
  if (dot != path.npos) {
    found->value.clear();
    Set(found->keys, path.substr(dot + 1), value);
    if (found->keys.empty()) keys.erase(found);
  } else if (value.empty()) {
    keys.erase(found);
  } else {
    found->value = value;
    found->keys.clear();
  }
}

void PageYaml::Write(const std::vector<Key>& keys, const std::string& path,
                     int indent) {
  for (const Key& key : keys) {
    const std::string whole = path.empty() ? key.name : path + '.' + key.name;
    text_ += std::string(static_cast<std::size_t>(indent), ' ') + key.name;
    const auto line = std::ranges::count(text_, '\n') + 1;
    places_.push_back(
        {.key = whole,
         .line = static_cast<int>(line),
         .column = indent + static_cast<int>(key.name.size()) + 3});
    text_ += key.value.empty() ? ":\n" : ": " + key.value + '\n';
    Write(key.keys, whole, indent + 2);
  }
}

std::string PageYaml::FindPosition(const std::string& key, int columns) const {
  for (const Place& place : places_) {
    if (place.key != key) continue;
    return std::to_string(place.line) + ':' +
           std::to_string(place.column + columns);
  }
  throw std::out_of_range(key);
}

void PageRun::WriteModel(const std::string& source) const {
  fs::create_directories(directory() / "page");
  dtrain_.Write("page/model_def.cpp", source);
}

CliResult PageRun::Create(const Settings& settings, const std::string& program,
                          const CliCall& call) {
  fs::create_directories(directory() / "page/kept");
  dtrain_.Write("page/program.sh", kFunctions + program);
  dtrain_.Write("page/page.yaml", PageYaml(settings).text());
  result_ = dtrain_.Run({"create", "page/page.yaml", "--jsonl"}, call);
  if (HasStore()) experiment_ = ++experiments_;
  return result_;
}

bool PageRun::HasStore() const { return fs::exists(dtrain_.store()); }

std::vector<json> PageRun::Events(const std::string& kind) const {
  std::vector<json> events;
  std::istringstream lines(result_.out);
  for (std::string line; std::getline(lines, line);) {
    json event = json::parse(line);
    if (kind.empty() || event.at("event") == kind) events.push_back(event);
  }
  return events;
}

int PageRun::TrialsAtOnce() const {
  std::set<std::string> running;
  std::size_t most = 0;
  for (const json& event : Events("")) {
    if (event.at("event") == "trial_started") running.insert(event.at("trial"));
    if (event.at("event") == "trial_ended") running.erase(event.at("trial"));
    most = std::max(most, running.size());
  }
  return static_cast<int>(most);
}

json PageRun::Says(const std::string& command) const {
  return Run({command, id(), "--json"}).Json();
}

json PageRun::OfTrials(const std::string& field) const {
  const json document = Says("trials");
  json values = json::array();
  for (const json& trial : document.at("trials")) {
    values.push_back(trial.at(json::json_pointer(field)));
  }
  return values;
}

json PageRun::Reports(const std::string& kind,
                      const std::string& metric) const {
  const json document =
      Run({"metrics", id() + ".1", "--kind", kind, "--name", metric, "--json"})
          .Json();
  json reports = json::array();
  for (const json& row : document.at("metrics")) {
    reports.push_back({row.at("batches"), row.at("value")});
  }
  return reports;
}

Look OfTrials(const std::string& field) {
  return [field](const PageRun& run) { return run.OfTrials(field); };
}

Look Told(const std::string& field) {
  return [field](const PageRun& run) {
    return json::parse(run.Left("told.json")).at(json::json_pointer(field));
  };
}

Look Left(const std::string& name) {
  return [name](const PageRun& run) -> json { return run.Left(name); };
}

json TrialsAtOnce(const PageRun& run) { return run.TrialsAtOnce(); }

std::string PageRun::Log() const { return Run({"logs", id(), "--raw"}).out; }

std::string PageRun::Left(const std::string& name) const {
  std::string text = ReadText(directory() / name);
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace dtrain
