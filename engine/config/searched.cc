#include <algorithm>
#include <limits>

#include "engine/config/hyperparameters.h"

// What searchers ask of checked hyperparameters.

namespace dtrain {
namespace {

// a·b, or the largest number there is.
std::int64_t Times(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) {
    return std::numeric_limits<std::int64_t>::max();
  }
  return product;
}

// How many values a grid takes of the hyperparameter; 0 if it needs a count.
std::int64_t GridValues(const Hyperparameter& parameter) {
  const Node& node = parameter.node;
  if (parameter.type == "const") return 1;
  if (parameter.type == "categorical") {
    return static_cast<std::int64_t>(node.Find("vals")->items.size());
  }
  const Node* count = node.Find("count");
  const bool counted = count != nullptr && !count->is_null();
  if (parameter.type != "int") return counted ? count->integer : 0;
  const std::int64_t all =
      node.Find("maxval")->integer - node.Find("minval")->integer + 1;
  if (counted) return std::min(count->integer, all);
  return all <= kMostGridPoints ? all : 0;
}

void CheckGrid(const Node& node, Findings& findings) {
  std::int64_t points = 1;
  VisitHyperparameters(
      node, "hyperparameters", [&](const Hyperparameter& parameter) {
        const std::int64_t values = GridValues(parameter);
        if (values == 0) {
          findings.Error(parameter.node.mark, parameter.path + ".count",
                         "required by the grid searcher; say how many values "
                         "to try");
        } else {
          points = Times(points, values);
        }
      });
  if (points <= kMostGridPoints) return;
  const bool huge = points == std::numeric_limits<std::int64_t>::max();
  findings.Error(node.mark, "hyperparameters",
                 "a grid of " + std::string(huge ? "more than " : "") +
                     std::to_string(points) + " points; at most " +
                     std::to_string(kMostGridPoints) +
                     " can be searched: lower the counts, or use random");
}

void WarnOfRanges(const Node& node, Findings& findings) {
  VisitHyperparameters(
      node, "hyperparameters", [&](const Hyperparameter& parameter) {
        if (parameter.type == "const") return;
        findings.Warning(parameter.node.mark, parameter.path,
                         "the single searcher draws one sample of this range; "
                         "give it a value, or use another searcher");
      });
}

}  // namespace

void VisitHyperparameters(
    const Node& node, const std::string& path,
    const std::function<void(const Hyperparameter&)>& visit) {
  for (const Node::Entry& entry : node.entries) {
    const std::string place = JoinPath(path, entry.key);
    if (!entry.value.is_map()) {
      visit({entry.value, place, "const"});
    } else if (const Node* type = entry.value.Find("type")) {
      visit({entry.value, place, type->text});
    } else {
      VisitHyperparameters(entry.value, place, visit);
    }
  }
}

void CheckSearched(const Node& node, std::string_view searcher,
                   Findings& findings) {
  if (searcher == "grid") CheckGrid(node, findings);
  if (searcher == "single") WarnOfRanges(node, findings);
}

}  // namespace dtrain
