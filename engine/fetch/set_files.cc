#include "engine/fetch/set_files.h"

#include <fstream>
#include <iterator>
#include <span>
#include <system_error>

#include <nlohmann/json.hpp>

#include "engine/base/text.h"
#include "engine/data/data_directory.h"
#include "engine/fetch/fetch_files.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::int64_t kAnySize = -1;
constexpr char kFormat[] = "dtrain-data";

fs::path Hidden(const DataSet& set, const fs::path& place, const char* ending) {
  return place / ("." + std::string(set.name) + ending);
}

// What a fetch into `place` recorded; nothing where there is no sound record.
std::vector<FileSum> ReadSetRecord(const DataSet& set, const fs::path& place) {
  std::ifstream file(Hidden(set, place, ".fetched"), std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const json record = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!record.is_object() || record.value("format", json()) != kFormat ||
      !record.contains("files") || !record["files"].is_array()) {
    return {};
  }
  std::vector<FileSum> files;
  for (const json& entry : record["files"]) {
    const bool sound = entry.is_object() && entry.contains("name") &&
                       entry["name"].is_string() && entry.contains("bytes") &&
                       entry["bytes"].is_number_integer() &&
                       entry.contains("sha256") && entry["sha256"].is_string();
    if (!sound) return {};
    files.push_back({entry["name"], entry["bytes"], entry["sha256"]});
  }
  return files;
}

// What is known of the set without a record.
std::vector<FileSum> PublishedFiles(const DataSet& set) {
  std::vector<FileSum> files;
  for (const KnownFile& file : set.packed() ? set.contents : set.files) {
    files.push_back({.name = PlacedName(set, file),
                     .bytes = set.approximate ? kAnySize : file.bytes,
                     .sha256 = std::string(file.sha256)});
  }
  return files;
}

// The file that a trial would read for `name`: the plain one before the
// gzipped one.
std::optional<fs::path> Used(const fs::path& directory,
                             const std::string& name) {
  const bool gzip = name.ends_with(".gz");
  return PlainOrGzip(directory /
                     (gzip ? name.substr(0, name.size() - 3) : name));
}

void Note(FoundSet& found, SetState state, const std::string& problem) {
  // Damage is worse than what is missing, that than what cannot be checked.
  const auto rank = [](SetState s) {
    return s == SetState::kDamaged     ? 3
           : s == SetState::kPartial   ? 2
           : s == SetState::kUnchecked ? 1
                                       : 0;
  };
  if (rank(state) <= rank(found.state)) return;
  found.state = state;
  found.problem = problem;
}

void LookAtFile(const FileSum& file, FoundSet& found) {
  const auto used = Used(found.directory, file.name);
  if (!used) {
    return Note(found, SetState::kPartial, "'" + file.name + "' is missing");
  }
  std::error_code error;
  const auto bytes = static_cast<std::int64_t>(fs::file_size(*used, error));
  if (!error) found.bytes += bytes;
  ++found.files;
  if (used->filename() != fs::path(file.name).filename()) {
    return Note(found, SetState::kUnchecked,
                "of '" + used->filename().string() + "' no checksum is known");
  }
  if (file.bytes != kAnySize && bytes != file.bytes) {
    Note(found, SetState::kDamaged,
         "'" + file.name + "' has " + std::to_string(bytes) + " bytes, not " +
             std::to_string(file.bytes));
  }
}

// REQUIRES: which files belong to the set is known.
FoundSet LookInto(const fs::path& directory,
                  const std::vector<FileSum>& files) {
  FoundSet found{.state = SetState::kThere, .directory = directory};
  for (const FileSum& file : files) LookAtFile(file, found);
  if (found.files == 0) return {};
  return found;
}

struct Located {
  FoundSet found;
  std::vector<FileSum> files;  // that belong there
};

Located LocateIn(const DataSet& set, const fs::path& place) {
  const fs::path own = place / set.directory;
  const auto published = PublishedFiles(set);
  if (!published.empty()) {
    // Other sets have files of the same names.
    FoundSet found = LookInto(place, published);
    if (found.state == SetState::kThere) return {found, published};
  }
  auto files = ReadSetRecord(set, place);
  if (files.empty()) files = published;
  if (!files.empty()) return {LookInto(own, files), files};
  std::error_code error;
  if (!fs::is_directory(own, error) || fs::is_empty(own, error)) return {};
  return {{.state = SetState::kUnchecked,
           .directory = own,
           .problem = "which files belong there was not recorded"},
          {}};
}

Located Locate(const DataSet& set, std::span<const fs::path> places) {
  Located best;
  for (const fs::path& place : places) {
    Located here = LocateIn(set, place);
    if (here.found.Complete()) return here;
    if (best.found.state == SetState::kMissing) best = std::move(here);
  }
  if (best.found.state != SetState::kMissing) return best;
  for (const fs::path& place : places) {
    std::error_code error;
    if (!fs::exists(PartialDirectory(set, place), error)) continue;
    best.found = {.state = SetState::kPartial,
                  .problem = "a fetch was broken off"};
  }
  return best;
}

}  // namespace

std::string_view StateName(SetState state) {
  switch (state) {
    case SetState::kMissing:
      return "missing";
    case SetState::kPartial:
      return "partial";
    case SetState::kThere:
      return "there";
    case SetState::kGood:
      return "good";
    case SetState::kUnchecked:
      return "unchecked";
    case SetState::kDamaged:
      return "damaged";
  }
  return "";
}

FoundSet LocateSet(const DataSet& set, std::span<const fs::path> places) {
  return Locate(set, places).found;
}

std::optional<FoundSet> VerifySet(const DataSet& set,
                                  std::span<const fs::path> places,
                                  const std::function<bool()>& stop) {
  auto [found, files] = Locate(set, places);
  if (found.directory.empty()) return found;
  for (const FileSum& file : files) {
    const auto used = Used(found.directory, file.name);
    if (!used || used->filename() != fs::path(file.name).filename()) continue;
    const auto sha256 = FileSha256(*used, stop);
    if (!sha256) return std::nullopt;
    if (sha256->starts_with(file.sha256)) continue;
    Note(found, SetState::kDamaged,
         "'" + file.name + "' does not match its SHA-256");
  }
  if (found.state == SetState::kThere) found.state = SetState::kGood;
  return found;
}

void WriteSetRecord(const DataSet& set, const fs::path& place,
                    const std::vector<FileSum>& files) {
  json entries = json::array();
  for (const FileSum& file : files) {
    entries.push_back(
        {{"name", file.name}, {"bytes", file.bytes}, {"sha256", file.sha256}});
  }
  const json record = {{"format", kFormat},
                       {"version", 1},
                       {"set", set.name},
                       {"directory", set.directory},
                       {"files", std::move(entries)}};
  const std::string text = record.dump(1) + "\n";
  const fs::path path = Hidden(set, place, ".fetched");
  PartFile file(path.string() + ".tmp");
  file.Clear();
  if (const int error = file.Append(std::as_bytes(std::span(text)))) {
    FailWriting(file.path(), error);
  }
  file.Sync();
  std::error_code error;
  fs::rename(file.path(), path, error);
  if (error) FailWriting(path, error.value());
}

fs::path PartialDirectory(const DataSet& set, const fs::path& place) {
  return Hidden(set, place, ".partial");
}

}  // namespace dtrain
