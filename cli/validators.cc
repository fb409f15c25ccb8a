#include "cli/validators.h"

#include <charconv>
#include <string>

namespace dtrain {

CLI::Validator WholeNumber(std::int64_t least) {
  // CLI11 takes a text as what is wrong, an empty one as consent.
  const auto check = [least](const std::string& text) -> std::string {
    std::int64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc() && rest == end && value >= least) return "";
    return "wants a whole number of at least " + std::to_string(least) +
           ", not '" + text + "'";
  };
  return {check, /*description=*/"", "whole number"};
}

}  // namespace dtrain
