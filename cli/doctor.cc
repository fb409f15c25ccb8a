#include "engine/app/doctor.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>

#include <unistd.h>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "engine/app/stores.h"
#include "engine/base/error.h"
#include "engine/base/text.h"

namespace dtrain {
namespace {

struct DoctorOptions : JsonOption {};

void Append(DoctorFindings& all, DoctorFindings more) {
  std::ranges::move(more, std::back_inserter(all));
}

bool HasDamage(const DoctorFindings& findings) {
  return std::ranges::any_of(findings, [](const Finding& finding) {
    return finding.kind == Finding::Kind::kDamage;
  });
}

void CheckStore(const StoreLayout& layout, const GlobalOptions& globals,
                DoctorFindings& all) {
  std::error_code error;
  if (!std::filesystem::exists(layout.Database(), error)) {
    all.push_back({"database", Finding::Kind::kWell,
                   layout.root().string() +
                       ": no store yet; 'dtrain create' creates it"});
    return;
  }
  try {
    const Store store = Store::OpenForReading(layout);
    Append(all, CheckDatabase(store));
    if (!HasDamage(all)) Append(all, CheckExperiments(store, globals));
  } catch (const Error& damage) {
    all.push_back({"database", Finding::Kind::kDamage, damage.what()});
  }
  Append(all, CheckSurroundings(layout));
}

std::string_view KindName(Finding::Kind kind) {
  switch (kind) {
    case Finding::Kind::kWell:
      return "ok";
    case Finding::Kind::kRemark:
      return "finding";
    case Finding::Kind::kDamage:
      return "damage";
  }
  return "";
}

void Print(const DoctorFindings& findings, const GlobalOptions& globals) {
  const TerminalMode mode = GetTerminalMode(STDOUT_FILENO, globals.color);
  for (const Finding& finding : findings) {
    const Tone tone = finding.kind == Finding::Kind::kWell     ? Tone::kGood
                      : finding.kind == Finding::Kind::kRemark ? Tone::kWarning
                                                               : Tone::kBad;
    std::string kind(KindName(finding.kind));
    kind.resize(9, ' ');
    std::string check = finding.check;
    check.resize(13, ' ');
    std::cout << Paint(mode, tone, kind) << check
              << EscapeForTerminal(finding.text) << '\n';
  }
}

int Doctor(const DoctorOptions& options, const GlobalOptions& globals) {
  const StoreLayout layout = FindStore(globals);
  DoctorFindings findings;
  CheckStore(layout, globals, findings);
  Append(findings, CheckMachine());
  const bool well = std::ranges::all_of(findings, [](const Finding& finding) {
    return finding.kind == Finding::Kind::kWell;
  });
  if (options.json) {
    nlohmann::json checks = nlohmann::json::array();
    for (const Finding& finding : findings) {
      checks.push_back({{"check", finding.check},
                        {"status", KindName(finding.kind)},
                        {"text", finding.text}});
    }
    PrintJson({{"store", layout.root().string()},
               {"ok", well},
               {"checks", std::move(checks)}});
  } else {
    Print(findings, globals);
  }
  if (HasDamage(findings)) return kExitStore;
  return well ? kExitDone : kExitFailed;
}

}  // namespace

CommandRun SetUpDoctor(CLI::App& app) {
  auto options = std::make_shared<DoctorOptions>();
  AddJsonOption(app, *options);
  SetHelp(app, {.exits = {{kExitDone, "no problem found"},
                          {kExitFailed, "there are findings"},
                          {kExitUsage},
                          {kExitStore, "the database is damaged"}},
                .examples = {{"Check the current store", "dtrain doctor"},
                             {"Check another store, for a script",
                              "dtrain --store /data/dtrain doctor --json"}}});
  return RunWith(Doctor, options);
}

}  // namespace dtrain
