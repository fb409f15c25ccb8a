#include "engine/slots/slot_files.h"

#include <utility>

#include <sys/file.h>
#include <sys/stat.h>

namespace dtrain {
namespace {

// A file that somebody removed is no longer the one that others lock.
bool IsRemoved(int file) {
  struct stat status {};
  return ::fstat(file, &status) != 0 || status.st_nlink == 0;
}

}  // namespace

bool SlotFiles::TryLock(const std::string& name, Hold hold) {
  UniqueFd& file = files_[name];
  if (file && IsRemoved(file.get())) file.reset();
  if (!file) file = directory_.OpenFile(name);
  const int lock = hold == Hold::kAlone ? LOCK_EX : LOCK_SH;
  return ::flock(file.get(), lock | LOCK_NB) == 0;
}

void SlotFiles::Unlock(const std::string& name) {
  ::flock(files_.at(name).get(), LOCK_UN);
}

UniqueFd SlotFiles::Take(const std::string& name) {
  return std::move(files_.extract(name).mapped());
}

}  // namespace dtrain
