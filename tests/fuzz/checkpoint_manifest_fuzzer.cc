// Fuzzes the readers of a checkpoint's directory. An input that begins with `s`
// is its state.json, and gets a matching manifest. After any other first byte
// the rest of the input is the manifest.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <nlohmann/json.hpp>

#include "engine/checkpoint/checkpoint_files.h"
#include "engine/os/sha256.h"
#include "engine/train/training_state.h"
#include "tests/fuzz/fuzz_target.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

// A checkpoint of two files. Lies in memory if possible, since it is written a
// thousand times a second.
class Directory {
 public:
  Directory() {
    const fs::path shm = "/dev/shm";
    std::string path =
        ((fs::is_directory(shm) ? shm : fs::temp_directory_path()) /
         "fuzz-checkpoint-XXXXXX")
            .string();
    Require(::mkdtemp(path.data()) != nullptr, "a directory can be created");
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

nlohmann::json MakeEntry(std::span<const std::byte> bytes) {
  return {{"bytes", bytes.size()}, {"sha256", ComputeSha256(bytes)}};
}

std::string MakeManifest(const nlohmann::json& entries) {
  return nlohmann::json{
      {"format", "dtrain-checkpoint"}, {"version", 1}, {"files", entries}}
      .dump();
}

void RequireDamaged(const Error& error) {
  Require(error.kind() == ErrorKind::kDamaged,
          "a bad checkpoint is reported as damaged");
  RequireOneLine(error);
}

// A state that can be read is unchanged by writing and reading it again.
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
    return;  // allowed by its contract: the caller adds the file's name
  }
  const auto written = state.ToJson();
  Require(TrainingState::FromJson(written).ToJson().dump() == written.dump(),
          "a state, written out, reads the same");
}

// Summarizing the same bytes either succeeds or reports damage.
void CheckSummary(const std::string& path) {
  try {
    const auto summary = SummarizeCheckpoint(path);
    Require(summary.bytes >= 0, "a checkpoint's size is not negative");
    Require(summary.files.contains(kManifestName),
            "the summary lists the manifest");
  } catch (const Error& error) {
    RequireDamaged(error);
  }
}

// An accepted manifest describes every file correctly and is exactly the text
// that dtrain writes.
void CheckManifest(const std::string& path, std::string_view manifest) {
  try {
    const auto files = CheckpointFiles::Read(path);
    nlohmann::json entries = nlohmann::json::object();
    for (const char* name : {"model.safetensors", kStateName}) {
      if (files.Has(name)) entries[name] = MakeEntry(files[name]);
    }
    Require(manifest == MakeManifest(entries),
            "only a manifest as dtrain writes it is accepted");
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
  const std::string manifest =
      is_state ? MakeManifest({{kStateName, MakeEntry(bytes)}})
               : std::string(input);
  directory.Write(kManifestName, manifest);
  CheckManifest(directory.path(), manifest);
  CheckSummary(directory.path());
  if (is_state) CheckState(bytes);
}

}  // namespace
}  // namespace dtrain

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 0) dtrain::Check(dtrain::ToText(data, size));
  return 0;
}
