#include "engine/fetch/download.h"

#include <thread>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/fetch/transfer.h"

namespace dtrain {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// So much that came makes up for the failure that ended it.
constexpr std::int64_t kMuch = std::int64_t{1} << 20;
constexpr milliseconds kNap{50};

class Downloader {
 public:
  Downloader(const DownloadRequest& request, const FetchListener& listener)
      : request_(request), listener_(listener), part_(request.part) {}

  std::string Run();

 private:
  enum class Outcome { kDone, kNextAddress, kStopped };

  Outcome FetchFrom(const std::string& address);
  TransferResult Patiently(const std::string& address);
  TransferResult Once(const std::string& address);
  bool Complete() const;
  Outcome CheckSum(std::string& problem);
  bool Pause(milliseconds pause) const;
  void Say(const std::string& text) const {
    if (listener_.say) listener_.say(text);
  }

  std::int64_t Most() const {
    return request_.bytes + (request_.approximate ? request_.bytes / 100 : 0);
  }

  const DownloadRequest& request_;
  const FetchListener& listener_;
  PartFile part_;
  std::string sha256_;
  std::string problems_;
  bool resumed_ = false;  // the file did not come in one piece
};

bool Downloader::Complete() const {
  return !request_.approximate && part_.size() == request_.bytes;
}

TransferResult Downloader::Once(const std::string& address) {
  TransferRequest transfer{.address = address,
                           .most = Most(),
                           .patience = request_.patience,
                           .watch = [this] {
                             if (listener_.progress) {
                               listener_.progress(part_.size());
                             }
                             return listener_.Stops();
                           }};
  if (!request_.approximate) transfer.exact = request_.bytes;
  TransferResult result = Transfer(transfer, part_);
  if (result.end != TransferResult::End::kNoRange) return result;
  part_.Clear();
  resumed_ = false;
  return Transfer(transfer, part_);
}

// False: the listener does not want to wait.
bool Downloader::Pause(milliseconds pause) const {
  const auto end = steady_clock::now() + pause;
  while (steady_clock::now() < end) {
    if (listener_.Stops()) return false;
    std::this_thread::sleep_for(std::min<milliseconds>(kNap, pause));
  }
  return true;
}

TransferResult Downloader::Patiently(const std::string& address) {
  milliseconds pause = request_.patience.pause;
  for (int failures = 1;; ++failures) {
    const std::int64_t before = part_.size();
    TransferResult result = Once(address);
    if (result.end != TransferResult::End::kBroken) return result;
    resumed_ = resumed_ || part_.size() > 0;
    if (part_.size() - before >= kMuch) {
      failures = 1;
      pause = request_.patience.pause;
    }
    if (failures >= request_.patience.attempts) return result;
    Say(ShownAddress(address) + ": " + result.problem + "; trying again");
    if (!Pause(pause)) return {.end = TransferResult::End::kStopped};
    pause *= 2;
  }
}

// Whether the bytes are those that are expected; they are dropped if not.
Downloader::Outcome Downloader::CheckSum(std::string& problem) {
  part_.Sync();
  const auto sha256 = FileSha256(part_.path(), listener_.stop);
  if (!sha256) return Outcome::kStopped;
  if (sha256->starts_with(request_.sha256)) {
    sha256_ = *sha256;
    return Outcome::kDone;
  }
  problem = "it has another file there: the SHA-256 begins with " +
            sha256->substr(0, 16) + ", not with " +
            request_.sha256.substr(0, 16);
  part_.Clear();
  return Outcome::kNextAddress;
}

Downloader::Outcome Downloader::FetchFrom(const std::string& address) {
  resumed_ = part_.size() > 0;
  while (true) {
    TransferResult result;
    if (!Complete()) result = Patiently(address);
    if (result.end == TransferResult::End::kStopped) return Outcome::kStopped;
    if (result.end == TransferResult::End::kDisk)
      FailWriting(part_.path(), result.error);
    if (result.end == TransferResult::End::kWhole) {
      const Outcome outcome = CheckSum(result.problem);
      if (outcome != Outcome::kNextAddress) return outcome;
      if (resumed_) {
        // What was gone on with may be to blame.
        Say(ShownAddress(address) +
            ": what was there already does not fit; beginning anew");
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
  if (part_.size() > Most()) part_.Clear();
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

std::string Download(const DownloadRequest& request,
                     const FetchListener& listener) {
  return Downloader(request, listener).Run();
}

}  // namespace dtrain
