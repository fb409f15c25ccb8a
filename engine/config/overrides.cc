#include "engine/config/overrides.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "engine/base/text.h"
#include "engine/config/yaml_reader.h"

namespace dtrain {
namespace {

// The value of `key`, made if it is not there.
Node& Child(Node& map, const std::string& key, Mark mark) {
  if (Node* found = map.Find(key)) return *found;
  map.entries.push_back({key, mark, {}});
  map.entries.back().value.mark = mark;
  return map.entries.back().value;
}

// The place that `path` names, with every map on the way; null if something
// on the way is no map.
Node* Place(Node& root, const std::vector<std::string>& path, Mark mark,
            Findings& findings) {
  Node* node = &root;
  std::string walked;
  for (const std::string& name : path) {
    if (node->is_null()) node->kind = Node::Kind::kMap;
    if (!node->is_map()) {
      findings.Error(mark, walked,
                     "is " + Describe(*node) + ", which has no key '" + name +
                         "'; set the whole value");
      return nullptr;
    }
    node = &Child(*node, name, mark);
    walked = JoinPath(walked, name);
  }
  return node;
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
  std::optional<Node> value =
      ReadYaml(std::string_view(text).substr(equals + 1), mark, findings);
  if (!value) return;
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
