#include "engine/run/checkpoint_files.h"

#include "engine/base/error.h"
#include "engine/checkpoint/checkpoint_writer.h"
#include "engine/os/uuid.h"
#include "engine/store/file_tree.h"

namespace dtrain {

std::vector<std::string> TidyCheckpoints(
    const std::filesystem::path& directory) {
  std::vector<std::string> finished;
  for (const std::string& name : NamesIn(directory)) {
    if (IsUuid(name)) {
      finished.push_back(name);
    } else if (name.ends_with(kUnfinishedSuffix) ||
               name.ends_with(kTrashSuffix)) {
      RemoveQuietly(directory / name);
    }
  }
  return finished;
}

void RemoveQuietly(const std::filesystem::path& checkpoint) {
  try {
    RemoveTree(checkpoint);
  } catch (const Error&) {
    // Told where it matters: by `dtrain gc`.
  }
}

}  // namespace dtrain
