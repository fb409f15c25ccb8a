// `--set KEY=VALUE` changes the tree before it is checked, so overrides follow
// the same rules as the file. An override wins over the file: keys of the file
// that cannot be combined with it are removed instead of being reported as
// conflicts.

#include "engine/config/overrides.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/text.h"
#include "engine/config/schema.h"
#include "engine/config/yaml_reader.h"

namespace dtrain {
namespace {

// Returns the value of `key`, which is added if it is missing.
Node& Child(Node& map, const std::string& key, Mark mark) {
  if (Node* found = map.Find(key)) return *found;
  map.entries.push_back({key, mark, {}});
  map.entries.back().value.mark = mark;
  return map.entries.back().value;
}

// Returns the node of `path`, adding missing maps on the way. Returns null if a
// node on the way is not a map.
Node* Place(Node& root, const std::vector<std::string>& path, Mark mark,
            Findings& findings) {
  Node* node = &root;
  std::string walked;
  for (const std::string& name : path) {
    if (node->is_null()) node->kind = Node::Kind::kMap;
    if (!node->is_map()) {
      findings.Error(mark, walked,
                     "is " + Describe(*node) + ", not a map with a key '" +
                         name + "'; set the whole value");
      return nullptr;
    }
    node = &Child(*node, name, mark);
    walked = JoinPath(walked, name);
  }
  return node;
}

// Returns the keys of `section` that cannot be combined with `name`.
std::vector<std::string_view> ExcludedBy(const std::string& section,
                                         std::string_view name) {
  struct Rule {
    std::string_view section;
    std::string_view name;
    std::vector<std::string_view> excluded;
  };
  static const std::vector<Rule> kRules = {
      {"searcher", "max_length", {"max_time", "time_metric"}},
      {"searcher", "max_time", {"max_length"}},
      {"searcher", "source_trial_id", {"source_checkpoint_uuid"}},
      {"searcher", "source_checkpoint_uuid", {"source_trial_id"}},
      {"checkpoint_storage", "path", {"host_path", "container_path"}},
      {"checkpoint_storage", "host_path", {"path", "container_path"}},
      {"checkpoint_storage", "container_path", {"path", "host_path"}},
      {"checkpoint_storage", "storage_path", {"checkpoint_path"}},
      {"checkpoint_storage", "checkpoint_path", {"storage_path"}},
      {"optimizations.clip_gradients", "norm", {"value"}},
      {"optimizations.clip_gradients", "value", {"norm"}},
  };
  for (const Rule& rule : kRules) {
    if (rule.section == section && rule.name == name) return rule.excluded;
  }
  return {};
}

bool IsLength(const std::string& path) {
  const KeySpec* key = FindKey(path);
  return key != nullptr &&
         (key->type == KeyType::kLength || key->type == KeyType::kPeriod);
}

// Removes keys of the file that cannot be combined with the override. Overrides
// that exclude each other are left for CheckConfig to report.
void RemoveExcluded(const std::vector<std::string>& path, Node& root) {
  const std::vector<std::string> parents(path.begin(), path.end() - 1);
  const std::string section = Join(parents, ".");
  Node* map = &root;
  for (const std::string& name : parents) {
    map = map == nullptr ? nullptr : map->Find(name);
  }
  if (map == nullptr) {
    // A unit of a length that the file does not have.
    if (IsLength(section)) RemoveExcluded(parents, root);
    return;
  }
  const auto from_file = [](const Node& node) {
    return node.mark.override_index < 0;
  };
  if (IsLength(section)) {
    if (!map->is_map() && from_file(*map)) *map = {.mark = map->mark};
    std::erase_if(map->entries, [&](const Node::Entry& entry) {
      return entry.key != path.back() && from_file(entry.value);
    });
    return RemoveExcluded(parents, root);
  }
  const std::vector<std::string_view> excluded =
      ExcludedBy(section, path.back());
  std::erase_if(map->entries, [&](const Node::Entry& entry) {
    return std::ranges::find(excluded, entry.key) != excluded.end() &&
           from_file(entry.value);
  });
}

bool IsEmpty(std::string_view value) {
  return value.find_first_not_of(" \t") == value.npos;
}

// Removes the key of `path`. A key that is neither present nor in the schema is
// an error, because it is probably a typing error.
void Unset(const std::vector<std::string>& path, Mark mark, Node& root,
           Findings& findings) {
  Node* map = &root;
  for (auto name = path.begin(); name != path.end() - 1; ++name) {
    map = map == nullptr ? nullptr : map->Find(*name);
  }
  const std::string whole = Join(path, ".");
  if (map != nullptr && map->Find(path.back()) != nullptr) {
    std::erase_if(map->entries, [&](const Node::Entry& entry) {
      return entry.key == path.back();
    });
    return;
  }
  const std::vector<std::string> parents(path.begin(), path.end() - 1);
  if (FindKey(whole) != nullptr || IsLength(Join(parents, "."))) return;
  std::vector<std::string> names = KeyNames(Join(parents, "."));
  if (map != nullptr) {
    for (const Node::Entry& entry : map->entries) names.push_back(entry.key);
  }
  const std::string hint = DidYouMean(path.back(), names);
  findings.Error(mark, whole,
                 "is not set, so it cannot be removed" +
                     (hint.empty() ? "; leave it out" : hint));
}

void Apply(const std::string& text, Mark mark, Node& root, Findings& findings) {
  const std::size_t equals = text.find('=');
  const std::vector<std::string> path = Split(text.substr(0, equals), '.');
  const bool nameless = std::any_of(
      path.begin(), path.end(), [](const auto& name) { return name.empty(); });
  if (equals == text.npos || nameless) {
    findings.Error(mark, "",
                   "expected a key and a value; write it as "
                   "searcher.metric=accuracy");
    return;
  }
  const std::string_view written = std::string_view(text).substr(equals + 1);
  if (IsEmpty(written)) {
    Unset(path, mark, root, findings);
    return;
  }
  std::optional<Node> value = ReadYaml(written, mark, findings);
  if (!value) return;
  if (!value->is_null()) RemoveExcluded(path, root);
  Node* place = Place(root, path, mark, findings);
  if (place == nullptr) return;
  value->mark = mark;
  *place = *std::move(value);
}

}  // namespace

void ApplyOverrides(std::span<const std::string> overrides, Node& root,
                    Findings& findings) {
  for (std::size_t i = 0; i < overrides.size(); ++i) {
    Mark mark;
    mark.override_index = static_cast<int>(i);
    Apply(overrides[i], mark, root, findings);
  }
}

}  // namespace dtrain
