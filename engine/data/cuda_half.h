#pragma once

#include <dlfcn.h>

namespace dtrain {

/// The function `name` of libdtrain_trial_cuda.so; null where that library was
/// not opened, or was built without it.
template <typename Function>
Function FromCudaHalf(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_DEFAULT, name));
}

}  // namespace dtrain
