#include "engine/page/redaction.h"

#include <string>
#include <string_view>
#include <vector>

namespace dtrain {
namespace {

using nlohmann::json;

constexpr char kRemoved[] = "[removed]";
constexpr std::string_view kEndsOfPaths = " \t\n\"'`,;()[]{}<>|=";

// True if a path can begin at `at`: an absolute one, or one of a home
// directory. The slash of "images/s" or of "https://" does not begin one.
bool BeginsPath(std::string_view text, std::size_t at) {
  if (at > 0 && kEndsOfPaths.find(text[at - 1]) == text.npos &&
      text[at - 1] != ':') {
    return false;
  }
  const std::string_view rest = text.substr(at);
  if (rest.starts_with("~/")) return true;
  return rest.size() > 1 && rest[0] == '/' && rest[1] != ' ' && rest[1] != '/';
}

std::string WithoutPaths(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    if (!BeginsPath(text, i)) {
      result += text[i++];
      continue;
    }
    result += kRemoved;
    const std::size_t end = text.find_first_of(kEndsOfPaths, i);
    i = end == text.npos ? text.size() : end;
  }
  return result;
}

void Replace(std::string& text, const std::string& secret) {
  for (std::size_t at = 0; (at = text.find(secret, at)) != text.npos;) {
    text.replace(at, secret.size(), kRemoved);
    at += sizeof kRemoved - 1;
  }
}

// Removes paths and `secrets` from all texts, names of fields apart.
void RemoveFrom(json& value, const std::vector<std::string>& secrets) {
  if (value.is_string()) {
    std::string text = WithoutPaths(value.get_ref<const std::string&>());
    for (const std::string& secret : secrets) Replace(text, secret);
    value = std::move(text);
  } else if (value.is_structured()) {
    for (json& one : value) RemoveFrom(one, secrets);
  }
}

// Removes the line of a program's log that the reason of a failure ends with.
void RemoveLogLine(json& reason) {
  if (!reason.is_string()) return;
  auto& text = reason.get_ref<std::string&>();
  for (const std::string_view before :
       {"before they reported: ", "exited with code ", "killed by signal "}) {
    const std::size_t at = text.find(before);
    if (at == text.npos) continue;
    // The code or the signal follows.
    const std::size_t line =
        before.ends_with(": ") ? at + before.size() : text.find(": ", at);
    if (line == text.npos) continue;
    text = text.substr(0, line + (before.ends_with(": ") ? 0 : 2)) + kRemoved;
    return;
  }
}

// Names of the host and the user, if they are long enough to be unmistakable.
std::vector<std::string> FindSecrets(const json& provenance) {
  constexpr std::size_t kMinLength = 4;
  std::vector<std::string> secrets;
  for (const char* field : {"host", "user"}) {
    const auto found = provenance.find(field);
    if (found == provenance.end() || !found->is_string()) continue;
    const auto& text = found->get_ref<const std::string&>();
    if (text.size() >= kMinLength) secrets.push_back(text);
  }
  return secrets;
}

}  // namespace

void Redact(json& experiment) {
  json& provenance = experiment["provenance"];
  const std::vector<std::string> secrets = provenance.is_object()
                                               ? FindSecrets(provenance)
                                               : std::vector<std::string>();
  json kept = json::object();
  for (const char* field :
       {"git", "kernel", "cpu", "gpus", "slots", "libraries", "version"}) {
    if (provenance.contains(field)) kept[field] = provenance[field];
  }
  provenance = std::move(kept);
  experiment["logs"] = json::object();
  if (experiment.contains("slots")) experiment["slots"] = json::object();
  if (auto& best = experiment["best"]; best.is_object()) best.erase("files");
  if (experiment.contains("error")) RemoveLogLine(experiment["error"]);
  if (experiment.contains("reasons")) {
    for (json& reason : experiment["reasons"]) RemoveLogLine(reason);
  }
  if (auto& config = experiment["config"]; config.is_object()) {
    config.erase("environment");
  }
  RemoveFrom(experiment, secrets);
}

}  // namespace dtrain
