#pragma once

#include <cerrno>
#include <cstddef>
#include <iterator>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

namespace dtrain {

/// System call that a kernel does not have, or a container forbids.
struct MissingCall {
  int number;
  int error = ENOSYS;
  unsigned flags = 0;  // in the first argument; 0: whatever it is
};

/// Answers a system call with its error in this process and its children, for
/// ever. False if the kernel does not allow such filters.
[[nodiscard]] inline bool Forbid(const MissingCall& call) {
  const unsigned mask = call.flags;
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(call.number), 0,
               4),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args)),
      BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, mask, 0, 1),
      BPF_STMT(BPF_RET | BPF_K,
               SECCOMP_RET_ERRNO | static_cast<unsigned>(call.error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog filter{.len = std::size(program), .filter = program};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

}  // namespace dtrain
