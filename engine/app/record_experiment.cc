// Recording a new experiment with everything that it needs to run again.
//
// The files of the context and of the source checkpoint are copied to a staging
// directory first. The transaction that inserts the experiment then moves them
// to their place, because only it knows the new id. After a crash there is
// either an experiment with all of its files, or a staging directory that `gc`
// removes. If SQLite cannot say whether the transaction was committed, the
// files stay: a record without files would be worse than files without a
// record.

#include "engine/app/record_experiment.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/app/notices.h"
#include "engine/app/script_check.h"
#include "engine/app/secrets.h"
#include "engine/app/stores.h"
#include "engine/app/warm_start.h"
#include "engine/base/rounding.h"
#include "engine/base/text.h"
#include "engine/config/read_config.h"
#include "engine/context/context_links.h"
#include "engine/context/context_list.h"
#include "engine/context/staged_files.h"
#include "engine/context/stored_context.h"
#include "engine/context/working_tree.h"
#include "engine/os/files.h"
#include "engine/run/reported_units.h"
#include "engine/run/runner.h"
#include "engine/slots/slots.h"
#include "engine/store/checkpoint_storage.h"
#include "searchers/search_plan.h"

namespace dtrain {
namespace {

constexpr char kFiles[] = "context_files";
constexpr char kBytes[] = "context_bytes";
constexpr std::size_t kMaxReported = 10;
constexpr std::size_t kMaxNamed = 5;
constexpr std::int64_t kSaidBytes = 10'000'000;

// Returns the names of linked directories with their sizes: "data (1.2 GB)".
std::vector<std::string> LinkTexts(const ContextOrigin& origin) {
  std::vector<std::string> texts;
  for (const ContextLink& link : origin.links) {
    const auto files = CountLinkedFiles(link.target);
    texts.push_back(link.path + " (" +
                    (!files ? "to be made"
                     : files->complete
                         ? FormatBytes(files->bytes)
                         : FormatBytes(files->bytes) + " or more") +
                    ")");
  }
  return texts;
}

// Joins names, at most five of them.
std::string ShortList(std::vector<std::string> names) {
  const std::size_t all = names.size();
  names.resize(std::min(all, kMaxNamed));
  return Join(names, ", ") +
         (all > names.size()
              ? " and " + std::to_string(all - names.size()) + " more"
              : "");
}

void WarnAboutOmissions(const ContextList& list, const GlobalOptions& globals) {
  const std::size_t said = std::min(list.left_out.size(), kMaxReported);
  for (std::size_t i = 0; i < said; ++i) {
    PrintNotice(
        globals,
        "warning: context " + list.directory.string() + ": " +
            list.left_out[i] +
            ", so it is not stored; add it to .detignore if it is not needed");
  }
  if (said < list.left_out.size()) {
    PrintNotice(globals, "warning: and " +
                             std::to_string(list.left_out.size() - said) +
                             " more");
  }
  const std::string ignored = ShortList(list.ignored);
  const std::string links = ShortList(LinkTexts(list.origin));
  if (ignored.empty() && links.empty()) return;
  const std::string copy =
      "the copy of " + list.directory.string() + " that trials work in";
  PrintNotice(
      globals,
      "note: " +
          (ignored.empty()
               ? "linked into " + copy + ": " + links
               : "not in " + copy + ": " + ignored +
                     (links.empty() ? "" : "; linked into it: ") + links));
}

void WarnAboutSecrets(const ContextList& list, const GlobalOptions& globals) {
  std::vector<std::string> secrets = LikelySecrets(list);
  if (secrets.empty()) return;
  const std::size_t all = secrets.size();
  secrets.resize(std::min(all, kMaxReported));
  for (std::string& path : secrets) path = "'" + path + "'";
  const std::string more =
      all > secrets.size()
          ? " and " + std::to_string(all - secrets.size()) + " more"
          : "";
  PrintNotice(globals,
              "warning: context " + list.directory.string() + ": " +
                  Join(secrets, ", ") + more +
                  (all == 1 ? " looks like a secret, and a copy is"
                            : " look like secrets, and copies are") +
                  " stored with the experiment; list files that its trials do "
                  "not need in " +
                  (list.directory / ".detignore").string() +
                  " or a .gitignore");
}
// The directory of an experiment's checkpoints outside of the store; removed
// unless the experiment is recorded.
class NewStorage {
 public:
  NewStorage() = default;
  NewStorage(const NewStorage&) = delete;
  NewStorage& operator=(const NewStorage&) = delete;
  ~NewStorage() {
    std::error_code ignored;
    if (!made_.empty()) std::filesystem::remove(made_, ignored);
  }

  void Make(const Store& store, const CheckpointConfig& config,
            std::int64_t experiment) {
    if (config.path.empty()) return;
    made_ = MakeStorage(config.base, config.path, store, experiment);
  }
  void Keep() { made_.clear(); }

 private:
  std::filesystem::path made_;
};

}  // namespace

std::optional<std::pair<Diagnostic, ErrorKind>> FindStorageProblem(
    const ExperimentConfig& config, const GlobalOptions& globals) {
  const CheckpointConfig& checkpoints = config.checkpoints;
  if (checkpoints.path.empty()) return std::nullopt;
  auto problem = FindStorageProblem(checkpoints.base, checkpoints.path);
  const StoreLayout layout = FindStore(globals);
  std::error_code error;
  if (!problem && std::filesystem::exists(layout.Database(), error)) {
    const Store store = Store::OpenForReading(layout);
    const auto why =
        StorageOwnerProblem(store, store.StorageRoot(checkpoints.path));
    if (!why.empty()) problem = StorageProblem{ErrorKind::kStore, why};
  }
  if (!problem) return std::nullopt;
  Diagnostic diagnostic = checkpoints.where;
  diagnostic.message = problem->text;
  return std::pair(std::move(diagnostic), problem->kind);
}

void RequireStorage(const ExperimentConfig& config,
                    const GlobalOptions& globals) {
  const auto problem = FindStorageProblem(config, globals);
  if (!problem) return;
  throw Error(problem->second,
              problem->first.ToString() + "; nothing was created");
}

namespace {

// Adds the directories that `context.links` names.
void AddDeclaredLinks(const ExperimentConfig& config, ContextOrigin& origin) {
  for (const std::string& path : config.links) {
    origin.Add(path, /*declared=*/true);
    const std::filesystem::path& target = origin.links.back().target;
    if (!IsStore(target)) continue;
    throw Error(ErrorKind::kUsage,
                "context.links: '" + path + "' is a store of dtrain");
  }
}

// Adds a link that nobody asked for, unless it cannot be made.
bool AddFoundLink(const std::string& path, ContextOrigin& origin) {
  const std::size_t before = origin.links.size();
  try {
    origin.Add(path, /*declared=*/false);
  } catch (const Error&) {
    // A directory around the context, or within a declared one.
  }
  return origin.links.size() > before;
}

// Lists the context with links to the directories that are declared, and to
// those that the program names and that its copy would lack: by rules, by
// links that lead out, because they are beside the context, or because the
// copy would be too large with them, the largest first.
ContextList ListWithLinks(const ExperimentConfig& config,
                          const std::filesystem::path& directory,
                          std::vector<std::filesystem::path> excluded) {
  std::error_code error;
  ContextOrigin origin{.directory = std::filesystem::canonical(
                           directory.empty() ? "." : directory, error)};
  AddDeclaredLinks(config, origin);
  for (const std::string& path :
       FindNamedDirectories(config, directory, NamedDirectories::kLeftOut)) {
    AddFoundLink(path, origin);
  }
  for (const ContextLink& link : origin.links) excluded.push_back(link.target);
  const auto list_files = [&] {
    ContextList list = ListContext(directory, excluded);
    list.origin = origin;
    return list;
  };
  try {
    return list_files();
  } catch (const Error&) {
    std::vector<std::pair<std::int64_t, std::string>> named;
    for (std::string& path : FindNamedDirectories(
             config, directory, NamedDirectories::kInContext)) {
      const auto files = CountLinkedFiles(directory / path);
      named.emplace_back(files ? -files->bytes : 0, std::move(path));
    }
    std::ranges::sort(named);
    for (const auto& [bytes, path] : named) {
      if (HasPython(directory / path) || !AddFoundLink(path, origin)) continue;
      excluded.push_back(origin.links.back().target);
      try {
        return list_files();
      } catch (const Error&) {
        // The next one too.
      }
    }
    throw;
  }
}

}  // namespace

std::optional<ContextList> FindContext(const ExperimentConfig& config,
                                       const std::filesystem::path& directory,
                                       const std::string& config_file,
                                       const GlobalOptions& globals) {
  if (!config.links.empty() && !IsCommand(config)) {
    throw Error(ErrorKind::kUsage,
                "context.links: only programs work in a copy of the context, "
                "and this experiment trains a model; give it paths in 'data'");
  }
  if (!NeedsContext(config, directory)) return std::nullopt;
  std::vector<std::filesystem::path> excluded = {FindStore(globals).root()};
  if (!config.checkpoints.path.empty()) {
    excluded.emplace_back(config.checkpoints.path);
  }
  if (!config.environment.All().empty() ||
      HasCredentials(ReadFile(config_file).value_or(""))) {
    excluded.emplace_back(config_file);
  }
  ContextList list = ListWithLinks(config, directory, std::move(excluded));
  WarnAboutOmissions(list, globals);
  for (const std::string& path : FindLeftOutPaths(config, list)) {
    PrintNotice(globals, "warning: " + path);
  }
  WarnAboutSecrets(list, globals);
  return list;
}

namespace {

// Returns what is recorded of linked directories: path, target, whether they
// are declared, and their files. Makes declared ones that are missing.
nlohmann::json RecordLinks(const ContextOrigin& origin) {
  nlohmann::json links = nlohmann::json::array();
  for (const ContextLink& link : origin.links) {
    std::error_code error;
    if (link.declared) {
      std::filesystem::create_directories(link.target, error);
    }
    const auto files = CountLinkedFiles(link.target);
    if (!files) {
      throw Error(link.declared ? ErrorKind::kUsage : ErrorKind::kNotFound,
                  "context.links: '" + link.path +
                      "': " + link.target.string() +
                      (error ? " cannot be made: " + error.message()
                             : " is missing; make it again"));
    }
    nlohmann::json& record = links.emplace_back(files->Json());
    record["path"] = link.path;
    record["target"] = link.target.string();
    record["declared"] = link.declared;
  }
  return links;
}

// Copies the experiment's files beside the store's and notes them in
// `provenance`.
void Stage(const ExperimentParts& parts, const StoreLayout& layout,
           StagedFiles& files, nlohmann::json& provenance) {
  if (parts.context) {
    RequireOwnFiles(layout, std::nullopt);
    const ContextManifest manifest = files.AddContext(*parts.context);
    provenance[kContextHash] = manifest.Hash();
    provenance[kFiles] = manifest.files.size();
    provenance[kBytes] = manifest.bytes();
    if (!parts.context->origin.links.empty()) {
      provenance[kContextLinks] = RecordLinks(parts.context->origin);
    }
  }
  if (parts.source) {
    files.AddSource(parts.source->uuid, parts.source->directory);
    provenance[kForkedFrom] = parts.source->origin;
  }
  if (!parts.warm_start.is_null()) provenance[kWarmStart] = parts.warm_start;
}

}  // namespace

std::int64_t RecordExperiment(Store& store, const ExperimentConfig& config,
                              const std::string& yaml,
                              nlohmann::json provenance,
                              const ExperimentParts& parts) {
  StagedFiles files(store.layout());
  Stage(parts, store.layout(), files, provenance);
  NewStorage storage;
  bool placed = false;
  const RecordOptions options{.threads = parts.threads,
                              .one_process = parts.one_process,
                              .storage = config.checkpoints.path,
                              .paused = parts.paused,
                              .place = [&](std::int64_t experiment) {
                                files.Place(experiment);
                                storage.Make(store, config.checkpoints,
                                             experiment);
                                placed = true;
                              }};
  try {
    const std::int64_t id = CreateExperiment(store, config, yaml, provenance,
                                             Clock::System(), options);
    files.Keep();
    storage.Keep();
    return id;
  } catch (const Error& error) {
    // A transaction that SQLite wrote but could not sync may turn out to be
    // committed when the write-ahead log is read again.
    if (placed && error.kind() != ErrorKind::kDiskFull) {
      files.Leave();
      storage.Keep();
    }
    throw;
  }
}

void SetDeclaredLinks(const ExperimentConfig& config, ContextOrigin& origin) {
  std::erase_if(origin.links,
                [](const ContextLink& link) { return link.declared; });
  AddDeclaredLinks(config, origin);
}

std::optional<ContextList> ReadStoredContext(const StoreLayout& layout,
                                             const ExperimentDetail& detail) {
  if (!detail.provenance.contains(kContextHash)) return std::nullopt;
  ContextList list =
      ListStoredContext(layout, detail.row.id,
                        detail.provenance.at(kContextHash).get<std::string>());
  list.origin = ReadContextOrigin(list.directory);
  // Experiments recorded before have no such file.
  if (list.origin.directory.empty()) {
    list.origin.directory = detail.provenance.value("context", "");
  }
  return list;
}

void RequireWholeContext(const StoreLayout& layout,
                         const ExperimentDetail& detail) {
  RequireStoredContext(layout, detail.row.id, detail.provenance,
                       StrayPolicy(detail));
}

StrayFiles StrayPolicy(const ExperimentDetail& detail) {
  return IsCommand(ConfigFromJson(detail.config)) ? StrayFiles::kAllowed
                                                  : StrayFiles::kRefused;
}

void WarnAboutCopies(const StoreLayout& layout, const ExperimentConfig& config,
                     const SlotPlan& slots, const ContextList& context,
                     const GlobalOptions& globals) {
  if (!IsCommand(config) || context.bytes <= kSaidBytes ||
      SharesBlocks(layout.Experiments())) {
    return;
  }
  const std::int64_t at_once = std::min(
      TrialsAtOnce(config.searcher, config.hyperparameters), slots.count);
  const std::int64_t all =
      PlanSearch(config.searcher, config.hyperparameters).max_trials;
  std::string text =
      "each trial copies the context, " + FormatBytes(context.bytes) +
      ", until it ends: " + FormatBytes(at_once * context.bytes) + " for " +
      CountText(at_once, "trial") + " at once";
  if (all > at_once) {
    text += ", up to " + FormatBytes(all * context.bytes) + " if all " +
            std::to_string(all) + " are paused";
  }
  PrintNotice(globals, text + " (" + layout.root().string() +
                           ": its file system cannot share blocks)");
}

nlohmann::json ContextJson(const nlohmann::json& provenance) {
  if (!provenance.contains(kContextHash)) return nullptr;
  return {{"files", provenance.value(kFiles, 0)},
          {"bytes", provenance.value(kBytes, std::int64_t{0})},
          {"hash", provenance.at(kContextHash)},
          {"links", provenance.value(kContextLinks, nlohmann::json::array())}};
}

std::string ContextSize(std::int64_t files, std::int64_t bytes) {
  return CountText(files, "file") + ", " + FormatBytes(bytes);
}

}  // namespace dtrain
