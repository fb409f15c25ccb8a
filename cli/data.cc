#include "cli/data.h"

#include "cli/command_line.h"
#include "engine/base/error.h"
#include "engine/data/data_directory.h"

namespace dtrain {

std::vector<std::filesystem::path> DataPlaces(const std::string& to) {
  std::vector<std::filesystem::path> places = DataDirectory(to).places();
  if (places.empty()) {
    throw Error(ErrorKind::kUsage,
                "data: neither DTRAIN_DATA nor HOME is set; give a directory "
                "with --to");
  }
  // What is printed is good from everywhere.
  for (auto& place : places) place = std::filesystem::absolute(place);
  return places;
}

}  // namespace dtrain
