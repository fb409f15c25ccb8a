// Verification of checkpoints, and the choice of the checkpoint that a new
// experiment starts from.
//
// A checkpoint is a directory with a manifest that lists the size and SHA-256
// of every file. The database records the checksum of the manifest itself, so
// that a replaced manifest is detected, too. A running experiment deletes
// superseded checkpoints at any time: it first records the deletion, then
// removes the files. A reader that finds files missing therefore looks at the
// record again before it reports damage.

#include "engine/app/checkpoints.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include <unistd.h>

#include "engine/app/notices.h"
#include "engine/app/stores.h"
#include "engine/base/error.h"
#include "engine/checkpoint/checkpoint_files.h"
#include "engine/config/read_config.h"
#include "engine/os/files.h"
#include "engine/os/sha256.h"
#include "engine/report/json_view.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kMaxManifest = std::uintmax_t{1} << 20;

FileReport Bad(const fs::path& path, const std::string& what) {
  return {FileState::kBad, "checkpoint " + path.string() + ": " + what};
}

bool IsForbidden(const fs::path& path, int how) {
  return ::access(path.c_str(), how) != 0 &&
         (errno == EACCES || errno == EPERM);
}

// Returns the directory, or a file in it, that this user may not read, or an
// empty path.
fs::path Forbidden(const fs::path& directory) {
  if (IsForbidden(directory, R_OK | X_OK)) return directory;
  std::error_code error;
  fs::directory_iterator entry(directory, error);
  for (const fs::directory_iterator end; !error && entry != end;
       entry.increment(error)) {
    if (IsForbidden(entry->path(), R_OK)) return entry->path();
  }
  return {};
}

std::string ReadManifest(const fs::path& path) {
  std::error_code error;
  const fs::path file = path / kManifestName;
  const bool plain = fs::is_regular_file(fs::symlink_status(file, error)) &&
                     fs::file_size(file, error) <= kMaxManifest;
  return plain ? ReadFile(file).value_or("") : "";
}

// True if the manifest matches its recorded checksum, or none is recorded.
bool IsRecorded(const std::string& manifest, const CheckpointRow& checkpoint) {
  if (!checkpoint.files.is_object()) return true;
  const auto known = checkpoint.files.find(kManifestName);
  if (known == checkpoint.files.end()) return true;
  return *known == ComputeSha256(std::as_bytes(std::span(manifest)));
}

CheckpointFiles ReadRecorded(const fs::path& path,
                             const CheckpointRow& checkpoint) {
  CheckpointFiles files = CheckpointFiles::Read(path);
  if (IsRecorded(ReadManifest(path), checkpoint)) return files;
  throw Error(ErrorKind::kDamaged,
              "checkpoint " + path.string() + ": '" + kManifestName +
                  "' does not match its recorded checksum; the checkpoint is "
                  "damaged, use another one");
}

}  // namespace

void RequireStorageThere(const Store& store, const CheckpointRow& checkpoint) {
  if (checkpoint.storage.empty()) return;
  std::error_code error;
  const fs::path storage = store.StorageRoot(checkpoint.storage);
  if (fs::is_directory(storage, error)) return;
  throw Error(ErrorKind::kStore, "checkpoint " + checkpoint.uuid + ": " +
                                     storage.string() +
                                     " does not exist; mount or restore it");
}

CheckpointFiles ReadCheckpoint(const Store& store,
                               const CheckpointRow& checkpoint) {
  RequireStorageThere(store, checkpoint);
  const fs::path path = store.CheckpointPath(checkpoint);
  const fs::path forbidden = Forbidden(path);
  if (!forbidden.empty()) {
    throw Error(
        ErrorKind::kFailed,
        forbidden.string() + ": permission denied; check its permissions");
  }
  try {
    return ReadRecorded(path, checkpoint);
  } catch (const Error&) {
    // A running experiment deletes superseded checkpoints. It records the
    // deletion before it removes the files, so this call reports it.
    static_cast<void>(FindCheckpoint(store, checkpoint.uuid));
    throw;
  }
}

FileReport VerifyCheckpoint(const Store& store,
                            const CheckpointRow& checkpoint) {
  try {
    static_cast<void>(ReadCheckpoint(store, checkpoint));
    return {};
  } catch (const Error& error) {
    const bool is_bad = error.kind() == ErrorKind::kDamaged;
    return {is_bad ? FileState::kBad : FileState::kUnreadable, error.what()};
  }
}

FileReport GlanceAtCheckpoint(const Store& store,
                              const CheckpointRow& checkpoint) {
  const fs::path path = store.CheckpointPath(checkpoint);
  std::error_code error;
  if (!fs::is_directory(fs::symlink_status(path, error))) {
    return Bad(path, "the directory does not exist");
  }
  const std::string text = ReadManifest(path);
  const auto manifest =
      nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const bool readable = manifest.is_object() && manifest.contains("files") &&
                        manifest["files"].is_object() &&
                        IsRecorded(text, checkpoint);
  if (!readable) {
    return Bad(path, std::string("'") + kManifestName + "' cannot be read");
  }
  for (const auto& [name, entry] : manifest["files"].items()) {
    const fs::path inner = fs::path(name).relative_path().lexically_normal();
    const bool leaves = inner.empty() || *inner.begin() == "..";
    const auto size = leaves ? 0 : fs::file_size(path / inner, error);
    const bool right = !leaves && !error && entry.is_object() &&
                       entry.value("bytes", std::uintmax_t{0}) == size;
    if (!right) return Bad(path, "'" + name + "' is missing or truncated");
  }
  return {};
}

namespace {

SourceCheckpoint At(const Store& store, const CheckpointRow& row) {
  nlohmann::json origin = {{"trial", ToString(row.trial)},
                           {"checkpoint", row.uuid},
                           {"batches", row.batches}};
  AddLength(CountedUnit(store, row.trial.experiment), origin);
  return {.uuid = row.uuid,
          .trial = row.trial,
          .directory = store.CheckpointPath(row),
          .origin = std::move(origin)};
}

// Returns the trial's checkpoints, the latest first, damaged ones too.
std::vector<CheckpointRow> Candidates(const Store& store, TrialId trial) {
  auto rows = store.Checkpoints(trial.experiment);
  std::erase_if(rows, [&](const CheckpointRow& row) {
    return row.trial != trial || row.state == "DELETED";
  });
  std::ranges::reverse(rows);
  return rows;
}

}  // namespace

SourceCheckpoint SourceFrom(const Store& store, const CheckpointRow& row) {
  const FileReport report = VerifyCheckpoint(store, row);
  if (report.state == FileState::kGood) return At(store, row);
  const bool is_bad = report.state == FileState::kBad;
  throw Error(is_bad ? ErrorKind::kDamaged : ErrorKind::kFailed,
              report.problem);
}

SourceCheckpoint SourceFrom(const Store& store, TrialId trial,
                            const GlobalOptions& globals) {
  FindTarget(store, {.experiment = trial.experiment, .trial = trial.number});
  for (const CheckpointRow& row : Candidates(store, trial)) {
    const FileReport report =
        row.state == "CORRUPT"
            ? Bad(store.CheckpointPath(row), "is marked CORRUPT")
            : VerifyCheckpoint(store, row);
    if (report.state == FileState::kGood) return At(store, row);
    PrintNotice(globals,
                "warning: " + report.problem + "; trying an older one");
  }
  FailNoCheckpoint(store, trial);
}

std::optional<SourceCheckpoint> FindSource(ExperimentConfig& config,
                                           const GlobalOptions& globals) {
  const std::string& uuid = config.source_checkpoint_uuid;
  if (uuid.empty() && config.source_trial_id.empty()) return std::nullopt;
  const Store store = OpenStore(globals);
  SourceCheckpoint source;
  if (!uuid.empty()) {
    source = SourceFrom(store, FindCheckpoint(store, uuid));
  } else {
    const Target target = ParseTarget(config.source_trial_id);
    source = SourceFrom(store, {target.experiment, *target.trial}, globals);
  }
  SetSource(source, config);
  return source;
}

std::optional<SourceCheckpoint> FindRecordedSource(
    const Store& store, const ExperimentDetail& experiment) {
  const std::string uuid =
      ConfigFromJson(experiment.config).source_checkpoint_uuid;
  if (uuid.empty()) return std::nullopt;
  const auto kept = store.layout().Source(experiment.row.id, uuid);
  std::error_code error;
  if (!std::filesystem::is_directory(kept, error)) {
    return SourceFrom(store, FindCheckpoint(store, uuid));
  }
  return SourceCheckpoint{
      .uuid = uuid,
      .directory = kept,
      .origin = experiment.provenance.value("forked_from", nlohmann::json())};
}

void SetSource(const SourceCheckpoint& start, ExperimentConfig& config) {
  config.source_checkpoint_uuid = start.uuid;
  config.source_trial_id.clear();
  config.effective["searcher"]["source_checkpoint_uuid"] = start.uuid;
  config.effective["searcher"]["source_trial_id"] = nullptr;
}

}  // namespace dtrain
