# Files for compiling a user's model_def.cpp, which engine/plugin reads. They exist in
# the build tree and in an installation:
#
#   include/dtrain/model.h            header that the model includes
#   include/dtrain/abi.h              hash of all its headers and the versions of
#                                     Torch and of the compiler
#   lib/dtrain/model_build.json       compiler, flags, libraries
#
# Both use the precompiled Torch header of the build tree as long as it exists.
set(_headers "")
foreach(_module engine/base engine/checkpoint engine/data engine/image engine/os engine/train
    engine/wire models models/nets models/ops models/own)
  file(GLOB _found CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${_module}/*.h)
  list(APPEND _headers ${_found})
endforeach()

set(_include ${PROJECT_BINARY_DIR}/include/dtrain)
configure_file(${PROJECT_SOURCE_DIR}/models/own/model.h ${_include}/model.h COPYONLY)
string(REPLACE ";" "\n" _list "${_headers}")
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/model_headers.txt CONTENT "${_list}" @ONLY)
add_custom_command(
  OUTPUT ${_include}/abi.h
  COMMAND ${CMAKE_COMMAND} -D LIST=${PROJECT_BINARY_DIR}/model_headers.txt
    "-D ALSO=${PROJECT_VERSION} ${LibTorch_VERSION} ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}"
    -D OUTPUT=${_include}/abi.h -P ${PROJECT_SOURCE_DIR}/scripts/cmake/WriteAbi.cmake
  DEPENDS ${_headers} ${PROJECT_BINARY_DIR}/model_headers.txt
    ${PROJECT_SOURCE_DIR}/scripts/cmake/WriteAbi.cmake
  VERBATIM)
add_custom_target(dtrain_abi DEPENDS ${_include}/abi.h)

# Sets `out` to a JSON array of the arguments.
function(dtrain_json_list out)
  string(REPLACE "\\" "\\\\" _text "${ARGN}")
  string(REPLACE "\"" "\\\"" _text "${_text}")
  string(REPLACE ";" "\", \"" _text "${_text}")
  set(${out} "[\"${_text}\"]" PARENT_SCOPE)
endfunction()

string(TOUPPER "${CMAKE_BUILD_TYPE}" _type)
separate_arguments(_flags UNIX_COMMAND "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${_type}}")
separate_arguments(_link UNIX_COMMAND "${CMAKE_SHARED_LINKER_FLAGS}")
# Models compute in LibTorch, so -O1 suffices and compiles in two thirds of the time.
# The other flags must be those of the precompiled header, or GCC ignores it.
list(TRANSFORM _flags REPLACE "^-O[23]$" "-O1")
list(APPEND _flags -fPIC -fvisibility=hidden -fvisibility-inlines-hidden -Wall -Wextra -Wno-missing-field-initializers
  -std=c++20)
if(DTRAIN_SANITIZE)
  list(APPEND _flags -fsanitize=${DTRAIN_SANITIZE} -fno-sanitize-recover=all
    -fno-omit-frame-pointer -fno-sanitize=vptr)
  list(APPEND _link -fsanitize=${DTRAIN_SANITIZE})
endif()
get_target_property(_torch LibTorch::cpu INTERFACE_INCLUDE_DIRECTORIES)
set(_libraries ${LibTorch_LIB_DIR}/libtorch_cpu.so ${LibTorch_LIB_DIR}/libc10.so)
set(_precompiled ${PROJECT_BINARY_DIR}/engine/CMakeFiles/dtrain_torch_pch.dir/cmake_pch.hxx)

# `includes` and libdtrain_trial.so are relative to the prefix.
function(dtrain_write_model_build file)
  dtrain_json_list(_flags ${_flags})
  dtrain_json_list(_link ${_link} -Wl,--as-needed)
  dtrain_json_list(_include ${ARGN} ${_torch})
  dtrain_json_list(_libraries lib/libdtrain_trial.so ${_libraries})
  file(CONFIGURE OUTPUT ${file} @ONLY CONTENT [[{
  "compiler": "@CMAKE_CXX_COMPILER@",
  "flags": @_flags@,
  "include": @_include@,
  "precompiled": "@_precompiled@",
  "link_flags": @_link@,
  "libraries": @_libraries@
}
]])
endfunction()
dtrain_write_model_build(${PROJECT_BINARY_DIR}/lib/dtrain/model_build.json
  include ${PROJECT_SOURCE_DIR})
if(DTRAIN_PACKAGE) # LibTorch is somewhere else there, and the build tree is not
  foreach(_list _torch _libraries)
    list(TRANSFORM ${_list} REPLACE "^${LibTorch_PREFIX}/" "{torch}/")
  endforeach()
  set(_precompiled "")
endif()
dtrain_write_model_build(${PROJECT_BINARY_DIR}/installed/model_build.json
  include include/dtrain)

install(FILES ${PROJECT_BINARY_DIR}/installed/model_build.json DESTINATION lib/dtrain)
install(FILES ${_include}/model.h ${_include}/abi.h DESTINATION include/dtrain)
foreach(_header IN LISTS _headers)
  file(RELATIVE_PATH _path ${PROJECT_SOURCE_DIR} ${_header})
  get_filename_component(_module ${_path} DIRECTORY)
  install(FILES ${_header} DESTINATION include/dtrain/${_module})
endforeach()
