// A download is a series of transfers. Each transfer asks one address for the
// bytes after those that are present (an HTTP range) and appends what arrives
// to the part file. Its end is one of six (TransferEnd): temporary failures are
// retried after a pause, any other failure moves on to the next address. The
// sizes are checked while the bytes arrive, so that a wrong or endless file
// ends early; the SHA-256 is checked once, at the end.

#include "engine/fetch/download.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <thread>

#include <unistd.h>

#include <curl/curl.h>
#include <nlohmann/json.hpp>

#include "engine/base/clock.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/fetch/address.h"
#include "engine/fetch/fetch_files.h"
#include "engine/os/line_reader.h"
#include "engine/os/spawn.h"

namespace dtrain {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

enum class TransferEnd {
  kWhole,    // the file is complete, or the server has no more of it
  kBroken,   // a temporary failure: try again
  kNoRange,  // the server cannot resume after the bytes that are present
  kRefused,  // this address does not have the file
  kDisk,     // the file cannot be written: `error` is errno
  kStopped   // the listener asked for it
};

struct TransferResult {
  TransferEnd end = TransferEnd::kWhole;
  std::string problem;  // for people, without the address
  int error = 0;
};

struct TransferRequest {
  std::string address;
  std::int64_t max_bytes = 0;         // of the whole file
  std::optional<std::int64_t> exact;  // its size, where that is known
  Patience patience;
  // Called about every second and whenever data arrives; true: stop.
  std::function<bool()> watch;
};

constexpr long kMaxRedirects = 5;
constexpr long kStalledBytesPerSecond = 100;

struct CleanUp {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
};

// Returns nullptr if memory is short.
CURL* NewHandle() {
  static const CURLcode code = ::curl_global_init(CURL_GLOBAL_DEFAULT);
  return code == CURLE_OK ? curl_easy_init() : nullptr;
}

// Returns the file of certificates to trust, or "". A libcurl that was built on
// another distribution may look for them in a place that this system does not
// have. Like the program curl, it lets SSL_CERT_FILE name another file.
std::string ChooseCertificates(CURL* handle) {
  const char* const chosen = std::getenv("SSL_CERT_FILE");
  const char* built_in = nullptr;
#if LIBCURL_VERSION_NUM >= 0x075400
  curl_easy_getinfo(handle, CURLINFO_CAINFO, &built_in);
#endif
  return FindCertificates(chosen == nullptr ? "" : chosen,
                          built_in == nullptr ? "" : built_in);
}

bool StartsWithWord(std::string_view text, std::string_view lower) {
  return text.size() >= lower.size() &&
         std::ranges::equal(text.substr(0, lower.size()), lower, {},
                            [](char c) {
                              return static_cast<char>(
                                  std::tolower(static_cast<unsigned char>(c)));
                            });
}

// Returns 100 for "bytes 100-199/200"; -1 if `text` has another form.
std::int64_t RangeStart(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_of("0123456789"), text.size()));
  std::int64_t start = -1;
  const auto [rest, error] =
      std::from_chars(text.data(), text.data() + text.size(), start);
  return error == std::errc() && rest != text.data() + text.size() &&
                 *rest == '-'
             ? start
             : -1;
}

// True for failures that may be temporary.
bool IsTemporary(CURLcode code) {
  switch (code) {
    case CURLE_PARTIAL_FILE:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
      return true;
    default:
      return false;
  }
}

bool IsTemporaryStatus(long status) {
  return status >= 500 || status == 408 || status == 429;
}

// One request to one address. libcurl calls the static functions; no exception
// may cross its frames, so Run throws again what they have caught.
class OneTransfer {
 public:
  OneTransfer(const TransferRequest& request, PartFile& part)
      : request_(request), part_(part), handle_(NewHandle()) {}

  TransferResult Run();

 private:
  static std::size_t OnHeader(char* data, std::size_t size, std::size_t count,
                              void* self);
  static std::size_t OnBody(char* data, std::size_t size, std::size_t count,
                            void* self);
  static int OnProgress(void* self, curl_off_t, curl_off_t, curl_off_t,
                        curl_off_t);

  void SetUp();
  bool Begin();
  bool OnBytes(std::span<const std::byte> bytes);
  bool Fail(TransferEnd end, const std::string& problem, int error = 0);
  // Returns whether `function` returns true; keeps the exception if it throws.
  template <typename Function>
  bool Succeeds(const Function& function) noexcept {
    try {
      return function();
    } catch (...) {
      thrown_ = std::current_exception();
      return false;
    }
  }
  TransferResult Judge(CURLcode code);
  long Status() const;

  template <typename Value>
  void Set(CURLoption option, Value value) {
    if (curl_easy_setopt(handle_.get(), option, value) == CURLE_OK) return;
    throw Error(ErrorKind::kFailed, "libcurl does not know option " +
                                        std::to_string(option) +
                                        "; install a newer one");
  }

  const TransferRequest& request_;
  PartFile& part_;
  std::unique_ptr<CURL, CleanUp> handle_;
  std::array<char, CURL_ERROR_SIZE> words_{};
  std::string range_;
  std::string content_range_;  // of the last response
  bool begun_ = false;
  std::optional<TransferResult> result_;
  std::exception_ptr thrown_;  // by a callback
};

std::size_t OneTransfer::OnHeader(char* data, std::size_t size,
                                  std::size_t count, void* self) {
  auto* transfer = static_cast<OneTransfer*>(self);
  const std::string_view line(data, size * count);
  const auto read = [&] {
    constexpr std::string_view kName = "content-range:";
    // With redirects there are several responses; the last one counts.
    if (StartsWithWord(line, "http/")) transfer->content_range_.clear();
    if (StartsWithWord(line, kName)) {
      transfer->content_range_ = line.substr(kName.size());
    }
    return true;
  };
  return transfer->Succeeds(read) ? line.size() : 0;
}

std::size_t OneTransfer::OnBody(char* data, std::size_t size, std::size_t count,
                                void* self) {
  auto* transfer = static_cast<OneTransfer*>(self);
  const auto bytes = std::as_bytes(std::span(data, size * count));
  return transfer->Succeeds([&] { return transfer->OnBytes(bytes); })
             ? bytes.size()
             : 0;
}

int OneTransfer::OnProgress(void* self, curl_off_t, curl_off_t, curl_off_t,
                            curl_off_t) {
  auto* transfer = static_cast<OneTransfer*>(self);
  const auto& watch = transfer->request_.watch;
  const auto proceeds = [&] {
    return !watch || !watch() ||
           transfer->Fail(TransferEnd::kStopped, "stopped");
  };
  return transfer->Succeeds(proceeds) ? 0 : 1;
}

// Resumes with a plain range: with CURLOPT_RESUME_FROM a server that sends the
// whole file instead would be an error.
void OneTransfer::SetUp() {
  const bool local = StartsWithWord(request_.address, "file:");
  if (local) part_.Clear();
  Set(CURLOPT_URL, request_.address.c_str());
  // A redirect must not lead from https to an unprotected address, nor from the
  // network to a file.
  const bool safe = StartsWithWord(request_.address, "https:");
#if LIBCURL_VERSION_NUM >= 0x075500
  Set(CURLOPT_PROTOCOLS_STR, "http,https,file");
  Set(CURLOPT_REDIR_PROTOCOLS_STR, safe ? "https" : "http,https");
#else
  constexpr long kRemote = CURLPROTO_HTTP | CURLPROTO_HTTPS;
  Set(CURLOPT_PROTOCOLS, kRemote | CURLPROTO_FILE);
  Set(CURLOPT_REDIR_PROTOCOLS, safe ? long{CURLPROTO_HTTPS} : kRemote);
#endif
  const std::string certificates = ChooseCertificates(handle_.get());
  if (!certificates.empty()) Set(CURLOPT_CAINFO, certificates.c_str());
  Set(CURLOPT_FOLLOWLOCATION, 1L);
  Set(CURLOPT_MAXREDIRS, kMaxRedirects);
  Set(CURLOPT_FAILONERROR, 1L);
  Set(CURLOPT_NOSIGNAL, 1L);
  Set(CURLOPT_USERAGENT, "dtrain");
  Set(CURLOPT_CONNECTTIMEOUT_MS,
      static_cast<long>(request_.patience.connect.count()));
  Set(CURLOPT_LOW_SPEED_LIMIT, kStalledBytesPerSecond);
  Set(CURLOPT_LOW_SPEED_TIME,
      static_cast<long>(request_.patience.stall.count()));
  Set(CURLOPT_ERRORBUFFER, words_.data());
  Set(CURLOPT_HEADERFUNCTION, OnHeader);
  Set(CURLOPT_HEADERDATA, static_cast<void*>(this));
  Set(CURLOPT_WRITEFUNCTION, OnBody);
  Set(CURLOPT_WRITEDATA, static_cast<void*>(this));
  Set(CURLOPT_NOPROGRESS, 0L);
  Set(CURLOPT_XFERINFOFUNCTION, OnProgress);
  Set(CURLOPT_XFERINFODATA, static_cast<void*>(this));
  if (part_.size() == 0) return;
  range_ = std::to_string(part_.size()) + "-";
  Set(CURLOPT_RANGE, range_.c_str());
}

long OneTransfer::Status() const {
  long status = 0;
  curl_easy_getinfo(handle_.get(), CURLINFO_RESPONSE_CODE, &status);
  return status;
}

bool OneTransfer::Fail(TransferEnd end, const std::string& problem, int error) {
  if (!result_) result_ = {.end = end, .problem = problem, .error = error};
  return false;
}

// Before the first byte: checks that the response is what was requested.
bool OneTransfer::Begin() {
  begun_ = true;
  if (Status() == 206) {
    if (RangeStart(content_range_) != part_.size()) {
      return Fail(TransferEnd::kNoRange,
                  "it sends a different range than requested");
    }
  } else if (part_.size() > 0) {
    part_.Clear();
  }
  curl_off_t length = -1;
  curl_easy_getinfo(handle_.get(), CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
  if (length < 0) return true;
  const std::int64_t whole = part_.size() + length;
  if (request_.exact && whole != *request_.exact) {
    return Fail(TransferEnd::kRefused,
                "it has a different file, of " + std::to_string(whole) +
                    " bytes, not " + std::to_string(*request_.exact));
  }
  if (whole > request_.max_bytes) {
    return Fail(TransferEnd::kRefused, "it has a different file, of " +
                                           FormatBytes(whole) + "; at most " +
                                           FormatBytes(request_.max_bytes) +
                                           " are expected");
  }
  return true;
}

bool OneTransfer::OnBytes(std::span<const std::byte> bytes) {
  if (!begun_) {
    try {
      if (!Begin()) return false;
    } catch (const Error& error) {
      return Fail(TransferEnd::kRefused, error.what());
    }
  }
  const auto count = static_cast<std::int64_t>(bytes.size());
  if (part_.size() + count > request_.max_bytes) {
    return Fail(TransferEnd::kRefused, "it sends more than the " +
                                           std::to_string(request_.max_bytes) +
                                           " bytes that are expected");
  }
  if (const int error = part_.Append(bytes))
    return Fail(TransferEnd::kDisk, "", error);
  return true;
}

TransferResult OneTransfer::Judge(CURLcode code) {
  if (code == CURLE_OK && !begun_) Begin();
  if (result_) return *result_;
  if (code == CURLE_OK) {
    if (!request_.exact || part_.size() == *request_.exact) return {};
    return {.end = TransferEnd::kBroken,
            .problem = "it ends after " + std::to_string(part_.size()) +
                       " of " + std::to_string(*request_.exact) + " bytes"};
  }
  if (code == CURLE_HTTP_RETURNED_ERROR) {
    const long status = Status();
    if (status == 416 && part_.size() > 0) {
      // The range begins at the file's end: it may be complete.
      if (part_.size() == request_.exact.value_or(part_.size())) return {};
      return {.end = TransferEnd::kNoRange, .problem = "it has no more bytes"};
    }
    return {.end = IsTemporaryStatus(status) ? TransferEnd::kBroken
                                             : TransferEnd::kRefused,
            .problem = "the server answers " + std::to_string(status)};
  }
  std::string words = words_.data();
  if (words.empty()) words = curl_easy_strerror(code);
  return {
      .end = IsTemporary(code) ? TransferEnd::kBroken : TransferEnd::kRefused,
      .problem = std::move(words)};
}

TransferResult OneTransfer::Run() {
  if (!handle_) {
    throw Error(ErrorKind::kFailed,
                "libcurl cannot be started; free some memory");
  }
  SetUp();
  const CURLcode code = curl_easy_perform(handle_.get());
  if (thrown_) std::rethrow_exception(thrown_);
  return Judge(code);
}

// A transfer that brought this many bytes resets the count of failures.
constexpr std::int64_t kProgressBytes = std::int64_t{1} << 20;
constexpr milliseconds kStopPollInterval{50};

class Downloader {
 public:
  Downloader(const DownloadRequest& request, const FetchListener& listener)
      : request_(request), listener_(listener), part_(request.part) {}

  std::string Run();

 private:
  enum class Outcome { kDone, kNextAddress, kStopped };

  Outcome FetchFrom(const std::string& address);
  TransferResult TransferWithRetries(const std::string& address);
  TransferResult TransferOnce(const std::string& address);
  bool Complete() const;
  bool Pause(milliseconds pause) const;
  void Report(const std::string& text) const {
    if (listener_.say) listener_.say(text);
  }

  std::int64_t MaxBytes() const {
    return request_.bytes + (request_.approximate ? request_.bytes / 100 : 0);
  }

  const DownloadRequest& request_;
  const FetchListener& listener_;
  PartFile part_;
  std::string sha256_;
  std::string problems_;
  bool resumed_ = false;  // the file did not arrive in one piece
};

bool Downloader::Complete() const {
  return !request_.approximate && part_.size() == request_.bytes;
}

TransferResult Downloader::TransferOnce(const std::string& address) {
  TransferRequest transfer{.address = address,
                           .max_bytes = MaxBytes(),
                           .patience = request_.patience,
                           .watch = [this] {
                             if (listener_.progress) {
                               listener_.progress(part_.size());
                             }
                             return listener_.Stops();
                           }};
  if (!request_.approximate) transfer.exact = request_.bytes;
  TransferResult result = OneTransfer(transfer, part_).Run();
  if (result.end != TransferEnd::kNoRange) return result;
  part_.Clear();
  resumed_ = false;
  return OneTransfer(transfer, part_).Run();
}

// Returns false if the listener stopped the wait.
bool Downloader::Pause(milliseconds pause) const {
  const auto end = steady_clock::now() + pause;
  while (steady_clock::now() < end) {
    if (listener_.Stops()) return false;
    std::this_thread::sleep_for(
        std::min<milliseconds>(kStopPollInterval, pause));
  }
  return true;
}

// The pause doubles after each failure. A transfer that has brought a mebibyte
// starts the count again, so that a slow line that breaks often still gets
// through.
TransferResult Downloader::TransferWithRetries(const std::string& address) {
  milliseconds pause = request_.patience.pause;
  for (int failures = 1;; ++failures) {
    const std::int64_t before = part_.size();
    TransferResult result = TransferOnce(address);
    if (result.end != TransferEnd::kBroken) return result;
    resumed_ = resumed_ || part_.size() > 0;
    if (part_.size() - before >= kProgressBytes) {
      failures = 1;
      pause = request_.patience.pause;
    }
    if (failures >= request_.patience.attempts) return result;
    Report(ShownAddress(address) + ": " + result.problem + "; trying again");
    if (!Pause(pause)) return {.end = TransferEnd::kStopped};
    pause *= 2;
  }
}

// Transfers from one address until the file is whole, then compares its
// SHA-256. If that differs and the file did not arrive in one piece, an earlier
// piece is the suspect: the file is fetched once more from scratch.
Downloader::Outcome Downloader::FetchFrom(const std::string& address) {
  resumed_ = part_.size() > 0;
  while (true) {
    TransferResult result;
    if (!Complete()) result = TransferWithRetries(address);
    if (result.end == TransferEnd::kStopped) return Outcome::kStopped;
    if (result.end == TransferEnd::kDisk)
      FailWriting(part_.path(), result.error);
    if (result.end == TransferEnd::kWhole) {
      part_.Sync();
      const auto sha256 = FileSha256(part_.path(), listener_.stop);
      if (!sha256) return Outcome::kStopped;
      if (sha256->starts_with(request_.sha256)) {
        sha256_ = *sha256;
        return Outcome::kDone;
      }
      result.problem = "it has a different file: the SHA-256 begins with " +
                       sha256->substr(0, 16) + ", not with " +
                       request_.sha256.substr(0, 16);
      part_.Clear();
      if (resumed_) {
        // The bytes of an earlier transfer may be the wrong ones.
        Report(
            ShownAddress(address) +
            ": the part that was present does not match; downloading it from "
            "scratch");
        resumed_ = false;
        continue;
      }
    }
    problems_ += (problems_.empty() ? "" : "; ") + ShownAddress(address) +
                 ": " + EscapeForTerminal(result.problem);
    return Outcome::kNextAddress;
  }
}

std::string Downloader::Run() {
  if (part_.size() > MaxBytes()) part_.Clear();
  for (const std::string& address : request_.addresses) {
    switch (FetchFrom(address)) {
      case Outcome::kDone:
        return sha256_;
      case Outcome::kStopped:
        return "";
      case Outcome::kNextAddress:
        break;
    }
  }
  throw Error(ErrorKind::kFailed,
              "cannot be downloaded: " + problems_ +
                  "; check the network (a proxy is taken from https_proxy), or "
                  "name a mirror, or a directory that has the file, with "
                  "--from");
}

}  // namespace

std::string FindCertificates(const std::string& chosen,
                             const std::string& built_in,
                             const std::filesystem::path& root) {
  constexpr std::array kPlaces = {
      "etc/ssl/certs/ca-certificates.crt",  // Debian, Arch, Gentoo
      "etc/pki/tls/certs/ca-bundle.crt",    // Fedora, Red Hat
      "etc/ssl/ca-bundle.pem",              // openSUSE
      "etc/ssl/cert.pem",                   // Alpine
  };
  if (!chosen.empty()) return chosen;
  std::error_code ignored;
  if (!built_in.empty() && std::filesystem::exists(built_in, ignored)) {
    return built_in;
  }
  for (const char* place : kPlaces) {
    if (std::filesystem::exists(root / place, ignored)) return root / place;
  }
  return "";
}

std::string Download(const DownloadRequest& request,
                     const FetchListener& listener) {
  return Downloader(request, listener).Run();
}

PostResult Post(const PostRequest& request) {
  const std::unique_ptr<CURL, CleanUp> handle(NewHandle());
  if (!handle) return {.problem = "out of memory", .temporary = true};
  struct FreeList {
    void operator()(curl_slist* list) const { curl_slist_free_all(list); }
  };
  std::unique_ptr<curl_slist, FreeList> headers;
  for (const std::string& header : request.headers) {
    curl_slist* const longer = curl_slist_append(headers.get(), header.c_str());
    if (longer == nullptr) {
      return {.problem = "out of memory", .temporary = true};
    }
    static_cast<void>(headers.release());
    headers.reset(longer);
  }
  std::array<char, CURL_ERROR_SIZE> words{};
  const std::string certificates = ChooseCertificates(handle.get());
  bool is_set = true;
  const auto set = [&](CURLoption option, auto value) {
    is_set =
        curl_easy_setopt(handle.get(), option, value) == CURLE_OK && is_set;
  };
  set(CURLOPT_URL, request.url.c_str());
#if LIBCURL_VERSION_NUM >= 0x075500
  set(CURLOPT_PROTOCOLS_STR, "http,https");
#else
  set(CURLOPT_PROTOCOLS, long{CURLPROTO_HTTP | CURLPROTO_HTTPS});
#endif
  if (!certificates.empty()) set(CURLOPT_CAINFO, certificates.c_str());
  set(CURLOPT_FOLLOWLOCATION, 0L);
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_USERAGENT, "dtrain");
  set(CURLOPT_TIMEOUT_MS, static_cast<long>(request.limit.count()));
  set(CURLOPT_ERRORBUFFER, words.data());
  set(CURLOPT_HTTPHEADER, headers.get());
  set(CURLOPT_POSTFIELDSIZE_LARGE,
      static_cast<curl_off_t>(request.body.size()));
  set(CURLOPT_POSTFIELDS, request.body.c_str());
  set(
      CURLOPT_WRITEFUNCTION,
      +[](char*, std::size_t size, std::size_t count, void*) -> std::size_t {
        return size * count;
      });
  if (!is_set) return {.problem = "libcurl is too old; install a newer one"};
  const CURLcode code = curl_easy_perform(handle.get());
  if (code != CURLE_OK) {
    const bool is_lasting = code == CURLE_URL_MALFORMAT ||
                            code == CURLE_UNSUPPORTED_PROTOCOL ||
                            code == CURLE_PEER_FAILED_VERIFICATION;
    const std::string problem = words.data();
    return {.problem = problem.empty() ? curl_easy_strerror(code) : problem,
            .temporary = !is_lasting};
  }
  long status = 0;
  curl_easy_getinfo(handle.get(), CURLINFO_RESPONSE_CODE, &status);
  if (status >= 200 && status < 300) return {};
  const bool redirects = status >= 300 && status < 400;
  return {.problem = "the server answers " + std::to_string(status) +
                     (redirects ? ", a redirect, which is not followed" : ""),
          .temporary = IsTemporaryStatus(status)};
}

int ServePost() {
  using nlohmann::json;
  const auto text = ReadUntil(
      STDIN_FILENO, Clock::System().monotonic() + std::chrono::seconds(10));
  const json request = json::parse(text.value_or(""), nullptr,
                                   /*allow_exceptions=*/false);
  if (!request.is_object()) return 2;
  const PostResult result =
      Post({.url = request.at("url"),
            .headers = request.at("headers"),
            .body = request.at("body"),
            .limit = milliseconds(request.at("limit_ms").get<int>())});
  const json answer = {{"problem", result.problem},
                       {"temporary", result.temporary}};
  return WriteAll(STDOUT_FILENO,
                  answer.dump(-1, ' ', false, json::error_handler_t::replace))
             ? 0
             : 1;
}

}  // namespace dtrain
