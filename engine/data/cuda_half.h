#pragma once

#include <dlfcn.h>

namespace dtrain {

/// Function `name` of libdtrain_trial_cuda.so; null if the library is not
/// loaded, or was built without it.
template <typename Function>
Function FromCudaHalf(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_DEFAULT, name));
}

}  // namespace dtrain
