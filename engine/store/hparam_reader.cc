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

// Takes the token and the blanks after it.
bool Take(std::string_view token, std::string_view& text) {
  if (!text.starts_with(token)) return false;
  text.remove_prefix(token.size());
  while (text.starts_with(' ')) text.remove_prefix(1);
  return true;
}

// Takes a string of printable ASCII characters without escapes.
std::optional<std::string_view> TakeString(std::string_view& text) {
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

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool IsOfNumber(char c) {
  return IsDigit(c) || c == '.' || c == '-' || c == '+' || c == 'e' || c == 'E';
}

template <typename Number>
std::optional<nlohmann::json> NumberOf(std::string_view token) {
  Number number = 0;
  const char* const end = token.data() + token.size();
  const auto [rest, error] = std::from_chars(token.data(), end, number);
  if (error != std::errc() || rest != end) return std::nullopt;
  return nlohmann::json(number);
}

// Takes a number, as the type that a parser gives it.
std::optional<nlohmann::json> TakeNumber(std::string_view& text) {
  const auto end = std::ranges::find_if_not(text, IsOfNumber);
  const std::string_view token(text.begin(), end);
  const std::string_view digits = token.substr(token.starts_with('-') ? 1 : 0);
  // JSON has no leading zeros, and a digit on both sides of a point.
  const bool is_plain =
      !digits.empty() && IsDigit(digits[0]) && digits.back() != '.' &&
      !(digits.size() > 1 && digits[0] == '0' && IsDigit(digits[1])) &&
      digits.find(".e") == digits.npos && digits.find(".E") == digits.npos;
  if (!is_plain) return std::nullopt;
  text.remove_prefix(token.size());
  if (!std::ranges::all_of(digits, IsDigit)) return NumberOf<double>(token);
  return digits.size() == token.size() ? NumberOf<std::uint64_t>(token)
                                       : NumberOf<std::int64_t>(token);
}

std::optional<nlohmann::json> TakeScalar(std::string_view& text) {
  if (const auto string = TakeString(text)) return std::string(*string);
  if (Take("true", text)) return true;
  if (Take("false", text)) return false;
  if (Take("null", text)) return nlohmann::json(nullptr);
  return TakeNumber(text);
}

}  // namespace

HparamReader::HparamReader(std::vector<std::string> names)
    : names_(std::move(names)) {
  for (std::size_t i = 0; i < names_.size(); ++i) {
    is_ambiguous_ |= !indices_.emplace(names_[i], i).second;
  }
}

std::size_t HparamReader::IndexOf(const std::string& prefix,
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
  const auto name = TakeString(text);
  // FindMember prefers a name with a dot to a nested one.
  if (!name || name->find('.') != name->npos || !Take(":", text)) return false;
  const std::size_t index = IndexOf(prefix, *name);
  if (text.starts_with('{')) {
    if (index != kNone) return false;
    return ReadObject(text, prefix + std::string(*name) + ".");
  }
  auto value = TakeScalar(text);
  if (!value) return false;
  if (index != kNone) values_[index] = *std::move(value);
  return true;
}

bool HparamReader::ReadObject(std::string_view& text,
                              const std::string& prefix) {
  // No search nests this deep, and the stack is finite.
  constexpr auto kMaxLevels = 20;
  if (std::ranges::count(prefix, '.') > kMaxLevels) return false;
  if (!Take("{", text)) return false;
  if (Take("}", text)) return true;
  while (ReadMember(text, prefix)) {
    if (Take("}", text)) return true;
    if (!Take(",", text)) return false;
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
