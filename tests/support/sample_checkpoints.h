#pragma once

#include <filesystem>
#include <string>

#include "engine/checkpoint/checkpoint_files.h"
#include "engine/store/store.h"

namespace dtrain {

/// Adds a COMPLETED checkpoint to the store at `layout`, its files too; `digit`
/// begins its UUID, which is given. `model` is its model.safetensors.
inline std::string AddCheckpoint(const StoreLayout& layout, TrialId trial,
                                 std::int64_t batches, char digit,
                                 const std::string& model = std::string(1000,
                                                                        'm'),
                                 const std::string& state = "{}") {
  const std::string uuid =
      std::string(8, digit) + "-0000-4000-8000-000000000000";
  std::filesystem::create_directories(layout.Trial(trial));
  CheckpointWriter files(layout.Checkpoint(trial, uuid));
  files.Write("model.safetensors", model);
  files.Write("state.json", state);
  const WrittenCheckpoint written = files.Commit();
  Store store = Store::OpenForWriting(layout);
  store.Write([&](StoreWriter& writer) {
    writer.AddCheckpoint({.uuid = uuid,
                          .trial = trial,
                          .state = "COMPLETED",
                          .batches = batches,
                          .bytes = written.bytes,
                          .files = written.files,
                          .time = Timestamp(1)});
  });
  return uuid;
}

}  // namespace dtrain
