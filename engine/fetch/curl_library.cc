#include "engine/fetch/curl_library.h"

#include "engine/base/error.h"
#include "engine/fetch/shared_library.h"

namespace dtrain {
namespace {

CurlLibrary OpenCurl() {
  const SharedLibrary library("libcurl.so.4", "libcurl4");
  CurlLibrary curl{};
  library.Find("curl_easy_cleanup", curl.easy_cleanup);
  library.Find("curl_easy_getinfo", curl.easy_getinfo);
  library.Find("curl_easy_init", curl.easy_init);
  library.Find("curl_easy_perform", curl.easy_perform);
  library.Find("curl_easy_setopt", curl.easy_setopt);
  library.Find("curl_easy_strerror", curl.easy_strerror);
  library.Find("curl_free", curl.free);
  library.Find("curl_url", curl.url);
  library.Find("curl_url_cleanup", curl.url_cleanup);
  library.Find("curl_url_get", curl.url_get);
  library.Find("curl_url_set", curl.url_set);
  decltype(&curl_global_init) global_init = nullptr;
  library.Find("curl_global_init", global_init);
  if (global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK) return curl;
  throw Error(ErrorKind::kFailed,
              "libcurl does not start; check its installation");
}

}  // namespace

const CurlLibrary& Curl() {
  static const CurlLibrary curl = OpenCurl();
  return curl;
}

}  // namespace dtrain
