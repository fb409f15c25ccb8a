# Enables the language CUDA and sets DTRAIN_HAVE_NVCC if there is an nvcc that
# matches LibTorch's CUDA and works with our C++ compiler. Otherwise the build lacks
# dtrain's own kernels. Must be included before any target is defined.
#
#   DTRAIN_CUDA                 OFF ignores nvcc
#   DTRAIN_CUDA_ARCHITECTURES   code for these GPUs; PTX of the last for later ones
option(DTRAIN_CUDA "Build dtrain's own CUDA kernels if there is an nvcc" ON)
set(DTRAIN_CUDA_ARCHITECTURES
  75-real 80-real 86-real 89-real 90-real 100-real 120
  CACHE STRING "GPU architectures of dtrain's own kernels")
set(DTRAIN_HAVE_NVCC FALSE)
if(NOT DTRAIN_CUDA)
  message(STATUS "DTRAIN_CUDA is off: building without dtrain's own CUDA kernels")
  return()
endif()

# Sets CMAKE_CUDA_COMPILER if this nvcc can compile a program. A broken toolkit would
# otherwise fail the configuration.
function(_dtrain_try_nvcc nvcc)
  execute_process(COMMAND "${nvcc}" --version OUTPUT_VARIABLE output ERROR_QUIET)
  if(NOT output MATCHES "release ([0-9.]+)")
    return()
  elseif(NOT CMAKE_MATCH_1 MATCHES "^13\\.")
    message(STATUS "ignoring ${nvcc}: CUDA ${CMAKE_MATCH_1} does not match LibTorch's 13")
    return()
  endif()
  set(source ${PROJECT_BINARY_DIR}/CMakeFiles/dtrain_try_nvcc.cu)
  file(WRITE ${source}
    "#include <vector>\n__global__ void Kernel() {}\nint main() { Kernel<<<1, 1>>>(); }\n")
  execute_process(
    COMMAND "${nvcc}" -ccbin "${CMAKE_CXX_COMPILER}" -std=c++20 -arch=sm_90 ${source}
      -o ${source}.out
    OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE status)
  if(status EQUAL 0)
    set(CMAKE_CUDA_COMPILER "${nvcc}" CACHE FILEPATH "CUDA compiler")
  else()
    string(REGEX MATCH "[^\n]*error[^\n]*" output "${output}")
    message(STATUS "ignoring ${nvcc}, which does not work: ${output}")
  endif()
endfunction()

# Prefers an installed toolkit to the one that scripts/setup unpacked beside the wheel.
find_program(_nvcc_in_path nvcc NO_CACHE)
get_filename_component(_site "${LibTorch_PREFIX}/.." REALPATH)
foreach(_nvcc "$ENV{CUDACXX}" "$ENV{CUDA_HOME}/bin/nvcc" "$ENV{CUDA_PATH}/bin/nvcc"
    "${_nvcc_in_path}" /usr/local/cuda/bin/nvcc
    "${_site}/nvidia/cu13/bin/nvcc")
  if(NOT CMAKE_CUDA_COMPILER AND EXISTS "${_nvcc}")
    _dtrain_try_nvcc("${_nvcc}")
  endif()
endforeach()
if(NOT CMAKE_CUDA_COMPILER)
  message(STATUS "no nvcc: building without dtrain's own CUDA kernels")
  return()
endif()

# Set before the language is enabled, since CMake 3.25 would try sm_52, which nvcc 13
# does not support. The runtime library comes with LibTorch::cuda.
set(CMAKE_CUDA_ARCHITECTURES ${DTRAIN_CUDA_ARCHITECTURES})
set(CMAKE_CUDA_HOST_COMPILER "${CMAKE_CXX_COMPILER}")
set(CMAKE_CUDA_RUNTIME_LIBRARY None)
enable_language(CUDA)
# CMake 3.25 does not know that nvcc supports C++20.
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
set(CMAKE_CUDA_STANDARD 20)
set(DTRAIN_HAVE_NVCC TRUE)
message(STATUS "nvcc ${CMAKE_CUDA_COMPILER_VERSION}: ${CMAKE_CUDA_COMPILER}")
