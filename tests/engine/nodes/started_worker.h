#pragma once

#include <string>

#include <sys/types.h>

#include "engine/nodes/worker.h"

namespace dtrain {

/// A worker in a process of its own. To be made before a launcher, of which a
/// process has but one.
class StartedWorker {
 public:
  /// Works as `options` say, once the file `gate` is there if one is named; its
  /// notices and errors go to the file `output`.
  StartedWorker(WorkerOptions options, std::string output,
                std::string gate = "");
  /// Kills it, if it still lives.
  ~StartedWorker();
  StartedWorker(const StartedWorker&) = delete;
  StartedWorker& operator=(const StartedWorker&) = delete;

  void Signal(int signal) const;
  /// Waits for its end: its exit code, 2 for what is refused and 1 for another
  /// error; −1 if it died of a signal.
  int Wait();
  /// All that it said so far.
  std::string Output() const;

 private:
  std::string output_;
  pid_t pid_;
};

}  // namespace dtrain
