// Functions that the archives linked into dtrain take from glibc 2.32 to 2.36,
// for programs that are linked with an older one (DtrainStatic.cmake):
// libstdc++ and libgcc of GCC 12, and libevent. Compiled into such programs
// only.

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include <dlfcn.h>
#include <sys/random.h>

#include <link.h>

extern "C" {

/// False: libstdc++ then counts references with atomic operations. (2.32)
char __libc_single_threaded = 0;

/// Fills `bytes`; ends the process if the kernel has no random numbers, which
/// cannot be reported. (2.36)
void arc4random_buf(void* bytes, std::size_t size) {
  auto* at = static_cast<unsigned char*>(bytes);
  while (size > 0) {
    const ssize_t count = ::getrandom(at, size, 0);
    if (count < 0) std::abort();
    at += count;
    size -= static_cast<std::size_t>(count);
  }
}

std::uint32_t arc4random() {
  std::uint32_t number = 0;
  arc4random_buf(&number, sizeof number);
  return number;
}

namespace {

struct Search {
  std::uintptr_t pc;
  dl_find_object* result;
};

int FindIn(dl_phdr_info* object, std::size_t, void* data) {
  auto* search = static_cast<Search*>(data);
  const ElfW(Phdr)* unwinding = nullptr;
  bool found = false;
  std::uintptr_t end = 0;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = object->dlpi_phdr[i];
    const std::uintptr_t begin = object->dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_GNU_EH_FRAME) unwinding = &header;
    if (header.p_type != PT_LOAD) continue;
    if (begin + header.p_memsz > end) end = begin + header.p_memsz;
    found =
        found || (search->pc >= begin && search->pc - begin < header.p_memsz);
  }
  if (!found) return 0;
  if (unwinding == nullptr) return -1;
  search->result->dlfo_map_start = reinterpret_cast<void*>(object->dlpi_addr);
  search->result->dlfo_map_end = reinterpret_cast<void*>(end);
  search->result->dlfo_eh_frame =
      reinterpret_cast<void*>(object->dlpi_addr + unwinding->p_vaddr);
  return 1;
}

}  // namespace

/// Finds the object that contains `pc`, by which libgcc unwinds exceptions; -1
/// if there is none. `dlfo_link_map` is not set, which libgcc does not read.
/// (2.35)
int _dl_find_object(void* pc, dl_find_object* result) noexcept {
  *result = {};
  Search search{reinterpret_cast<std::uintptr_t>(pc), result};
  return ::dl_iterate_phdr(FindIn, &search) == 1 ? 0 : -1;
}

}  // extern "C"
