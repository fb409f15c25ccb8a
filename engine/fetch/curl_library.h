#pragma once

#include <curl/curl.h>

namespace dtrain {

/// What is used of libcurl, by its names there.
struct CurlLibrary {
  decltype(&curl_easy_cleanup) easy_cleanup;
  decltype(&curl_easy_getinfo) easy_getinfo;
  decltype(&curl_easy_init) easy_init;
  decltype(&curl_easy_perform) easy_perform;
  decltype(&curl_easy_setopt) easy_setopt;
  decltype(&curl_easy_strerror) easy_strerror;
  decltype(&curl_free) free;
  decltype(&curl_url) url;
  decltype(&curl_url_cleanup) url_cleanup;
  decltype(&curl_url_get) url_get;
  decltype(&curl_url_set) url_set;
};

/// Opened and initialised by the first call. Throws Error(kFailed) if that
/// cannot be. Any thread.
const CurlLibrary& Curl();

}  // namespace dtrain
