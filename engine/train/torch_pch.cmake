# LibTorch's headers cost half a minute of CPU: they are compiled once, into the
# precompiled header of this target, and every Torch module takes it from here.
add_library(dtrain_torch_pch OBJECT ${CMAKE_CURRENT_LIST_DIR}/torch_pch.cc)
target_link_libraries(dtrain_torch_pch PUBLIC
  dtrain_options LibTorch::cpu nlohmann_json::nlohmann_json Threads::Threads)
target_precompile_headers(dtrain_torch_pch PRIVATE
  <algorithm> <cmath> <functional> <map> <memory> <optional> <span> <string>
  <string_view> <variant> <vector>
  <nlohmann/json.hpp> <torch/cuda.h> <torch/optim.h> <torch/types.h>
  <torch/utils.h> ${CMAKE_CURRENT_LIST_DIR}/torch_modules.h)

# Lets `target` use that header. Its objects must be position-independent code,
# as those of libraries are (not those of executables).
function(dtrain_use_torch target)
  target_link_libraries(${target} PUBLIC LibTorch::cpu Threads::Threads)
  target_precompile_headers(${target} REUSE_FROM dtrain_torch_pch)
endfunction()

# A module that includes Torch: as dtrain_module, with the precompiled header.
function(dtrain_torch_module name)
  dtrain_module(${name} OWN_HEADERS ${ARGN})
  dtrain_use_torch(dtrain_${name})
endfunction()
