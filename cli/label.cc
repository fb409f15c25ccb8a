#include <algorithm>
#include <iostream>
#include <map>
#include <memory>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "engine/app/stores.h"
#include "engine/base/error.h"
#include "engine/base/text.h"

namespace dtrain {
namespace {

struct LabelOptions : JsonOption {
  std::vector<std::string> experiments;
  std::vector<std::string> add;
  std::vector<std::string> remove;
};

void CheckLabelOptions(const LabelOptions& options) {
  for (const std::string& label : options.add) {
    if (label.empty() || !IsValidUtf8(label)) {
      throw Error(
          ErrorKind::kUsage,
          "--add: '" + label + "' is not a label; give non-empty UTF-8 text");
    }
    constexpr std::size_t kMaxWidth = 100;  // as tables and pages have room for
    if (DisplayWidth(label) <= kMaxWidth) continue;
    throw Error(ErrorKind::kUsage,
                "--add: '" + Truncate(label, 20) +
                    "' is not a label; give at most 100 characters");
  }
  for (const std::string& label : options.add) {
    if (std::ranges::count(options.remove, label) == 0) continue;
    throw Error(
        ErrorKind::kUsage,
        "label: '" + label +
            "' is given to both --add and --remove; choose one of them");
  }
  if (!options.add.empty() || !options.remove.empty()) return;
  throw Error(ErrorKind::kUsage,
              "label: nothing to change; give --add LABEL or --remove LABEL");
}

std::vector<std::string> Changed(std::vector<std::string> labels,
                                 const LabelOptions& options) {
  std::erase_if(labels, [&](const std::string& label) {
    return std::ranges::count(options.remove, label) > 0;
  });
  for (const std::string& label : options.add) {
    if (std::ranges::count(labels, label) == 0) labels.push_back(label);
  }
  return labels;
}

int Label(const LabelOptions& options, const GlobalOptions& globals) {
  CheckLabelOptions(options);
  const auto ids = ResolveExperiments(OpenStore(globals), options.experiments);
  Store store = OpenStoreToChange(globals, ids);
  std::map<std::int64_t, std::vector<std::string>> labels;
  store.Write([&](StoreWriter& writer) {
    for (const std::int64_t id : ids) {
      // Read inside the transaction, so that no other writer interferes.
      labels[id] = Changed(FindExperiment(store, id).labels, options);
      writer.SetLabels(id, labels[id]);
    }
  });
  nlohmann::json array = nlohmann::json::array();
  for (const std::int64_t id : ids) {
    if (options.json) {
      array.push_back({{"experiment", id}, {"labels", labels[id]}});
    } else {
      std::cout << "experiment " << id << ": "
                << EscapeForTerminal(Join(labels[id], ", ")) << '\n';
    }
  }
  if (options.json) PrintJson({{"experiments", std::move(array)}});
  return kExitDone;
}

}  // namespace

CommandRun SetUpLabel(CLI::App& app) {
  auto options = std::make_shared<LabelOptions>();
  AddOption(app, "EXP", options->experiments, "Experiment IDs (3)").Required();
  AddOption(app, "--add", options->add, "Add a label (repeatable)")
      .TypeName("LABEL")
      .OneEach();
  AddOption(app, "--remove", options->remove, "Remove a label (repeatable)")
      .TypeName("LABEL")
      .OneEach();
  AddJsonOption(app, *options);
  SetHelp(app,
          {.exits = {{kExitDone}, {kExitUsage}, {kExitNotFound}, {kExitStore}},
           .examples = {
               {"Label two experiments", "dtrain label 3 4 --add baseline"},
               {"List the experiments with a label",
                "dtrain list --label baseline"}}});
  return RunWith(Label, options);
}

}  // namespace dtrain
