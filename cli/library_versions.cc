#include "cli/library_versions.h"

#include <CLI/Version.hpp>
#include <SQLiteCpp/SQLiteCpp.h>
#include <archive.h>
#include <curl/curlver.h>
#include <nlohmann/json.hpp>

#include "cli/build_info.h"
#include "engine/store/store.h"

namespace dtrain {
namespace {

std::string Dotted(int major, int minor, int patch) {
  return std::to_string(major) + "." + std::to_string(minor) + "." +
         std::to_string(patch);
}

}  // namespace

std::vector<std::pair<std::string, std::string>> LibraryVersions() {
  std::vector<std::pair<std::string, std::string>> versions = {
      {"dtrain", kVersion},
      {"cli11", CLI11_VERSION},
      {"libarchive", ARCHIVE_VERSION_ONLY_STRING},
      {"libcurl", LIBCURL_VERSION},
      {"nlohmann_json",
       Dotted(NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR,
              NLOHMANN_JSON_VERSION_PATCH)},
      {"sqlite", SqliteVersion()},
      {"sqlitecpp", SQLITECPP_VERSION},
      {"yaml_cpp", kYamlCppVersion}};
  if (*kLibTorchVersion != '\0') {
    versions.insert(versions.begin() + 1, {"libtorch", kLibTorchVersion});
  }
  return versions;
}

}  // namespace dtrain
