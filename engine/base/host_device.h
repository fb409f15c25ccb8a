#pragma once

/// Marks a function of a header that CPU code and CUDA kernels share.
#ifdef __CUDACC__
#define DTRAIN_HOST_DEVICE __host__ __device__
#else
#define DTRAIN_HOST_DEVICE
#endif
