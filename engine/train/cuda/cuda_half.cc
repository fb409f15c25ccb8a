// libdtrain_trial_cuda.so is there for what it links: opening it opens
// LibTorch's CUDA half, which registers itself with the CPU half. dtrain's own
// kernels are in it too, where there was a compiler for them. Nothing here
// touches a GPU.

/// Tells a trial library's CUDA half from any other library.
extern "C" [[gnu::visibility("default")]] int DtrainCudaHalf() { return 1; }
