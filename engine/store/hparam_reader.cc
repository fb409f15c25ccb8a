// A search of 10,000 trials with 32 hyperparameters stores 8 MB of JSON; to
// turn it into objects takes 110 ms. The reader scans the texts that dtrain
// writes: objects of numbers, words and plain strings, nested or not.
// All trials of a search have the same names in the same order, so a name is
// compared with the one in its place in the text before, and looked up only if
// it differs. Any other text, such as one with arrays or escapes, is parsed.

#include "engine/store/hparam_reader.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <system_error>

#include "engine/base/json.h"
#include "engine/store/statements.h"

namespace dtrain {
namespace {

constexpr std::size_t kNone = std::string::npos;

// Takes the character and the blanks after it.
bool Consume(char c, std::string_view& text) {
  if (text.empty() || text.front() != c) return false;
  do text.remove_prefix(1);
  while (!text.empty() && text.front() == ' ');
  return true;
}

// Takes a string of printable ASCII characters without escapes.
std::optional<std::string_view> ParseString(std::string_view& text) {
  if (!text.starts_with('"')) return std::nullopt;
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '"') {
      const std::string_view string = text.substr(1, i - 1);
      text.remove_prefix(i + 1);
      return string;
    }
    if (text[i] == '\\' || text[i] < ' ' || text[i] > '~') return std::nullopt;
  }
  return std::nullopt;
}

// Moves past digits; false if there are none.
bool SkipDigits(std::string_view text, std::size_t& place) {
  const std::size_t begin = place;
  while (place < text.size() && text[place] >= '0' && text[place] <= '9') {
    ++place;
  }
  return place > begin;
}

bool SkipAny(std::string_view characters, std::string_view text,
             std::size_t& place) {
  for (const char c : characters) {
    if (place == text.size() || text[place] != c) continue;
    ++place;
    return true;
  }
  return false;
}

template <typename Number>
std::optional<nlohmann::json> ParseAs(std::string_view token) {
  Number number = 0;
  const char* const end = token.data() + token.size();
  const auto [rest, error] = std::from_chars(token.data(), end, number);
  if (error != std::errc() || rest != end) return std::nullopt;
  return nlohmann::json(number);
}

// Takes a number, as the type that a parser gives it.
std::optional<nlohmann::json> ParseNumber(std::string_view& text) {
  std::size_t place = 0;
  const bool is_negative = SkipAny("-", text, place);
  const bool is_below_one = SkipAny("0", text, place);
  if (!is_below_one && !SkipDigits(text, place)) return std::nullopt;
  bool is_integer = true;
  if (SkipAny(".", text, place)) {
    is_integer = false;
    if (!SkipDigits(text, place)) return std::nullopt;
  }
  if (SkipAny("eE", text, place)) {
    is_integer = false;
    SkipAny("+-", text, place);
    if (!SkipDigits(text, place)) return std::nullopt;
  }
  const std::string_view token = text.substr(0, place);
  text.remove_prefix(place);
  if (!is_integer) return ParseAs<double>(token);
  return is_negative ? ParseAs<std::int64_t>(token)
                     : ParseAs<std::uint64_t>(token);
}

std::optional<nlohmann::json> ParseWord(std::string_view word,
                                        const nlohmann::json& value,
                                        std::string_view& text) {
  if (!text.starts_with(word)) return std::nullopt;
  text.remove_prefix(word.size());
  return value;
}

}  // namespace

HparamReader::HparamReader(std::vector<std::string> names)
    : names_(std::move(names)) {
  for (std::size_t i = 0; i < names_.size(); ++i) {
    is_ambiguous_ |= !indices_.emplace(names_[i], i).second;
  }
}

std::size_t HparamReader::FindIndex(const std::string& prefix,
                                    std::string_view name) {
  const std::size_t place = next_++;
  if (place < slots_.size()) {
    const Slot& slot = slots_[place];
    if (slot.name.size() == prefix.size() + name.size() &&
        slot.name.starts_with(prefix) && slot.name.ends_with(name)) {
      return slot.index;
    }
  } else {
    slots_.emplace_back();
  }
  std::string whole = prefix + std::string(name);
  const auto found = indices_.find(whole);
  const std::size_t index = found == indices_.end() ? kNone : found->second;
  slots_[place] = {.name = std::move(whole), .index = index};
  return index;
}

// Reads "name":value. False if the text has to be parsed.
bool HparamReader::ReadMember(std::string_view& text,
                              const std::string& prefix) {
  const auto name = ParseString(text);
  // FindMember prefers a name with a dot to a nested one.
  if (!name || name->find('.') != name->npos || !Consume(':', text))
    return false;
  const std::size_t index = FindIndex(prefix, *name);
  if (text.starts_with('{')) {
    if (index != kNone) return false;
    return ReadObject(text, prefix + std::string(*name) + ".");
  }
  std::optional<nlohmann::json> value;
  switch (text.empty() ? '\0' : text.front()) {
    case '"':
      if (auto string = ParseString(text)) value = *std::move(string);
      break;
    case 't':
      value = ParseWord("true", true, text);
      break;
    case 'f':
      value = ParseWord("false", false, text);
      break;
    case 'n':
      value = ParseWord("null", nullptr, text);
      break;
    default:
      value = ParseNumber(text);
  }
  if (!value) return false;
  if (index != kNone) values_[index] = *std::move(value);
  return true;
}

bool HparamReader::ReadObject(std::string_view& text,
                              const std::string& prefix) {
  // No search nests this deep, and the stack is finite.
  constexpr auto kMaxLevels = 20;
  if (std::ranges::count(prefix, '.') > kMaxLevels) return false;
  if (!Consume('{', text)) return false;
  if (Consume('}', text)) return true;
  while (ReadMember(text, prefix)) {
    if (Consume('}', text)) return true;
    if (!Consume(',', text)) return false;
  }
  return false;
}

std::span<const nlohmann::json> HparamReader::Read(std::string_view text) {
  const nlohmann::json missing(nlohmann::json::value_t::discarded);
  values_.assign(names_.size(), missing);
  next_ = 0;
  std::string_view rest = text;
  if (!is_ambiguous_ && ReadObject(rest, "") && rest.empty()) return values_;
  const nlohmann::json hparams = JsonFromText(std::string(text));
  for (std::size_t i = 0; i < names_.size(); ++i) {
    const nlohmann::json* value = FindMember(hparams, names_[i]);
    values_[i] = value == nullptr ? missing : *value;
  }
  return values_;
}

}  // namespace dtrain
