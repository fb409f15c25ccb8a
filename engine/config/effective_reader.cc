// Walks the schema and the tree together. For each section it first reports
// names that the schema does not have, and keys that are ignored or belong to
// another search method; then it reads each key or takes its default.

#include "engine/config/effective_reader.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/text.h"
#include "engine/config/hyperparameters.h"
#include "engine/config/value_reader.h"

namespace dtrain {
namespace {

// Returns the search method; "" if it is missing or unknown. Errors in the key
// are reported when the key itself is read.
std::string MethodOf(const Node& root) {
  const Node* searcher = root.Find("searcher");
  const Node* name = searcher ? searcher->Find("name") : nullptr;
  if (name == nullptr) return "";
  Findings discarded = Findings::Discarding();
  const auto method = ReadValue(*FindKey("searcher.name"), *name, discarded);
  return method ? method->get<std::string>() : "";
}

// Returns the path of a hyperparameter or of a key of another section with this
// name, or "".
std::string PathElsewhere(const Node& root, const std::string& name) {
  const Node* space = root.Find("hyperparameters");
  if (space != nullptr && space->Find(name) != nullptr) {
    return JoinPath("hyperparameters", name);
  }
  struct Meaning {
    std::string_view name;
    std::string_view path;
  };
  static constexpr Meaning kMeanings[] = {
      {"batches", "searcher.max_length.batches"},
      {"epochs", "searcher.max_length.epochs"},
      {"hparams", "hyperparameters"},
      {"hyperparams", "hyperparameters"},
      {"records", "searcher.max_length.records"},
      {"seed", "reproducibility.experiment_seed"}};
  for (const Meaning& meaning : kMeanings) {
    if (meaning.name == name) return std::string(meaning.path);
  }
  for (const KeySpec& key : Schema()) {
    if (key.name() == name && !key.ignored()) return std::string(key.path);
  }
  return "";
}

// True for storage that is not a directory of this machine. It is reported
// once, and its other keys are not read.
bool IsRemoteStorage(const KeySpec& key, const Node& node) {
  if (key.path != "checkpoint_storage") return false;
  const Node* type = node.Find("type");
  if (type == nullptr || !type->is_string()) return false;
  const std::vector<std::string> remote = {"azure", "gcs", "hdfs", "s3"};
  return std::find(remote.begin(), remote.end(), type->text) != remote.end();
}

}  // namespace

EffectiveReader::EffectiveReader(const Node& root, Findings& findings)
    : root_(root), findings_(findings), method_(MethodOf(root)) {}

nlohmann::json EffectiveReader::Read() { return ReadSection(&root_, ""); }

// Without `node`, all keys have defaults and required keys are not reported.
nlohmann::json EffectiveReader::ReadSection(const Node* node,
                                            std::string_view section) {
  auto result = nlohmann::json::object();
  if (node != nullptr) CheckNames(*node, section);
  for (const KeySpec& key : Schema()) {
    if (key.section() != section || key.ignored() || !Applies(key)) continue;
    result[std::string(key.name())] = ReadKey(key, node);
  }
  return result;
}

nlohmann::json EffectiveReader::ReadKey(const KeySpec& key,
                                        const Node* section) {
  const Node* node = section ? section->Find(key.name()) : nullptr;
  if (node != nullptr && !node->is_null()) return ReadGiven(key, *node);
  // An unknown searcher has no known required keys.
  const bool required =
      key.required && (SearchersOf(key).empty() || !method_.empty());
  if (required && section != nullptr) {
    const Mark mark = node                ? node->mark
                      : section == &root_ ? Mark{}
                                          : section->mark;
    findings_.Error(mark, std::string(key.path),
                    "required but missing; add it");
  }
  if (key.type == KeyType::kSection) return ReadSection(nullptr, key.path);
  return key.Default();
}

nlohmann::json EffectiveReader::ReadGiven(const KeySpec& key,
                                          const Node& node) {
  const bool section =
      key.type == KeyType::kSection || key.type == KeyType::kOptionalSection;
  if (section) return ReadGivenSection(key, node);
  if (key.type == KeyType::kHyperparameters) {
    return ReadHyperparameters(node, findings_);
  }
  std::optional<nlohmann::json> value;
  const int before = findings_.errors();
  if (key.type == KeyType::kPoints) {
    // Points are only checked against valid hyperparameters.
    Findings discarded = Findings::Discarding();
    const Node* space = root_.Find("hyperparameters");
    if (space != nullptr) ReadHyperparameters(*space, discarded);
    if (discarded.errors() == 0) value = ReadPoints(node, space, findings_);
  } else {
    value = ReadValue(key, node, findings_);
  }
  if (!value || findings_.errors() > before) return key.Default();
  if (!IsReady(key, *value)) Refuse(key, node.mark);
  return *value;
}

nlohmann::json EffectiveReader::ReadGivenSection(const KeySpec& key,
                                                 const Node& node) {
  if (!node.is_map()) {
    ReportType(node, std::string(key.path), "a map", findings_);
  } else if (IsRemoteStorage(key, node)) {
    const Node& type = *node.Find("type");
    findings_.Error(type.mark, JoinPath(key.path, "type"),
                    type.text +
                        " is not supported; remove it to keep checkpoints in "
                        "the store");
  } else {
    return ReadSection(&node, key.path);
  }
  if (key.type == KeyType::kOptionalSection) return nullptr;
  return ReadSection(nullptr, key.path);
}

void EffectiveReader::CheckNames(const Node& node, std::string_view section) {
  for (const Node::Entry& entry : node.entries) {
    const std::string path = JoinPath(section, entry.key);
    const KeySpec* key = FindKey(path);
    // A name with a dot must not match a key of another section.
    if (key == nullptr || key->section() != section) {
      findings_.UnknownKey(entry.mark, path, entry.key, KeyNames(section),
                           PathElsewhere(root_, entry.key));
    } else if (key->ignored()) {
      findings_.Note(entry.mark, path, "ignored: " + std::string(key->doc));
    } else if (!Applies(*key) && !entry.value.is_null()) {
      findings_.Error(entry.mark, path,
                      "only applies to " + Join(SearchersOf(*key), ", ") +
                          ", not to " + method_ + "; remove it");
    }
  }
}

bool EffectiveReader::Applies(const KeySpec& key) const {
  const std::vector<std::string> all = SearchersOf(key);
  return all.empty() || method_.empty() ||
         std::find(all.begin(), all.end(), method_) != all.end();
}

void EffectiveReader::Refuse(const KeySpec& key, Mark mark) {
  const auto values = nlohmann::json::parse(key.ready);
  const auto& first = values.at(0);
  const bool unset = first.is_null() || first.empty();
  const std::string instead =
      unset ? "leave it out"
            : "use " +
                  (first.is_string() ? first.get<std::string>() : first.dump());
  findings_.NotYet(mark, std::string(key.path),
                   "valid, but this version cannot run it; " + instead);
}

}  // namespace dtrain
