// Values of environment variables may be secrets. They are therefore read
// separately (EnvironmentValues) and kept only in memory; the effective
// configuration, which is stored and printed, has the names with null, and
// findings never quote a value.
//
// A value may also come back in what a trial reports. WithoutValues replaces it
// there, line by line and the longest text first, including a beginning that
// was left when the message was shortened. Lines of fewer than four bytes are
// left alone: a value such as "1" would hide half of each message.

#include "engine/config/environment.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/text.h"

namespace dtrain {
namespace {

bool IsName(std::string_view text) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
  constexpr std::string_view kAllowed =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
  return !text.empty() && kLetters.find(text[0]) != kLetters.npos &&
         text.find_first_not_of(kAllowed) == text.npos;
}

// One variable of the YAML. Without a value it is taken from the shell.
struct Variable {
  std::string name;
  std::optional<std::string> value;
  Mark mark;
  bool valid = true;
};

// Determined's names of devices, and ours. They are not names of variables.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4>
    kDevices = {
        {{"cpu", "cpu"}, {"cuda", "cuda"}, {"gpu", "cuda"}, {"rocm", "rocm"}}};

// Returns the device whose variables `entry` contains; "" for a variable.
std::string_view FindDevice(const Node::Entry& entry) {
  for (const auto& [name, device] : kDevices) {
    if (entry.key == name) return device;
  }
  return "";
}

// Returns the variables of `node`, without those of a device. `nested`: `node`
// is the map of a device.
std::vector<Variable> Variables(const Node& node, bool nested) {
  std::vector<Variable> all;
  for (const Node::Entry& entry : node.entries) {
    if (!nested && !FindDevice(entry).empty()) continue;
    Variable variable{entry.key, std::nullopt, entry.mark};
    variable.valid = entry.value.IsScalar();
    if (!entry.value.is_null()) variable.value = entry.value.text;
    all.push_back(std::move(variable));
  }
  for (const Node& item : node.items) {
    const std::size_t equals = item.text.find('=');
    Variable variable{item.text.substr(0, equals), std::nullopt, item.mark};
    variable.valid = item.is_string();
    if (equals != item.text.npos) {
      variable.value = item.text.substr(equals + 1);
    }
    all.push_back(std::move(variable));
  }
  return all;
}

// Returns the names of the variables of `node`, each with null.
nlohmann::json ReadNames(const Node& node, const std::string& path, bool nested,
                         Findings& findings) {
  auto names = nlohmann::json::object();
  for (const Variable& variable : Variables(node, nested)) {
    const std::string place =
        IsName(variable.name) ? JoinPath(path, variable.name) : path;
    if (!variable.valid) {
      findings.Error(variable.mark, place,
                     node.is_map()
                         ? "expected a string or a number as its value"
                         : "expected a string such as NAME=value");
    } else if (!IsName(variable.name)) {
      findings.Error(variable.mark, place,
                     "a name consists of letters, digits and underscores and "
                     "does not start with a digit; write NAME=value");
    } else if (names.contains(variable.name)) {
      findings.Error(variable.mark, place, "duplicate variable; remove one");
    }
    names[variable.name] = nullptr;
  }
  return names;
}

void AddValues(const Node& node, bool nested, EnvironmentVariables& values) {
  for (Variable& variable : Variables(node, nested)) {
    if (!variable.value) continue;
    values.emplace_back(std::move(variable.name), *std::move(variable.value));
  }
}

void Append(const EnvironmentVariables& from, EnvironmentVariables& to) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

EnvironmentVariables TrialEnvironment::For(bool on_gpus) const {
  EnvironmentVariables all = everywhere;
  for (const auto& variable : on_gpus ? cuda : cpu) {
    std::erase_if(
        all, [&](const auto& other) { return other.first == variable.first; });
    all.push_back(variable);
  }
  return all;
}

EnvironmentVariables TrialEnvironment::All() const {
  EnvironmentVariables all = everywhere;
  Append(cpu, all);
  Append(cuda, all);
  Append(rocm, all);
  return all;
}

EnvironmentVariables& TrialEnvironment::ForDevice(std::string_view device) {
  if (device == "cpu") return cpu;
  if (device == "cuda") return cuda;
  return device == "rocm" ? rocm : everywhere;
}

std::optional<nlohmann::json> ReadEnvironment(const Node& node,
                                              const std::string& path,
                                              Findings& findings) {
  if (node.IsScalar()) {
    findings.Error(node.mark, path,
                   "expected a map, or a list of NAME=value strings");
    return std::nullopt;
  }
  const int before = findings.errors();
  nlohmann::json names = ReadNames(node, path, /*nested=*/false, findings);
  for (const Node::Entry& entry : node.entries) {
    const std::string device(FindDevice(entry));
    if (device.empty()) continue;
    const std::string place = JoinPath(path, entry.key);
    if (entry.value.is_null()) continue;
    if (entry.value.IsScalar()) {
      findings.Error(entry.value.mark, place,
                     "expected the variables of trials on this kind of device; "
                     "write a list such as [NAME=value]");
    } else if (device == "rocm") {
      ReadNames(entry.value, place, /*nested=*/true, findings);
      findings.Ignored(entry.mark, place, "AMD GPUs are not used");
    } else if (names.contains(device)) {
      findings.Error(entry.mark, place,
                     "means the same as " +
                         std::string(entry.key == "gpu" ? "cuda" : "gpu") +
                         "; remove one");
    } else {
      names[device] = ReadNames(entry.value, place, /*nested=*/true, findings);
    }
  }
  if (findings.errors() > before) return std::nullopt;
  return names;
}

TrialEnvironment EnvironmentValues(const Node& node) {
  TrialEnvironment values;
  AddValues(node, /*nested=*/false, values.everywhere);
  for (const Node::Entry& entry : node.entries) {
    const std::string_view device = FindDevice(entry);
    if (device.empty()) continue;
    AddValues(entry.value, /*nested=*/true, values.ForDevice(device));
  }
  return values;
}

namespace {

constexpr std::size_t kMinHidden = 4;

}  // namespace

std::string WithoutValues(std::string text,
                          const EnvironmentVariables& variables) {
  constexpr std::string_view kHidden = kHiddenValue;
  constexpr std::string_view kCut = "...";
  // The lines of the values, since a message is one line, the longest first,
  // since one may contain another.
  std::vector<std::string> hidden_texts;
  for (const auto& [name, value] : variables) {
    for (std::string& line : Split(value, '\n')) {
      if (line.ends_with('\r')) line.pop_back();
      if (line.size() >= kMinHidden) hidden_texts.push_back(std::move(line));
    }
  }
  std::ranges::stable_sort(hidden_texts, std::ranges::greater(),
                           &std::string::size);
  for (const std::string& hidden : hidden_texts) {
    for (std::size_t at = text.find(hidden); at != text.npos;
         at = text.find(hidden, at + kHidden.size())) {
      text.replace(at, hidden.size(), kHidden);
    }
    // The beginning of `hidden` where Truncate has cut the rest off.
    for (std::size_t at = text.find(kCut); at != text.npos;
         at = text.find(kCut, at + kCut.size())) {
      std::size_t length = std::min(at, hidden.size() - 1);
      while (length >= kMinHidden &&
             text.compare(at - length, length, hidden, 0, length) != 0) {
        --length;
      }
      if (length < kMinHidden) continue;
      text.replace(at - length, length, kHiddenValue);
      at = text.find(kCut, at - length);
    }
  }
  return text;
}

}  // namespace dtrain
