#include "engine/fetch/transfer.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <memory>
#include <string_view>
#include <system_error>

#include <curl/curl.h>

#include "engine/base/error.h"
#include "engine/base/hex.h"
#include "engine/base/text.h"
#include "engine/fetch/shared_library.h"

namespace dtrain {
namespace {

// The functions of libcurl that are used, by their names.
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

// Opens and initialises the library at the first call. Throws Error(kFailed).
// Any thread.
const CurlLibrary& Curl() {
  static const CurlLibrary curl = OpenCurl();
  return curl;
}

namespace fs = std::filesystem;

struct FreeUrl {
  void operator()(CURLU* url) const { Curl().url_cleanup(url); }
};
using Url = std::unique_ptr<CURLU, FreeUrl>;

// Returns null if `address` is invalid.
Url Parse(const std::string& address) {
  Url url(Curl().url());
  if (!url || Curl().url_set(url.get(), CURLUPART_URL, address.c_str(),
                             CURLU_NON_SUPPORT_SCHEME) != CURLUE_OK) {
    return nullptr;
  }
  return url;
}

// Returns "" if the address has no such part.
std::string PartOf(const Url& url, CURLUPart part) {
  char* text = nullptr;
  if (Curl().url_get(url.get(), part, &text, 0) != CURLUE_OK) return "";
  const std::unique_ptr<char, decltype(&curl_free)> owner(text, Curl().free);
  return text;
}

[[noreturn]] void Refuse(const std::string& from, const std::string& what) {
  throw Error(ErrorKind::kUsage,
              "--from: '" + EscapeForTerminal(from) + "' " + what);
}

void RequireSound(const std::string& address) {
  const Url url = Parse(address);
  if (!url) {
    Refuse(ShownAddress(address), "is no address; write https://HOST/PATH");
  }
  const std::string scheme = PartOf(url, CURLUPART_SCHEME);
  if (scheme != "http" && scheme != "https" && scheme != "file") {
    Refuse(ShownAddress(address),
           "is an address of a kind that is not fetched from; give http, https "
           "or file, or a directory");
  }
  if (!PartOf(url, CURLUPART_QUERY).empty() ||
      !PartOf(url, CURLUPART_FRAGMENT).empty()) {
    Refuse(ShownAddress(address),
           "has a '?' or '#', so it names no directory; leave that out");
  }
}

}  // namespace

std::string SourceAddress(const std::string& from,
                          const ReadVariable& variable) {
  std::string address = from;
  if (from.find("://") == std::string::npos) {
    const fs::path path = ExpandHome(from, variable);
    std::error_code error;
    if (!fs::exists(path, error)) {
      Refuse(from, "is not there; name a directory that is, or an address");
    }
    address = FileAddress(path);
  }
  RequireSound(address);
  while (address.ends_with('/')) address.pop_back();
  return address;
}

std::string FileAddress(const fs::path& path) {
  std::string address = "file://";
  for (const char c : fs::absolute(path).lexically_normal().string()) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 ||
        std::string_view("/-._~").find(c) != std::string_view::npos) {
      address += c;
    } else {
      const std::array<std::byte, 1> bytes = {std::byte{byte}};
      address += "%" + ToHex(bytes);
    }
  }
  return address;
}

std::string ShownAddress(const std::string& address) {
  const Url url = Parse(address);
  if (!url) {
    const std::size_t at = address.rfind('@');
    return at == std::string::npos ? address : "…" + address.substr(at);
  }
  Curl().url_set(url.get(), CURLUPART_USER, nullptr, 0);
  Curl().url_set(url.get(), CURLUPART_PASSWORD, nullptr, 0);
  return PartOf(url, CURLUPART_URL);
}

namespace {

constexpr long kMostRedirects = 5;
constexpr long kStalledBytesPerSecond = 100;

struct CleanUp {
  void operator()(CURL* handle) const { Curl().easy_cleanup(handle); }
};

bool StartsWithWord(std::string_view text, std::string_view lower) {
  return text.size() >= lower.size() &&
         std::ranges::equal(text.substr(0, lower.size()), lower, {},
                            [](char c) {
                              return static_cast<char>(
                                  std::tolower(static_cast<unsigned char>(c)));
                            });
}

// Where "bytes 100-199/200" begins; -1 where it is no such text.
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

// What may go better in a while.
bool MayPass(CURLcode code) {
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

bool StatusMayPass(long status) {
  return status >= 500 || status == 408 || status == 429;
}

class OneTransfer {
 public:
  OneTransfer(const TransferRequest& request, PartFile& part)
      : request_(request), part_(part), handle_(Curl().easy_init()) {}

  TransferResult Run();

 private:
  static std::size_t OnHeader(char* data, std::size_t size, std::size_t count,
                              void* self);
  static std::size_t OnBody(char* data, std::size_t size, std::size_t count,
                            void* self);
  static int OnProgress(void* self, curl_off_t, curl_off_t, curl_off_t,
                        curl_off_t);

  void SetUp();
  void LimitProtocols();
  void TakeHeader(std::string_view line);
  bool Begin();
  bool Take(std::span<const std::byte> bytes);
  bool Fail(TransferResult::End end, const std::string& problem, int error = 0);
  TransferResult Judge(CURLcode code);
  long Status() const;

  template <typename Value>
  void Set(CURLoption option, Value value) {
    if (Curl().easy_setopt(handle_.get(), option, value) == CURLE_OK) return;
    throw Error(ErrorKind::kFailed, "libcurl does not know option " +
                                        std::to_string(option) +
                                        "; install a newer one");
  }

  const TransferRequest& request_;
  PartFile& part_;
  std::unique_ptr<CURL, CleanUp> handle_;
  std::array<char, CURL_ERROR_SIZE> words_{};
  std::string range_;
  std::string content_range_;  // of the last answer
  bool begun_ = false;
  std::optional<TransferResult> verdict_;
};

std::size_t OneTransfer::OnHeader(char* data, std::size_t size,
                                  std::size_t count, void* self) {
  static_cast<OneTransfer*>(self)->TakeHeader({data, size * count});
  return size * count;
}

std::size_t OneTransfer::OnBody(char* data, std::size_t size, std::size_t count,
                                void* self) {
  const auto bytes = std::as_bytes(std::span(data, size * count));
  return static_cast<OneTransfer*>(self)->Take(bytes) ? bytes.size() : 0;
}

int OneTransfer::OnProgress(void* self, curl_off_t, curl_off_t, curl_off_t,
                            curl_off_t) {
  auto* transfer = static_cast<OneTransfer*>(self);
  const auto& watch = transfer->request_.watch;
  if (!watch || !watch()) return 0;
  transfer->Fail(TransferResult::End::kStopped, "stopped");
  return 1;
}

// From where on is asked for with a plain range: with CURLOPT_RESUME_FROM a
// server that sends the whole file instead would be an error.
void OneTransfer::SetUp() {
  const bool local = StartsWithWord(request_.address, "file:");
  if (local) part_.Clear();
  Set(CURLOPT_URL, request_.address.c_str());
  LimitProtocols();
  Set(CURLOPT_FOLLOWLOCATION, 1L);
  Set(CURLOPT_MAXREDIRS, kMostRedirects);
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

void OneTransfer::LimitProtocols() {
  const bool safe = StartsWithWord(request_.address, "https:");
#if LIBCURL_VERSION_NUM >= 0x075500
  Set(CURLOPT_PROTOCOLS_STR, "http,https,file");
  Set(CURLOPT_REDIR_PROTOCOLS_STR, safe ? "https" : "http,https");
#else
  constexpr long kRemote = CURLPROTO_HTTP | CURLPROTO_HTTPS;
  Set(CURLOPT_PROTOCOLS, kRemote | CURLPROTO_FILE);
  Set(CURLOPT_REDIR_PROTOCOLS, safe ? long{CURLPROTO_HTTPS} : kRemote);
#endif
}

// There may be several answers, the last of which counts.
void OneTransfer::TakeHeader(std::string_view line) {
  constexpr std::string_view kName = "content-range:";
  if (StartsWithWord(line, "http/")) content_range_.clear();
  if (StartsWithWord(line, kName)) content_range_ = line.substr(kName.size());
}

long OneTransfer::Status() const {
  long status = 0;
  Curl().easy_getinfo(handle_.get(), CURLINFO_RESPONSE_CODE, &status);
  return status;
}

bool OneTransfer::Fail(TransferResult::End end, const std::string& problem,
                       int error) {
  if (!verdict_) verdict_ = {.end = end, .problem = problem, .error = error};
  return false;
}

// Before the first byte: whether the server means what was asked for.
bool OneTransfer::Begin() {
  begun_ = true;
  if (Status() == 206) {
    if (RangeStart(content_range_) != part_.size()) {
      return Fail(TransferResult::End::kNoRange,
                  "it sends another part than was asked for");
    }
  } else if (part_.size() > 0) {
    part_.Clear();
  }
  curl_off_t length = -1;
  Curl().easy_getinfo(handle_.get(), CURLINFO_CONTENT_LENGTH_DOWNLOAD_T,
                      &length);
  if (length < 0) return true;
  const std::int64_t whole = part_.size() + length;
  if (request_.exact && whole != *request_.exact) {
    return Fail(TransferResult::End::kRefused,
                "it has another file there: of " + std::to_string(whole) +
                    " bytes, not " + std::to_string(*request_.exact));
  }
  if (whole > request_.most) {
    return Fail(TransferResult::End::kRefused,
                "it has another file there: of " + FormatBytes(whole) +
                    ", where at most " + FormatBytes(request_.most) +
                    " are expected");
  }
  return true;
}

bool OneTransfer::Take(std::span<const std::byte> bytes) {
  if (!begun_) {
    // No exception crosses libcurl's own frames.
    try {
      if (!Begin()) return false;
    } catch (const Error& error) {
      return Fail(TransferResult::End::kRefused, error.what());
    }
  }
  const auto count = static_cast<std::int64_t>(bytes.size());
  if (part_.size() + count > request_.most) {
    return Fail(TransferResult::End::kRefused,
                "it sends more than the " + std::to_string(request_.most) +
                    " bytes that are expected");
  }
  if (const int error = part_.Append(bytes))
    return Fail(TransferResult::End::kDisk, "", error);
  return true;
}

TransferResult OneTransfer::Judge(CURLcode code) {
  if (code == CURLE_OK && !begun_) Begin();
  if (verdict_) return *verdict_;
  if (code == CURLE_OK) {
    if (!request_.exact || part_.size() == *request_.exact) return {};
    return {.end = TransferResult::End::kBroken,
            .problem = "it ends after " + std::to_string(part_.size()) +
                       " of " + std::to_string(*request_.exact) + " bytes"};
  }
  if (code == CURLE_HTTP_RETURNED_ERROR) {
    const long status = Status();
    if (status == 416 && part_.size() > 0) {
      // There is nothing behind what is there: it may be the whole file.
      if (part_.size() == request_.exact.value_or(part_.size())) return {};
      return {.end = TransferResult::End::kNoRange,
              .problem = "it has no more bytes"};
    }
    return {.end = StatusMayPass(status) ? TransferResult::End::kBroken
                                         : TransferResult::End::kRefused,
            .problem = "the server says " + std::to_string(status)};
  }
  std::string words = words_.data();
  if (words.empty()) words = Curl().easy_strerror(code);
  return {.end = MayPass(code) ? TransferResult::End::kBroken
                               : TransferResult::End::kRefused,
          .problem = std::move(words)};
}

TransferResult OneTransfer::Run() {
  if (!handle_) {
    throw Error(ErrorKind::kFailed,
                "libcurl cannot be started; is there memory?");
  }
  SetUp();
  return Judge(Curl().easy_perform(handle_.get()));
}

}  // namespace

TransferResult Transfer(const TransferRequest& request, PartFile& part) {
  return OneTransfer(request, part).Run();
}

}  // namespace dtrain
