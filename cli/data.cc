#include "cli/data.h"

#include "cli/command_line.h"
#include "engine/base/error.h"
#include "engine/data/data_directory.h"

namespace dtrain {

std::vector<std::filesystem::path> DataPlaces(const std::string& to) {
  std::vector<std::filesystem::path> places = DataDirectory(to).places();
  if (places.empty()) {
    throw Error(ErrorKind::kUsage,
                "data: neither DTRAIN_DATA nor HOME is set; name a directory "
                "with --to");
  }
  // What is printed is good from everywhere.
  for (auto& place : places) place = std::filesystem::absolute(place);
  return places;
}

void SetUpData(CLI::App& app, Invocation& invocation) {
  OnParsed(app, [&app] {
    if (HasNamedSubcommand(app)) return;
    throw Error(ErrorKind::kUsage,
                "data: what of it? give fetch, list or verify; see 'dtrain "
                "data --help'");
  });
  SetUpDataFetch(AddSubcommand(app, "fetch", "Download data sets and weights"),
                 invocation);
  SetUpDataList(
      AddSubcommand(app, "list", "Show what can be fetched and what is there"),
      invocation);
  SetUpDataVerify(
      AddSubcommand(app, "verify", "Compare files with their checksums"),
      invocation);
}

}  // namespace dtrain
