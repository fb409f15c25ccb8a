#include "engine/run/unread_hparams.h"

#include <algorithm>

#include "searchers/hparam_space.h"

namespace dtrain {
namespace {

// The paths of all values in `value`, which is at `path`.
void AppendLeaves(const nlohmann::json& value, const std::string& path,
                  std::vector<std::string>& leaves) {
  if (!value.is_object()) return leaves.push_back(path);
  for (const auto& [name, inner] : value.items()) {
    AppendLeaves(inner, path + '.' + name, leaves);
  }
}

bool IsUnread(const nlohmann::json& value, const std::string& path,
              const std::vector<std::string>& unread) {
  std::vector<std::string> leaves;
  AppendLeaves(value, path, leaves);
  return !leaves.empty() &&
         std::ranges::all_of(leaves, [&](const std::string& leaf) {
           return std::ranges::find(unread, leaf) != unread.end();
         });
}

void AppendSearched(const nlohmann::json& space, const nlohmann::json& hparams,
                    const std::string& prefix,
                    const std::vector<std::string>& unread,
                    std::vector<std::string>& found) {
  for (const auto& [name, range] : space.items()) {
    const auto value = hparams.find(name);
    if (!range.is_object() || value == hparams.end()) continue;
    const std::string path = prefix + name;
    if (!HasType(range)) {
      if (value->is_object()) {
        AppendSearched(range, *value, path + '.', unread, found);
      }
    } else if (range.at("type") != "const" && IsUnread(*value, path, unread)) {
      found.push_back(path);
    }
  }
}

}  // namespace

void UnreadHparams::Record(const std::vector<std::string>& unread) {
  const std::set<std::string> now(unread.begin(), unread.end());
  if (!names_) {
    names_ = now;
    return;
  }
  std::erase_if(*names_,
                [&](const std::string& name) { return !now.contains(name); });
}

std::optional<std::vector<std::string>> UnreadHparams::names() const {
  if (!names_) return std::nullopt;
  return std::vector<std::string>(names_->begin(), names_->end());
}

std::vector<std::string> UnreadHparams::Searched(
    const nlohmann::json& hparams,
    const std::vector<std::string>& unread) const {
  std::vector<std::string> found;
  if (space_.is_object() && hparams.is_object()) {
    AppendSearched(space_, hparams, "", unread, found);
  }
  return found;
}

}  // namespace dtrain
