#pragma once

#include <stdexcept>
#include <string>

namespace dtrain {

/// Kind of the problem that an `Error` reports; `cli` maps it to an exit code.
enum class ErrorKind {
  kUsage,      // wrong command line or configuration; nothing was created
  kNotFound,   // an experiment, trial or checkpoint that does not exist
  kStore,      // the store is damaged, read-only, full or held by another
  kResources,  // the slots asked for can never be had
  kDiskFull,   // no space left, or next to none; nothing that stood is lost
  kDamaged,    // a file is not, to the bit, what was once written
  kFailed,     // anything else that ends the command
};

/// The one exception of dtrain, thrown for what a user can cause and caught
/// only in `main`. Its text is one lowercase line: where, what, what to do.
/// Expected outcomes (a trial that crashes, no rows) are return values. Visible
/// in libdtrain_trial.so, so that users' models can catch it.
class [[gnu::visibility("default")]] Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message)
      : std::runtime_error(message), kind_(kind) {}

  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

}  // namespace dtrain
