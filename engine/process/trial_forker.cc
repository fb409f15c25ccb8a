#include "engine/process/trial_forker.h"

#include "engine/base/error.h"

namespace dtrain {
namespace {

constexpr int kMostFailures = 3;
// Libraries on a network's file system may take long to open; a fork does not.
constexpr Duration kWarmUp = std::chrono::seconds(120);
constexpr Duration kAnswer = std::chrono::seconds(10);

}  // namespace

TrialForker::TrialForker(HostOptions options, Clock clock, Poller& poller,
                         std::uint64_t token)
    : host_(std::move(options)),
      clock_(std::move(clock)),
      poller_(poller),
      token_(token) {
  StartHost();
}

void TrialForker::StartHost() {
  ready_ = false;
  try {
    host_.Start();
    poller_.Add(host_.socket(), token_);
    answer_by_ = clock_.monotonic() + kWarmUp;
  } catch (const Error& error) {
    OnFailure(error.what());
  }
}

void TrialForker::Fork(ForkOrder order) {
  request_ = std::move(order);
  if (ready_) {
    SendRequest();
  } else if (!host_.running()) {
    failures_ = 0;
    StartHost();
  }
}

void TrialForker::SendRequest() {
  in_flight_ = true;
  answer_by_ = clock_.monotonic() + kAnswer;
  try {
    // If the host is gone, its socket is readable and says so.
    [[maybe_unused]] const bool sent = host_.Request(*request_);
  } catch (const Error& error) {
    OnFailure(error.what());
  }
}

void TrialForker::OnReady() {
  if (!host_.running()) return;
  std::optional<HostReply> reply;
  try {
    reply = host_.ReadReply();
  } catch (const Error& error) {
    OnFailure(error.what());
    return;
  }
  if (!reply) {
    OnFailure("");
  } else if (reply->ready) {
    ready_ = true;
    answer_by_.reset();
    if (request_) SendRequest();
  } else if (reply->pid != 0) {
    failures_ = 0;
    in_flight_ = false;
    answer_by_.reset();
    request_.reset();
    outcome_ = Outcome{.pid = reply->pid};
  } else {
    // It will not fork any more; a host fresh from the disk may.
    OnFailure(reply->error);
  }
}

void TrialForker::OnTime() {
  if (!answer_by_ || clock_.monotonic() < *answer_by_) return;
  OnFailure("it does not answer");
}

void TrialForker::OnFailure(const std::string& reason) {
  if (host_.running()) poller_.Remove(host_.socket());
  const std::string end = host_.Stop();
  ready_ = false;
  in_flight_ = false;
  answer_by_.reset();
  ++failures_;
  if (failures_ < kMostFailures) {
    StartHost();
    return;
  }
  if (!request_) return;  // The next fork tries again.
  request_.reset();
  outcome_ =
      Outcome{.error = "the trial host failed " + std::to_string(failures_) +
                       " times: " + (reason.empty() ? "it " + end : reason)};
}

}  // namespace dtrain
