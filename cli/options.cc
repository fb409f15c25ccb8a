#include "cli/options.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <utility>

#include <CLI/CLI.hpp>

#include "engine/base/text.h"

namespace dtrain {
namespace {

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

// "a, b or c". REQUIRES: there is a word.
std::string Alternatives(std::vector<std::string> words) {
  const std::string last = std::move(words.back());
  words.pop_back();
  return words.empty() ? last : Join(words, ", ") + " or " + last;
}

CLI::Validator OneWord(const std::vector<std::string>& words) {
  const std::string all = Join(words, ",");
  const auto check = [words](const std::string& text) -> std::string {
    if (std::ranges::find(words, text) != words.end()) return "";
    return "wants " + Alternatives(words) + ", not '" + text + "'" +
           DidYouMean(text, words);
  };
  return {check, "{" + all + "}", "word"};
}

}  // namespace

const CliOption& CliOption::Required() const {
  option_->required();
  return *this;
}

const CliOption& CliOption::TypeName(const std::string& name) const {
  option_->type_name(name);
  return *this;
}

const CliOption& CliOption::ShowDefault() const {
  option_->capture_default_str();
  return *this;
}

const CliOption& CliOption::IsPath() const {
  option_->check(CLI::Validator(
      [](const std::string& text) -> std::string {
        return text.empty() ? "is empty; give a path, or leave it out" : "";
      },
      /*description=*/"", "path"));
  return *this;
}

const CliOption& CliOption::OneEach() const {
  option_->allow_extra_args(false);
  return *this;
}

const CliOption& CliOption::AtLeast(std::int64_t least) const {
  option_->check(WholeNumber(least));
  return *this;
}

const CliOption& CliOption::OneOf(const std::vector<std::string>& words) const {
  option_->check(OneWord(words));
  return *this;
}

const CliOption& CliOption::Excludes(const CliOption& other) const {
  option_->excludes(other.option_);
  return *this;
}

const CliOption& CliOption::Needs(const CliOption& other) const {
  option_->needs(other.option_);
  return *this;
}

CliOption AddFlag(CLI::App& app, const std::string& names, bool& to,
                  const std::string& help) {
  CLI::Option* const option = app.add_flag(names, to, help);
  if (help.empty()) option->group("");
  return CliOption(option);
}

template <typename T>
CliOption AddOption(CLI::App& app, const std::string& names, T& to,
                    const std::string& help) {
  return CliOption(app.add_option(names, to, help));
}

template CliOption AddOption(CLI::App&, const std::string&, std::string&,
                             const std::string&);
template CliOption AddOption(CLI::App&, const std::string&,
                             std::vector<std::string>&, const std::string&);
template CliOption AddOption(CLI::App&, const std::string&, std::int64_t&,
                             const std::string&);
template CliOption AddOption(CLI::App&, const std::string&, std::size_t&,
                             const std::string&);
template CliOption AddOption(CLI::App&, const std::string&,
                             std::optional<std::string>&, const std::string&);
template CliOption AddOption(CLI::App&, const std::string&,
                             std::optional<std::int64_t>&, const std::string&);
template CliOption AddOption(CLI::App&, const std::string&, std::optional<int>&,
                             const std::string&);

void SetFooter(CLI::App& app, const std::string& text) { app.footer(text); }

void OnParsed(CLI::App& app, std::function<void()> parsed) {
  app.callback(std::move(parsed));
}

CLI::App& AddSubcommand(CLI::App& app, const std::string& name,
                        const std::string& summary) {
  return *app.add_subcommand(name, summary);
}

bool HasNamedSubcommand(const CLI::App& app) {
  return !app.get_subcommands().empty();
}

}  // namespace dtrain
