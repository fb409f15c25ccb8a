// Which failures are one trial's fault, and which are the experiment's. A
// search must survive bad hyperparameters, but should not fail a thousand
// trials for one missing file. So failures before the first report are compared
// with each other: three in a row of one cause end the experiment, if no trial
// has ever reported. Two causes are one if their texts are equal without words
// that have digits, such as addresses, ids and line numbers.
//
// MayPass recognises faults that waiting can cure by what programs and
// libraries print about them; the texts are those of CUDA, NCCL, Python, curl,
// SQLite and the C library.

#include "engine/run/failures.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace dtrain {
namespace {

// Number of trials that fail for one cause before their first report after
// which the experiment fails.
constexpr int kMaxEarly = 3;

// Minimum number of trials in a row with invalid hyperparameters after which
// the experiment fails; at least as many as the search has trials.
constexpr std::int64_t kMinInvalid = 3;

// Maximum number of processes in a row that fail to start.
constexpr int kMaxFailedStarts = 5;

// Returns the text with each word that has a digit replaced by '#'. The point
// and the sign of an exponent within a number belong to the word.
std::string WithoutNumbers(const std::string& why) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto is_word = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c >= 0x80;
  };
  std::string text;
  for (std::size_t at = 0; at < why.size();) {
    std::size_t end = at;
    bool has_digit = false;
    while (end < why.size()) {
      const char c = why[end];
      const char last = end > at ? why[end - 1] : ' ';
      const bool next_is_digit = end + 1 < why.size() && is_digit(why[end + 1]);
      const bool inside = has_digit && next_is_digit &&
                          (c == '.' || ((c == '-' || c == '+') &&
                                        (last == 'e' || last == 'E')));
      if (!is_word(c) && !inside) break;
      has_digit = has_digit || is_digit(c);
      ++end;
    }
    if (end == at) end = at + 1;
    text += has_digit ? "#" : why.substr(at, end - at);
    at = end;
  }
  return text;
}

}  // namespace

bool MayPass(const std::string& why) {
  constexpr std::array kTexts = {
      "ut of memory", "MemoryError",  "bad_alloc", "annot allocate", "CUDA",
      "cuBLAS",       "CUBLAS",       "cuDNN",     "CUDNN",          "NCCL",
      "EADDRINUSE",   "ECONNREFUSED", "ETXTBSY",   "EBUSY",          "EAGAIN",
      "HTTP 429",     "HTTP 503"};
  // In any case of letters.
  constexpr std::array kWords = {
      "address already in use", "address in use",
      "port is already in use", "connection refused",
      "connectionrefusederror", "connection reset",
      "connection timed out",   "connection aborted",
      "remotedisconnected",     "network is unreachable",
      "no route to host",       "name or service not known",
      "name resolution",        "nameresolutionerror",
      "nodename nor servname",  "getaddrinfo failed",
      "could not resolve host", "gaierror",
      "http error 429",         "http error 503",
      "429 client error",       "503 server error",
      "too many requests",      "service unavailable",
      "status code 429",        "status code 503",
      "status code: 429",       "status code: 503",
      "text file busy",         "resource temporarily unavailable",
      "resource busy",          "database is locked",
      "unable to lock file",    "stale file handle",
      "blockingioerror"};
  // Its text quotes what the program printed.
  if (why.starts_with(kNoResult)) return false;
  std::string lower = why;
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  return std::ranges::any_of(kTexts,
                             [&](const char* text) {
                               return why.find(text) != std::string::npos;
                             }) ||
         std::ranges::any_of(kWords, [&](const char* text) {
           return lower.find(text) != std::string::npos;
         });
}

bool HaveOneCause(const std::string& first, const std::string& second) {
  return WithoutNumbers(first) == WithoutNumbers(second);
}

// Doubles from 0.1 s, or from 1 s if waiting may cure it, up to a minute.
Duration RestartDelay(std::int64_t failures, bool may_pass) {
  constexpr Duration kMaxPause = std::chrono::minutes(1);
  const std::int64_t doublings = std::min<std::int64_t>(failures - 1, 9);
  const auto first = std::chrono::milliseconds(may_pass ? 1000 : 100);
  return std::min<Duration>(first * (std::int64_t{1} << doublings), kMaxPause);
}

void Failures::Recover(const TrialRow& trial) {
  // Counts a recorded trial as if this run had seen it end.
  const bool has_reported = trial.batches > 0 || trial.latest;
  if (has_reported) reported_ = true;
  SetEnded(trial);
  if (trial.state == State::kError && trial.batches == 0) {
    AddEarly(trial.reason);
  }
  if (trial.state == State::kInvalid) ++invalid_;
  if (trial.latest) SetReported(/*measured=*/true);
  const std::size_t late = trial.reason.find(kFailedLate);
  if (late != trial.reason.npos)
    SetLate(trial.id.number, trial.reason.substr(late));
}

void Failures::Reset() {
  last_error_.clear();
  early_ = 0;
  invalid_ = 0;
}

void Failures::SetStarted(std::int64_t trial) {
  failed_starts_ = 0;
  late_.erase(trial);
}

void Failures::SetReported(bool measured) {
  reported_ = true;
  if (!measured) return;
  measured_ = true;
  invalid_ = 0;
}

void Failures::SetEnded(const TrialRow& trial) {
  if (trial.state != State::kError && trial.state != State::kInvalid) return;
  last_error_ = "trial " + ToString(trial.id) + ": " + trial.reason;
}

std::optional<Duration> Failures::CountFailedStart() {
  if (++failed_starts_ > kMaxFailedStarts) return std::nullopt;
  return RestartDelay(failed_starts_);
}

std::string Failures::CountEarly(const TrialRow& trial,
                                 const std::string& cause, std::int64_t ended) {
  AddEarly(trial.reason);
  if (reported_ || early_ < kMaxEarly) return "";
  return std::to_string(early_) + " of " + std::to_string(ended) +
         " trials failed before they reported: " + cause;
}

std::string Failures::CountInvalid(const std::string& why,
                                   std::int64_t planned) {
  if (++invalid_ < std::max(kMinInvalid, planned)) return "";
  return std::to_string(invalid_) +
         " trials in a row have invalid hyperparameters, the last: " + why +
         "; narrow the hyperparameters, or correct the check";
}

void Failures::SetLate(std::int64_t trial, const std::string& remark) {
  late_[trial] = remark;
}

std::string Failures::late(std::int64_t trial) const {
  const auto found = late_.find(trial);
  return found == late_.end() ? "" : found->second;
}

void Failures::AddEarly(const std::string& reason) {
  // Only an unbroken row of one cause is counted: several causes are faults of
  // trials, one is a fault of the experiment.
  if (!HaveOneCause(reason, early_reason_)) early_ = 0;
  early_reason_ = reason;
  ++early_;
}

}  // namespace dtrain
