// A checkpoint's directory. An input that begins with `s` is its state.json,
// with a manifest that fits; what follows any other byte is its manifest.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <nlohmann/json.hpp>

#include "engine/checkpoint/checkpoint_files.h"
#include "engine/os/sha256.h"
#include "engine/train/training_state.h"
#include "tests/fuzz/fuzz_checks.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

// One checkpoint of two files. In memory if it can be, for it is written a
// thousand times a second.
class Directory {
 public:
  Directory() {
    const fs::path shm = "/dev/shm";
    std::string path =
        ((fs::is_directory(shm) ? shm : fs::temp_directory_path()) /
         "fuzz-checkpoint-XXXXXX")
            .string();
    Require(::mkdtemp(path.data()) != nullptr, "a directory can be made");
    path_ = path;
    Write("model.safetensors", "abc");
  }
  ~Directory() { fs::remove_all(path_); }

  void Write(const std::string& name, std::string_view bytes) const {
    std::ofstream file(path_ / name, std::ios::binary | std::ios::trunc);
    file << bytes;
    Require(file.flush().good(), "a checkpoint's file can be written");
  }
  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

nlohmann::json EntryOf(std::span<const std::byte> bytes) {
  return {{"bytes", bytes.size()}, {"sha256", Sha256Of(bytes)}};
}

std::string ManifestOf(const nlohmann::json& entries) {
  return nlohmann::json{
      {"format", "dtrain-checkpoint"}, {"version", 1}, {"files", entries}}
      .dump();
}

void RequireDamaged(const Error& error) {
  Require(error.kind() == ErrorKind::kDamaged, "what is wrong is damaged");
  RequireOneLine(error);
}

// A state that is understood, written and read again, is the same.
void CheckState(std::span<const std::byte> bytes) {
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  const auto json =
      nlohmann::json::parse(text, text + bytes.size(), nullptr, false);
  TrainingState state;
  try {
    state = TrainingState::FromJson(json);
  } catch (const Error& error) {
    RequireOneLine(error);
    return;
  } catch (const nlohmann::json::exception&) {
    return;  // as its contract says: the caller knows the file's name
  }
  const auto written = state.ToJson();
  Require(TrainingState::FromJson(written).ToJson().dump() == written.dump(),
          "a state, written out, reads the same");
}

// The summary is of the same bytes, so it must not see another checkpoint.
void CheckSummary(const std::string& path) {
  try {
    const auto summary = SummarizeCheckpoint(path);
    Require(summary.bytes >= 0, "a checkpoint's size is none below nothing");
    Require(summary.files.contains(kManifestName), "the manifest is a file");
  } catch (const Error& error) {
    RequireDamaged(error);
  }
}

// A manifest that passes says of every file what that file is, in the one way
// in which dtrain says it.
void CheckManifest(const std::string& path, std::string_view manifest) {
  try {
    const auto files = CheckpointFiles::Read(path);
    nlohmann::json entries = nlohmann::json::object();
    for (const char* name : {"model.safetensors", kStateName}) {
      if (files.Has(name)) entries[name] = EntryOf(files[name]);
    }
    Require(manifest == ManifestOf(entries),
            "only what dtrain writes passes for a manifest");
  } catch (const Error& error) {
    RequireDamaged(error);
  }
}

void Check(std::string_view input) {
  static const Directory directory;
  const bool is_state = input[0] == 's';
  input.remove_prefix(1);
  const std::string_view state =
      is_state ? input : R"({"batches":3,"epoch":0.5})";
  directory.Write(kStateName, state);
  const auto bytes = std::as_bytes(std::span(state));
  const std::string manifest = is_state
                                   ? ManifestOf({{kStateName, EntryOf(bytes)}})
                                   : std::string(input);
  directory.Write(kManifestName, manifest);
  CheckManifest(directory.path(), manifest);
  CheckSummary(directory.path());
  if (is_state) CheckState(bytes);
}

}  // namespace
}  // namespace dtrain

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 0) dtrain::Check(dtrain::TextOf(data, size));
  return 0;
}
