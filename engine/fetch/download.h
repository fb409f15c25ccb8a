#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace dtrain {

/// Timeouts for a server, and the number of attempts.
struct Patience {
  std::chrono::milliseconds connect = std::chrono::seconds(30);
  // A transfer of fewer than 100 bytes/s for this long is given up.
  std::chrono::seconds stall{30};
  // Temporary failures in a row, with less than 1 MiB received before each.
  int attempts = 5;
  // Before the second attempt; doubled before each further one.
  std::chrono::milliseconds pause = std::chrono::seconds(1);
};

/// A file to download, and how to verify it.
struct DownloadRequest {
  std::vector<std::string> addresses;  // tried in turn until one has the file
  std::filesystem::path part;          // an existing one is resumed
  std::int64_t bytes = 0;
  bool approximate = false;  // the file may be up to 1 % larger, or smaller
  std::string sha256;        // in hex; at least its first digits
  Patience patience;
};

/// Callbacks during a download; each may be empty.
struct FetchListener {
  // Bytes of the file that are present. Called often.
  std::function<void(std::int64_t bytes)> progress;
  // One line for people: what is retried, and why.
  std::function<void(const std::string& text)> say;
  // Returns true to stop; the part that is present is kept. Called about every
  // second and whenever data arrives.
  std::function<bool()> stop;

  bool Stops() const { return stop && stop(); }
};

/// Returns the file of certificates to trust: `chosen` unless it is empty;
/// `built_in`, libcurl's own default, if it exists; otherwise the file of
/// another Linux distribution, below `root`. Empty if there is none.
std::string FindCertificates(const std::string& chosen,
                             const std::string& built_in,
                             const std::filesystem::path& root = "/");

/// Downloads the rest of `request.part` and verifies its SHA-256. If a resumed
/// file fails that check, downloads it once more from scratch. Follows up to
/// five redirects: from https only to https, never to a file. Returns the whole
/// SHA-256 in hex, or "" if the listener stopped it. Throws Error(kFailed) that
/// names every address and why it failed, Error(kDiskFull) if the disk is full.
std::string Download(const DownloadRequest& request,
                     const FetchListener& listener);

/// A message to send.
struct PostRequest {
  std::string url;
  std::vector<std::string> headers;  // "Name: value"
  std::string body;
  std::chrono::milliseconds limit{0};
};

/// How a server has answered.
struct PostResult {
  std::string problem;     // for people, without the address; empty: accepted
  bool temporary = false;  // another attempt may succeed
};

/// Sends `request.body` by POST over http or https. Follows no redirect, and
/// ignores the body of the answer.
PostResult Post(const PostRequest& request);

/// Serves `data-fetch --post`: reads a PostRequest as JSON from standard input,
/// sends it and prints the PostResult as JSON. Returns the exit code.
int ServePost();

}  // namespace dtrain
