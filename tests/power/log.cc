#include "tests/power/log.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <stdio.h>

namespace dtrain::power {

void Die(const char* what) {
  ::dprintf(STDERR_FILENO, "power recorder: %s: %s\n", what, ::strerror(errno));
  ::abort();
}

Log& Log::Get() {
  static auto* log = new Log;  // never destroyed: others end later
  return *log;
}

bool Log::IsBelow(const std::string& path) const {
  return path.compare(0, root_.size(), root_) == 0 &&
         (path.size() == root_.size() || path[root_.size()] == '/');
}

void Log::Lock() {
  const int code = ::pthread_mutex_lock(&shared_->mutex);
  if (code == EOWNERDEAD) ::pthread_mutex_consistent(&shared_->mutex);
}

void Log::Unlock() { ::pthread_mutex_unlock(&shared_->mutex); }

void Log::Append(Header header, const std::string& name,
                 const std::string& name2, const void* data,
                 std::size_t bytes) {
  header.process = static_cast<std::uint32_t>(::getpid());
  header.name_bytes = static_cast<std::uint32_t>(name.size());
  header.name2_bytes = static_cast<std::uint32_t>(name2.size());
  header.data_bytes = bytes;
  std::string record(reinterpret_cast<const char*>(&header), sizeof header);
  record += name;
  record += name2;
  record.append(static_cast<const char*>(data), bytes);
  if (shared_->used + record.size() > bytes_) Die("the log is full");
  ::memcpy(reinterpret_cast<char*>(shared_) + shared_->used, record.data(),
           record.size());
  shared_->used += record.size();  // whole from here on
}

Log::Log() {
  const char* log = ::getenv("DTRAIN_POWER_LOG");
  const char* root = ::getenv("DTRAIN_POWER_ROOT");
  if (log == nullptr || root == nullptr) return;
  root_ = root;
  const auto open = REAL(open);
  const int file = open(log, O_RDWR | O_CLOEXEC);
  struct stat status {};
  struct flock whole {};
  whole.l_type = F_WRLCK;
  if (file < 0 || ::fstat(file, &status) != 0 ||
      ::fcntl(file, F_SETLKW, &whole) != 0) {
    Die(log);
  }
  bytes_ = static_cast<std::size_t>(status.st_size);
  void* place =
      ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (place == MAP_FAILED) Die(log);
  shared_ = static_cast<Shared*>(place);
  if (shared_->used == 0) Begin();
  ::close(file);
}

// Creates a robust mutex, which is released if its holder is killed.
void Log::Begin() {
  pthread_mutexattr_t attributes;
  ::pthread_mutexattr_init(&attributes);
  ::pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  ::pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  ::pthread_mutex_init(&shared_->mutex, &attributes);
  shared_->used = sizeof(Shared);
}

}  // namespace dtrain::power
