// Writes the effective configuration in the order of the schema, so that
// `dtrain config` reads like the reference. The output must give the same
// configuration when it is read again: strings that any YAML reader could take
// for another type are quoted, and doubles keep a point or an exponent.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/text.h"
#include "engine/config/entrypoint.h"
#include "engine/config/findings.h"
#include "engine/config/read_config.h"
#include "engine/config/schema.h"
#include "engine/config/yaml_text.h"

namespace dtrain {
namespace {

using Json = nlohmann::json;

// True if `text` needs no quotes for readers of YAML 1.2 and 1.1.
bool IsPlain(std::string_view text) {
  constexpr std::string_view kFirst =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_./";
  constexpr std::string_view kRest =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_./0123456789-+@=";
  if (text.empty() || text.size() > 200 ||
      kFirst.find(text[0]) == kFirst.npos) {
    return false;
  }
  // A colon or a blank within words is plain too: `digits:LeNetTrial`.
  for (std::size_t i = 1; i < text.size(); ++i) {
    const bool between = i + 1 < text.size() && text[i + 1] != ' ';
    const bool joint = (text[i] == ':' || text[i] == ' ') && between &&
                       text[i + 1] != ':' && text[i + 1] != '#';
    if (!joint && kRest.find(text[i]) == kRest.npos) return false;
  }
  const std::vector<std::string_view> booleans = {"y",  "n",  "yes",
                                                  "no", "on", "off"};
  std::string lower(text);
  for (char& c : lower)
    c = static_cast<char>(c | (c >= 'A' && c <= 'Z' ? 32 : 0));
  return PlainScalar(std::string(text)).is_string() &&
         std::find(booleans.begin(), booleans.end(), lower) == booleans.end();
}

// Returns the length of the first character of `text` if it is not ASCII and
// must be escaped: C1 controls, line and paragraph separators, the byte order
// mark.
std::size_t SpecialLength(std::string_view text) {
  const auto c1 = [&] {
    const auto next = static_cast<unsigned char>(text[1]);
    return next >= 0x80 && next < 0xA0;
  };
  if (text.size() >= 2 && text[0] == '\xC2' && c1()) return 2;
  const std::string_view three = text.substr(0, 3);
  const bool special = three == "\xE2\x80\xA8" || three == "\xE2\x80\xA9" ||
                       three == "\xEF\xBB\xBF";
  return special ? 3 : 0;
}

std::string Escape(unsigned int code) {
  char buffer[16];
  std::snprintf(buffer, sizeof buffer, "\\u%04x", code);
  return buffer;
}

unsigned int DecodeUtf8(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return static_cast<unsigned char>(text[i]);
  };
  if (text.size() == 2) return (byte(0) & 0x1Fu) << 6 | (byte(1) & 0x3Fu);
  return (byte(0) & 0xFu) << 12 | (byte(1) & 0x3Fu) << 6 | (byte(2) & 0x3Fu);
}

std::string Quoted(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const std::size_t special = SpecialLength(text);
    const auto c = static_cast<unsigned char>(text[0]);
    if (special > 0) {
      out += Escape(DecodeUtf8(text.substr(0, special)));
    } else if (c == '"' || c == '\\') {
      out += {'\\', text[0]};
    } else if (c == '\n') {
      out += "\\n";
    } else if (c < 0x20 || c == 0x7F) {
      out += Escape(c);
    } else {
      out += text[0];
    }
    text.remove_prefix(std::max<std::size_t>(special, 1));
  }
  return out + '"';
}

std::string FormatString(std::string_view text) {
  return IsPlain(text) ? std::string(text) : Quoted(text);
}

std::string FormatScalar(const Json& json) {
  if (json.is_string()) return FormatString(json.get<std::string>());
  if (json.is_number_float()) {
    // With a point or an exponent, so that it stays a double.
    const std::string text = FormatNumber(json.get<double>());
    return text.find_first_of(".e") == text.npos ? text + ".0" : text;
  }
  return json.dump();
}

// Writes a value on one line, for lists.
std::string FormatFlow(const Json& json) {
  if (!json.is_structured()) return FormatScalar(json);
  std::string out = json.is_array() ? "[" : "{";
  for (const auto& [key, value] : json.items()) {
    if (out.size() > 1) out += ", ";
    if (json.is_object()) out += Quoted(key) + ": ";
    out += value.is_string() ? Quoted(value.get<std::string>())
                             : FormatFlow(value);
  }
  return out + (json.is_array() ? "]" : "}");
}

// Returns the keys of `map`, in the order of the schema if it is a section.
std::vector<std::string> OrderedKeys(const Json& map,
                                     const std::string& section) {
  std::vector<std::string> keys;
  const KeySpec* spec = FindKey(section);
  const bool known =
      section.empty() ||
      (spec != nullptr && (spec->type == KeyType::kSection ||
                           spec->type == KeyType::kOptionalSection));
  if (!known) {
    for (const auto& [key, value] : map.items()) keys.push_back(key);
    return keys;
  }
  keys = KeyNames(section);
  std::erase_if(keys, [&](const auto& key) { return !map.contains(key); });
  for (const auto& [key, value] : map.items()) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      keys.push_back(key);
    }
  }
  return keys;
}

void WriteMap(const Json& map, const std::string& path, std::size_t indent,
              std::string& out) {
  for (const std::string& key : OrderedKeys(map, path)) {
    const Json& value = map.at(key);
    out.append(indent, ' ').append(FormatString(key)) += ':';
    if (value.is_object() && !value.empty()) {
      out += '\n';
      WriteMap(value, JoinPath(path, key), indent + 2, out);
    } else if (value.is_array() &&
               std::ranges::any_of(value, [](const Json& item) {
                 return item.is_structured() && !item.empty();
               })) {
      out += '\n';
      for (const Json& item : value) {
        out.append(indent + 2, ' ').append("- ").append(FormatFlow(item)) +=
            '\n';
      }
    } else {
      out += ' ' +
             (value.is_structured() ? FormatFlow(value) : FormatScalar(value)) +
             '\n';
    }
  }
}

}  // namespace

std::string ToYaml(const nlohmann::json& effective) {
  std::string out;
  Json written = effective;
  if (written.is_object() && written.contains("entrypoint")) {
    written["entrypoint"] = EntrypointForYaml(written["entrypoint"]);
  }
  WriteMap(written, "", 0, out);
  return out;
}

}  // namespace dtrain
