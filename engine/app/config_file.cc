// Reading a configuration file for a command, with the models of this build.
//
// engine/config checks keys and values without knowing any model. What a model
// reads comes from the table of built-in models, or is unknown if the context
// has a model_def.cpp. A recorded configuration is read with weaker rules: an
// experiment of an earlier version must remain readable even if its model has
// other hyperparameters today.

#include "engine/app/config_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <functional>
#include <string_view>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/app/notices.h"
#include "engine/app/slurm_workers.h"
#include "engine/base/error.h"
#include "engine/base/rounding.h"
#include "engine/base/text.h"
#include "engine/config/read_config.h"
#include "engine/config/schema.h"
#include "engine/config/value_reader.h"
#include "engine/config/yaml_reader.h"
#include "engine/os/system_error.h"
#include "engine/os/unique_fd.h"
#include "engine/plugin/model_sources.h"
#include "models/table.h"

namespace dtrain {
namespace {

constexpr std::size_t kLargest = 1'000'000;

[[noreturn]] void Refuse(const std::string& path, const std::string& why) {
  throw Error(ErrorKind::kUsage, path + ": " + why);
}

// Returns an empty string if the working directory no longer exists: relative
// paths are then impossible.
std::string AbsoluteDirectory(const std::filesystem::path& directory) {
  std::error_code error;
  const auto absolute = std::filesystem::absolute(directory, error);
  return error ? "" : absolute.lexically_normal().string();
}

UniqueFd Open(const std::string& path) {
  UniqueFd file(path == "-" ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                            : open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file) return file;
  if (errno == ENOENT) {
    Refuse(path, "no such file; give the path of an experiment YAML");
  }
  Refuse(path, std::string("cannot read: ") + ErrnoText());
}

std::string_view SeverityName(Severity severity) {
  switch (severity) {
    case Severity::kError:
      return "error";
    case Severity::kWarning:
      return "warning";
    case Severity::kNote:
      return "note";
    case Severity::kNotYet:
      return "not_yet";
  }
  return "error";
}

// Returns the hyperparameters of built-in models; those of a model in `context`
// are unknown.
std::function<std::vector<HparamRule>(const std::string&)> RulesIn(
    const std::filesystem::path& context) {
  return [context](const std::string& entrypoint) {
    std::vector<HparamRule> rules;
    const ModelEntry* model = FindModel(entrypoint);
    if (model == nullptr || HasOwnModel(entrypoint, context)) return rules;
    for (const HparamDoc& hparam : model->hparams) {
      rules.push_back({.name = hparam.name,
                       .type = hparam.type,
                       .required = hparam.default_value.empty(),
                       .unused = hparam.unused,
                       .find_fault = hparam.find_fault});
    }
    return rules;
  };
}

// True for a note that PrintDiagnostics may count instead of printing it. A key
// of an override was just typed, so its note is always printed.
bool IsIgnoredInFile(const Diagnostic& diagnostic) {
  return diagnostic.is_ignored_key && diagnostic.line > 0;
}

}  // namespace

std::string ReadConfigFile(const std::string& path) {
  const UniqueFd file = Open(path);
  struct stat status {};
  if (file && fstat(file.get(), &status) == 0 && S_ISDIR(status.st_mode)) {
    Refuse(path, "is a directory; give the path of the YAML file in it");
  }
  std::string text;
  std::array<char, 65536> buffer;
  while (text.size() <= kLargest) {
    const ssize_t got = read(file.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) Refuse(path, std::string("cannot read: ") + ErrnoText());
    if (got == 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  Refuse(path,
         "is larger than 1 MB, the limit for an experiment YAML; give another "
         "file");
}

ConfigResult ParseConfigText(const std::string& text, const std::string& path,
                             const std::vector<std::string>& overrides,
                             const std::filesystem::path& context,
                             Checks checks, bool is_generated) {
  std::vector<std::string> known = Entrypoints();
  const std::string own = "model_def:*";
  if (HasOwnModel(own, context)) known.push_back(own);
  ReadOptions options{.file_name = path == "-" ? "stdin" : path,
                      .directory = AbsoluteDirectory(ParentDirectory(path)),
                      .overrides = overrides,
                      .known_entrypoints = std::move(known),
                      .is_generated = is_generated,
                      .in_allocation = InAllocation()};
  options.find_python = [context](const std::string& module) {
    for (const auto& file :
         {context / (module + ".py"), context / module / "__init__.py"}) {
      std::error_code ignored;
      if (std::filesystem::is_regular_file(file, ignored)) return file.string();
    }
    return std::string();
  };
  if (checks == Checks::kTrial) {
    options.refuse_unknown_entrypoint = true;
    options.hparam_rules = RulesIn(context);
  }
  return ReadConfig(text, options);
}

ReadOptions RecordedOptions(const std::string& where,
                            std::vector<std::string> overrides,
                            const std::filesystem::path& context) {
  return {.file_name = where,
          .directory = AbsoluteDirectory("."),
          .overrides = std::move(overrides),
          .hparam_rules = RulesIn(context),
          .recorded = true,
          .is_generated = true};
}

std::filesystem::path ParentDirectory(const std::string& path) {
  const auto directory = std::filesystem::path(path).parent_path();
  return directory.empty() ? "." : directory;
}

std::string QuotedForYaml(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false,
                                   nlohmann::json::error_handler_t::replace);
}

std::string ListenOverride(const std::string& address) {
  return "resources.listen=" +
         (address.starts_with('[') ? QuotedForYaml(address) : address);
}

void PrintDiagnostics(const Diagnostics& diagnostics,
                      const GlobalOptions& globals) {
  const auto ignored = std::ranges::count_if(diagnostics, IsIgnoredInFile);
  const bool summarize = ignored > 1 && !globals.verbose;
  if (summarize && !globals.quiet) {
    const auto first = std::ranges::find_if(diagnostics, IsIgnoredInFile);
    PrintLine(globals, first->file + ": note: " + std::to_string(ignored) +
                           " keys of Determined have no effect here; -v shows "
                           "them");
  }
  for (const Diagnostic& diagnostic : diagnostics) {
    const bool note = diagnostic.severity == Severity::kNote;
    if (note && globals.quiet) continue;
    if (summarize && IsIgnoredInFile(diagnostic)) continue;
    PrintLine(globals, diagnostic.ToString());
  }
}

std::string Refusal(const Diagnostics& diagnostics, bool not_yet) {
  const auto count = [&](Severity severity) {
    return std::ranges::count(diagnostics, severity, &Diagnostic::severity);
  };
  const auto errors = count(Severity::kError);
  const auto missing = not_yet ? count(Severity::kNotYet) : 0;
  std::vector<std::string> parts;
  if (errors > 0) parts.push_back(CountText(errors, "error"));
  if (missing > 0) {
    parts.push_back(CountText(missing, "feature") +
                    " that this version does not support yet");
  }
  return Join(parts, " and ");
}

nlohmann::json DiagnosticsJson(const Diagnostics& diagnostics) {
  nlohmann::json array = nlohmann::json::array();
  for (const Diagnostic& diagnostic : diagnostics) {
    array.push_back({{"severity", SeverityName(diagnostic.severity)},
                     {"file", diagnostic.file},
                     {"line", diagnostic.line},
                     {"column", diagnostic.column},
                     {"key", diagnostic.key},
                     {"message", diagnostic.message}});
  }
  return array;
}

std::vector<std::string> SlotOverrides(const std::string& slots) {
  if (slots.empty()) return {};
  const std::string word(Trim(slots));
  static constexpr std::string_view kDigits = "0123456789abcdefABCDEFxo_+-";
  const bool is_number = !word.empty() &&
                         word.find_first_not_of(kDigits) == word.npos &&
                         word.find_first_of("0123456789") <= 1;
  if (is_number) {
    const bool plain = word.find_first_not_of("0123456789") == word.npos &&
                       word.find_first_not_of('0') != word.npos;
    const std::string number = plain ? word : "N";
    const std::string ending = number == "1" ? "" : "s";
    throw Error(ErrorKind::kUsage,
                "--slots: '" + slots + "' is ambiguous; write gpu:" + number +
                    " for " + number + " GPU" + ending + ", [" + number +
                    "] for GPU " + number + ", or cpu:" + number + " for " +
                    number + " CPU slot" + ending);
  }
  if (slots != "all") return {"resources.slots=" + slots};
  return {"resources.slots=auto", "resources.slots_per_trial=all"};
}

namespace {

[[noreturn]] void FailSlots(const std::string& slots) {
  throw Error(ErrorKind::kUsage,
              "--slots: '" + slots +
                  "' is not valid here; expected auto, all, none, cpu, cpu:N, "
                  "gpu:N, most_free, or GPU numbers such as [0, 1]");
}

}  // namespace

ResourcesConfig ResourcesOn(const nlohmann::json& config,
                            const std::string& slots,
                            std::vector<std::string> overrides) {
  for (std::string& override : SlotOverrides(slots)) {
    overrides.push_back(std::move(override));
  }
  const ConfigResult read =
      ReadConfig(ToYaml(config), {.file_name = "the recorded configuration",
                                  .overrides = overrides,
                                  .is_generated = true});
  if (read.config) return read.config->resources;
  if (!slots.empty()) FailSlots(slots);
  const auto error = std::ranges::find(read.diagnostics, Severity::kError,
                                       &Diagnostic::severity);
  throw Error(ErrorKind::kUsage, error == read.diagnostics.end()
                                     ? "the recorded configuration is invalid"
                                     : error->ToString());
}

SlotChoice ParseSlotChoice(const std::string& slots) {
  ExperimentConfig config;
  if (SlotOverrides(slots).size() != 1) return config.resources.slots;
  const KeySpec& key = *FindKey("resources.slots");
  Findings findings = Findings::Discarding();
  const auto node = ReadYaml(slots, {}, findings);
  if (!node || node->kind == Node::Kind::kNull) FailSlots(slots);
  const auto value = ReadValue(key, *node, findings);
  if (!value) FailSlots(slots);
  key.store(*value, config);
  return config.resources.slots;
}

}  // namespace dtrain
