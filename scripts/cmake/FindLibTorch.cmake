# Finds LibTorch without Torch's own config files, which require a whole CUDA toolkit
# if the wheel is a CUDA build. Searches LibTorch_ROOT and CMAKE_PREFIX_PATH
# (variables or environment), then the directory of scripts/setup.
#
#   LibTorch::cpu    headers, libtorch_cpu, libc10
#   LibTorch::cuda   the same and the CUDA libraries, if their headers exist
#   LibTorch::gomp   the OpenMP library of its operators, if it is GNU's like that of
#                    the compiler
#   LibTorch_VERSION, LibTorch_LIB_DIR, LibTorch_CUDA_INCLUDE_DIRS
#   LibTorch_NCCL_INCLUDE_DIR  directory of nccl.h, or empty
#   LibTorch_CUDA_MATH  true if the headers of cuBLAS, cuSPARSE and cuSOLVER exist,
#                       which <ATen/cuda/CUDAContext.h> includes
set(LibTorch_WANTED_VERSION 2.11.0)

set(_cache "$ENV{XDG_CACHE_HOME}")
if(NOT _cache)
  set(_cache "$ENV{HOME}/.cache")
endif()
if(NOT DTRAIN_CACHE_DIR)
  set(DTRAIN_CACHE_DIR "${_cache}/dtrain")
endif()

string(REPLACE ":" ";" _env_prefixes "$ENV{CMAKE_PREFIX_PATH}")
set(LibTorch_PREFIX "")
foreach(_prefix IN LISTS LibTorch_ROOT CMAKE_PREFIX_PATH _env_prefixes ITEMS
    "${DTRAIN_CACHE_DIR}/libtorch-${LibTorch_WANTED_VERSION}")
  # The prefix itself, a site-packages directory, or torch.utils.cmake_prefix_path.
  foreach(_suffix "" /torch /../.. /../../..)
    set(_candidate "${_prefix}${_suffix}")
    if(_prefix AND NOT LibTorch_PREFIX AND EXISTS "${_candidate}/lib/libtorch_cpu.so"
        AND EXISTS "${_candidate}/include/torch/csrc/api/include/torch/torch.h")
      get_filename_component(LibTorch_PREFIX "${_candidate}" REALPATH)
    endif()
  endforeach()
endforeach()

if(LibTorch_PREFIX)
  set(LibTorch_LIB_DIR "${LibTorch_PREFIX}/lib")
  foreach(_header headeronly/version.h csrc/api/include/torch/version.h)
    if(NOT LibTorch_VERSION AND EXISTS "${LibTorch_PREFIX}/include/torch/${_header}")
      file(STRINGS "${LibTorch_PREFIX}/include/torch/${_header}" _lines
        REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) [0-9]+")
      string(REGEX REPLACE "[^;]* ([0-9]+)" "\\1" _lines "${_lines}")
      string(REPLACE ";" "." LibTorch_VERSION "${_lines}")
    endif()
  endforeach()
  if(NOT LibTorch_VERSION MATCHES "^2\\.11\\.")
    message(WARNING "LibTorch ${LibTorch_VERSION} in ${LibTorch_PREFIX}: "
      "dtrain is tested with ${LibTorch_WANTED_VERSION}")
  endif()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch
  REQUIRED_VARS LibTorch_PREFIX
  VERSION_VAR LibTorch_VERSION
  REASON_FAILURE_MESSAGE
    "run scripts/setup, or add a LibTorch ${LibTorch_WANTED_VERSION} to CMAKE_PREFIX_PATH")

if(NOT LibTorch_FOUND)
  return()
endif()

# Prefers the wheel's CUDA headers, with which it was built; an installed toolkit adds
# those that only come with the GPU libraries.
get_filename_component(_site "${LibTorch_PREFIX}/.." REALPATH)
file(GLOB _wheel_cuda "${_site}/nvidia/*/include")
set(LibTorch_CUDA_INCLUDE_DIRS "")
set(LibTorch_CUDA_MATH TRUE)
foreach(_header cuda_runtime_api.h crt/host_defines.h cublas_v2.h cusparse.h cusolverDn.h)
  unset(_dir)
  find_path(_dir ${_header} NO_CACHE HINTS ${_wheel_cuda}
    PATHS $ENV{CUDA_HOME}/include $ENV{CUDA_PATH}/include /usr/local/cuda/include)
  if(_dir)
    list(APPEND LibTorch_CUDA_INCLUDE_DIRS ${_dir})
  else()
    set(LibTorch_CUDA_MATH FALSE)
    if(NOT _header MATCHES "^cu(blas|sp|sol)")
      set(LibTorch_CUDA_INCLUDE_DIRS "") # useless without these two
      break()
    endif()
  endif()
endforeach()
list(REMOVE_DUPLICATES LibTorch_CUDA_INCLUDE_DIRS)
find_path(LibTorch_NCCL_INCLUDE_DIR nccl.h NO_CACHE HINTS ${_wheel_cuda}
  PATHS $ENV{CUDA_HOME}/include $ENV{CUDA_PATH}/include /usr/local/cuda/include)
file(GLOB _wheel_cuda "${_site}/nvidia/*/lib")
unset(_cudart)
find_library(_cudart NAMES libcudart.so.13 cudart NO_CACHE HINTS ${_wheel_cuda}
  PATHS $ENV{CUDA_HOME}/lib64 $ENV{CUDA_PATH}/lib64 /usr/local/cuda/lib64)

if(NOT TARGET LibTorch::cpu)
  add_library(LibTorch::c10 SHARED IMPORTED GLOBAL)
  set_target_properties(LibTorch::c10 PROPERTIES
    IMPORTED_LOCATION "${LibTorch_LIB_DIR}/libc10.so")
  add_library(LibTorch::torch_cpu SHARED IMPORTED GLOBAL)
  set_target_properties(LibTorch::torch_cpu PROPERTIES
    IMPORTED_LOCATION "${LibTorch_LIB_DIR}/libtorch_cpu.so")

  # --as-needed, since libtorch.so would load the CUDA libraries.
  add_library(LibTorch::cpu INTERFACE IMPORTED GLOBAL)
  set_target_properties(LibTorch::cpu PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES
      "${LibTorch_PREFIX}/include;${LibTorch_PREFIX}/include/torch/csrc/api/include"
    INTERFACE_LINK_OPTIONS LINKER:--as-needed
    INTERFACE_LINK_LIBRARIES "LibTorch::torch_cpu;LibTorch::c10")
endif()

file(GLOB _gomp "${LibTorch_LIB_DIR}/libgomp*.so*")
list(LENGTH _gomp _count)
if(NOT TARGET LibTorch::gomp AND _count EQUAL 1 AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  add_library(LibTorch::gomp SHARED IMPORTED GLOBAL)
  set_target_properties(LibTorch::gomp PROPERTIES IMPORTED_LOCATION "${_gomp}")
endif()

if(NOT TARGET LibTorch::cuda AND LibTorch_CUDA_INCLUDE_DIRS AND _cudart
    AND EXISTS "${LibTorch_LIB_DIR}/libtorch_cuda.so")
  add_library(LibTorch::cudart SHARED IMPORTED GLOBAL)
  set_target_properties(LibTorch::cudart PROPERTIES IMPORTED_LOCATION "${_cudart}")

  # A single argument, so that its parts keep their order. Undefined symbols are
  # allowed, since cuBLAS and the like exist only on machines with a GPU.
  string(CONCAT _link_cuda "-Wl,--push-state,--no-as-needed,"
    "${LibTorch_LIB_DIR}/libtorch_cuda.so,${LibTorch_LIB_DIR}/libc10_cuda.so,"
    "--pop-state")
  add_library(LibTorch::cuda INTERFACE IMPORTED GLOBAL)
  set_target_properties(LibTorch::cuda PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${LibTorch_CUDA_INCLUDE_DIRS}"
    INTERFACE_LINK_OPTIONS LINKER:--allow-shlib-undefined
    INTERFACE_LINK_LIBRARIES "LibTorch::cpu;${_link_cuda};LibTorch::cudart")
endif()
