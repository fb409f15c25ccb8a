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
#include <map>
#include <set>
#include <tuple>
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
    std::string size = "to be made";
    if (link.files) {
      size = FormatBytes(link.files->bytes);
      if (!link.files->complete) size += " or more";
      if (link.files->links > 0) {
        size += ", " + CountText(link.files->links, "link");
      }
    }
    texts.push_back(link.path + " (" + size + ")");
  }
  return texts;
}

// Warns about declared directories that are to be made although one with a
// similar name exists.
void WarnAboutSimilarNames(const ContextOrigin& origin,
                           const GlobalOptions& globals) {
  for (const ContextLink& link : origin.links) {
    std::error_code error;
    if (!link.declared || std::filesystem::is_directory(link.target, error)) {
      continue;
    }
    std::filesystem::path missing = link.target;
    while (!std::filesystem::is_directory(missing.parent_path(), error)) {
      missing = missing.parent_path();
    }
    std::vector<std::string> names;
    for (const auto& entry :
         std::filesystem::directory_iterator(missing.parent_path(), error)) {
      const bool is_linked =
          std::ranges::any_of(origin.links, [&](const ContextLink& other) {
            return other.target == entry.path();
          });
      if (!is_linked && entry.is_directory(error)) {
        names.push_back(entry.path().filename().string());
      }
    }
    std::ranges::sort(names);
    const std::string hint = DidYouMean(missing.filename().string(), names);
    if (hint.empty()) continue;
    PrintNotice(globals, "warning: context.links: '" + link.path +
                             "' does not exist, so it is made" + hint);
  }
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
  WarnAboutSimilarNames(list.origin, globals);
  const std::string ignored = JoinFirst(list.ignored, kMaxNamed);
  const std::string links = JoinFirst(LinkTexts(list.origin), kMaxNamed);
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
  for (std::string& path : secrets) path = "'" + path + "'";
  PrintNotice(globals,
              "warning: context " + list.directory.string() + ": " +
                  JoinFirst(secrets, kMaxReported) +
                  (secrets.size() == 1 ? " looks like a secret, and a copy is"
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

// Returns why `target`, a directory, cannot be linked: a store's files change
// with each run. Empty if it can.
std::string StoreProblem(const std::filesystem::path& target,
                         const StoreLayout& store) {
  std::error_code error;
  const auto real = std::filesystem::weakly_canonical(target, error);
  const auto root = std::filesystem::weakly_canonical(store.root(), error);
  const char* const relation = IsStore(real)          ? "is"
                               : IsInside(root, real) ? "contains"
                               : IsInside(real, StoreLayout(root).Experiments())
                                   ? "is part of"
                                   : nullptr;
  return relation == nullptr ? ""
                             : std::string(relation) +
                                   " a store of dtrain; name a directory of "
                                   "data";
}

void RequireProgramForLinks(const ExperimentConfig& config) {
  if (config.links.empty() || IsCommand(config)) return;
  throw Error(ErrorKind::kUsage,
              "context.links: only programs work in a copy of the context, and "
              "this experiment trains a model; give it paths in 'data'");
}

// Adds the directories that `context.links` names.
void AddDeclaredLinks(const ExperimentConfig& config, const StoreLayout& store,
                      ContextOrigin& origin) {
  for (const std::string& path : config.links) {
    const ContextLink& link = origin.Add(path, /*declared=*/true);
    const std::string problem = StoreProblem(link.target, store);
    if (problem.empty()) continue;
    throw Error(ErrorKind::kUsage, "context.links: '" + path + "' " + problem);
  }
}

// Adds a link to a directory that the program names, unless it is linked
// already or cannot be. One that a store forbids is described in `refused`.
void AddFoundLink(const std::string& path, const StoreLayout& store,
                  ContextOrigin& origin, std::set<std::string>& refused) try {
  ContextOrigin added = origin;
  const std::string problem =
      StoreProblem(added.Add(path, /*declared=*/false).target, store);
  if (problem.empty()) {
    origin = std::move(added);
  } else {
    refused.insert("'" + path + "', which the program names, " + problem);
  }
} catch (const Error&) {
  // It overlaps a declared link, or is around the context.
}

// Lists the context with links to the declared directories and to those that
// the program names but the copy lacks: directories that a rule leaves out,
// links out of the context, directories beside it. If the copy would be too
// large, the directories of data that the program names are linked, too, the
// largest first, without those that make no difference. `refused` describes
// those that a store forbids.
ContextList ListWithLinks(const ExperimentConfig& config,
                          const std::filesystem::path& directory,
                          const StoreLayout& store,
                          const std::vector<std::filesystem::path>& excluded,
                          std::set<std::string>& refused) {
  std::error_code error;
  ContextOrigin origin{.directory = std::filesystem::canonical(
                           directory.empty() ? "." : directory, error)};
  AddDeclaredLinks(config, store, origin);
  for (const std::string& path :
       FindNamedDirectories(config, directory, NamedDirectories::kLeftOut)) {
    AddFoundLink(path, store, origin, refused);
  }
  ContextList list = ListLinkedContext(directory, origin, excluded);
  std::map<std::filesystem::path, std::optional<LinkedFiles>> counted;
  const auto count = [&](const std::filesystem::path& target) {
    const auto known = counted.find(target);
    if (known != counted.end()) return known->second;
    return counted[target] = CountLinkedFiles(target);
  };
  if (!list.too_large.empty()) {
    // Those of which not all files were counted have too many of them.
    std::vector<std::tuple<bool, std::int64_t, std::string>> named;
    for (std::string& path : FindNamedDirectories(
             config, directory, NamedDirectories::kInContext)) {
      if (origin.Reaches(path) || HasPython(directory / path)) continue;
      const auto files = count(origin.directory / path);
      if (!files) continue;
      named.emplace_back(files->complete, -files->bytes, std::move(path));
    }
    std::ranges::sort(named);
    const std::string refusal = list.too_large;
    std::vector<std::string> chosen;
    const auto try_list = [&](const std::vector<std::string>& paths) {
      ContextOrigin more = origin;
      for (const std::string& path : paths)
        AddFoundLink(path, store, more, refused);
      return ListLinkedContext(directory, more, excluded);
    };
    for (const auto& [complete, bytes, path] : named) {
      chosen.push_back(path);
      list = try_list(chosen);
      if (list.too_large.empty()) break;
    }
    if (!list.too_large.empty()) throw Error(ErrorKind::kUsage, refusal);
    for (std::size_t i = 0; i < chosen.size() && chosen.size() > 1;) {
      std::vector<std::string> fewer = chosen;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      ContextList longer = try_list(fewer);
      if (longer.too_large.empty()) {
        chosen = std::move(fewer);
        list = std::move(longer);
      } else {
        ++i;
      }
    }
  }
  for (ContextLink& link : list.origin.links) link.files = count(link.target);
  return list;
}

}  // namespace

std::optional<ContextList> FindContext(const ExperimentConfig& config,
                                       const std::filesystem::path& directory,
                                       const std::string& config_file,
                                       const GlobalOptions& globals) {
  RequireProgramForLinks(config);
  if (!NeedsContext(config, directory)) return std::nullopt;
  const StoreLayout store = FindStore(globals);
  std::vector<std::filesystem::path> excluded = {store.root()};
  if (!config.checkpoints.path.empty()) {
    excluded.emplace_back(config.checkpoints.path);
  }
  if (!config.environment.All().empty() ||
      HasCredentials(ReadFile(config_file).value_or(""))) {
    excluded.emplace_back(config_file);
  }
  std::set<std::string> refused;
  ContextList list = ListWithLinks(config, directory, store, excluded, refused);
  for (const std::string& link : refused) {
    PrintNotice(globals, "warning: not linked: " + link);
  }
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
    const auto files = link.files ? link.files : CountLinkedFiles(link.target);
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

std::optional<ContextList> ReadStoredContext(const StoreLayout& layout,
                                             const ExperimentDetail& detail) {
  if (!detail.provenance.contains(kContextHash)) return std::nullopt;
  ContextList list =
      ListStoredContext(layout, detail.row.id,
                        detail.provenance.at(kContextHash).get<std::string>());
  list.origin = ReadContextOrigin(list.directory);
  if (list.origin.directory.empty()) {
    // Experiments recorded before have no such file, and a path as it was
    // given: with a '/' at its end, '..' would count one name less.
    std::filesystem::path given = detail.provenance.value("context", "");
    std::error_code error;
    const auto real = std::filesystem::weakly_canonical(given, error);
    given = error ? given.lexically_normal() : real;
    list.origin.directory = given.has_filename() ? given : given.parent_path();
  }
  return list;
}

std::optional<ContextList> FindRecordedContext(const StoreLayout& layout,
                                               const ExperimentDetail& detail,
                                               const ExperimentConfig& config,
                                               const GlobalOptions& globals) {
  RequireProgramForLinks(config);
  auto list = ReadStoredContext(layout, detail);
  if (!list) return list;
  std::erase_if(list->origin.links,
                [](const ContextLink& link) { return link.declared; });
  AddDeclaredLinks(config, layout, list->origin);
  WarnAboutSimilarNames(list->origin, globals);
  std::erase_if(list->files, [&](const ContextFile& file) {
    const bool is_linked = list->origin.Reaches(file.path);
    if (is_linked) list->bytes -= file.bytes;
    return is_linked;
  });
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
