#include "models/ops/intra_op.h"

#include <atomic>
#include <exception>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace dtrain {
namespace {

#ifdef _OPENMP
// Like at::parallel_for, which is parallel only if a whole file, LibTorch's
// headers included, is compiled for OpenMP. No num_threads clause: another
// count than LibTorch's would make GNU's OpenMP destroy and recreate its
// threads.
void ForEachPartAtOnce(std::int64_t parts,
                       const std::function<void(std::int64_t)>& work) {
  std::atomic_flag failed;
  std::exception_ptr failure;
#pragma omp parallel for schedule(static, 1)
  for (std::int64_t part = 0; part < parts; ++part) {
    try {
      work(part);
    } catch (...) {
      if (!failed.test_and_set()) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}
#endif

}  // namespace

void ForEachPart(std::int64_t parts,
                 const std::function<void(std::int64_t)>& work) {
#ifdef _OPENMP
  if (parts > 1 && omp_in_parallel() == 0) {
    return ForEachPartAtOnce(parts, work);
  }
#endif
  for (std::int64_t part = 0; part < parts; ++part) work(part);
}

}  // namespace dtrain
