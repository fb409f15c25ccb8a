#include "engine/run/start_queue.h"

#include <cassert>

namespace dtrain {

void StartQueue::Add(std::int64_t turn, std::int64_t trial) {
  if (!put_off_.contains(trial)) waiting_.emplace(turn, trial);
}

void StartQueue::PutOff(Duration when, std::int64_t turn, std::int64_t trial,
                        bool keeps_slot) {
  assert(!waiting_.contains({turn, trial}) && "it waits already");
  if (!put_off_.insert(trial).second) return;
  later_.emplace(when, Place(turn, trial));
  if (keeps_slot) held_.insert(trial);
}

void StartQueue::Wake(Duration now) {
  while (!later_.empty() && later_.begin()->first <= now) {
    const Place place = later_.begin()->second;
    later_.erase(later_.begin());
    put_off_.erase(place.second);
    held_.erase(place.second);
    waiting_.insert(place);
  }
}

std::optional<Duration> StartQueue::next_wake() const {
  if (later_.empty()) return std::nullopt;
  return later_.begin()->first;
}

std::int64_t StartQueue::Pop() {
  assert(!waiting_.empty() && "nobody waits");
  const std::int64_t trial = waiting_.begin()->second;
  waiting_.erase(waiting_.begin());
  return trial;
}

void StartQueue::Clear() {
  waiting_.clear();
  later_.clear();
  put_off_.clear();
  held_.clear();
}

}  // namespace dtrain
