# DTRAIN_PACKAGE: programs for scripts/package, which work on other machines. They
# find LibTorch by paths relative to themselves, listed in P/lib/dtrain/libtorch below
# its version, in the order of the search (engine/os/installation.h): the directory of
# dtrain-fetch-libtorch, then site-packages of each Python that LibTorch supports.
#
# Components of the installation besides the default one:
#   bundled   P/lib/dtrain/bundled: the distribution's libraries that the programs
#             need, for the wheel and the archive. A .deb depends on their packages.
#   fetch     P/bin/dtrain-fetch-libtorch, for the archive and the .deb. A wheel
#             requires torch.
#
# P/share/doc/dtrain/licenses has the licence texts of the libraries in the package.
option(DTRAIN_PACKAGE "Build programs that find LibTorch by relative paths" OFF)
if(NOT DTRAIN_PACKAGE)
  return()
endif()

set(DTRAIN_TORCH_PLACES lib/dtrain/libtorch-${LibTorch_WANTED_VERSION}/torch)
foreach(_minor RANGE 10 14)
  foreach(_site site-packages dist-packages)
    list(APPEND DTRAIN_TORCH_PLACES lib/python3.${_minor}/${_site}/torch)
  endforeach()
endforeach()
string(REPLACE ";" "\n" _places
  "${LibTorch_WANTED_VERSION};${DTRAIN_TORCH_PLACES}\n")
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/installed/libtorch CONTENT "${_places}" @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/installed/libtorch DESTINATION lib/dtrain)

# Headers of user models include this one.
find_path(DTRAIN_JSON_INCLUDE nlohmann/json.hpp REQUIRED)
install(DIRECTORY ${DTRAIN_JSON_INCLUDE}/nlohmann DESTINATION include/dtrain)

# Sets the run-time search path of a program or library in `directory` of the prefix.
# DT_RPATH, unlike DT_RUNPATH, also holds for the libraries of the bundled libraries.
function(dtrain_package_rpath target directory)
  file(RELATIVE_PATH _up /p/${directory} /p)
  set(_path $ORIGIN/${_up}lib $ORIGIN/${_up}lib/dtrain/bundled)
  foreach(_place IN LISTS DTRAIN_TORCH_PLACES)
    list(APPEND _path $ORIGIN/${_up}${_place}/lib $ORIGIN/${_up}${_place}/../nvidia/cu13/lib)
  endforeach()
  set_target_properties(${target} PROPERTIES
    INSTALL_RPATH "${_path}" INSTALL_RPATH_USE_LINK_PATH OFF)
  target_link_options(${target} PRIVATE LINKER:--disable-new-dtags)
endfunction()

# What a platform of manylinux provides, and LibTorch with its CUDA libraries.
set(_provided "^(ld-linux.*|lib(c|m|dl|rt|pthread|util|resolv|stdc\\+\\+|gcc_s))\\.so"
  "^lib(torch.*|c10.*|gomp|cu(blas|blasLt|dart|dnn|fft|file|pti|rand|solver|sparse)|nccl|nv.*)\\.so")
list(JOIN _provided "|" _provided)
set(DTRAIN_LICENSE_SCRIPT ${PROJECT_SOURCE_DIR}/scripts/cmake/LicenseTexts.cmake)
string(CONFIGURE [[
  set(_prefix "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}")
  file(GET_RUNTIME_DEPENDENCIES
    EXECUTABLES ${_prefix}/bin/dtrain ${_prefix}/libexec/dtrain/data-fetch
      ${_prefix}/libexec/dtrain/command-host
    LIBRARIES ${_prefix}/lib/libdtrain_trial.so
    RESOLVED_DEPENDENCIES_VAR _found
    PRE_EXCLUDE_REGEXES "@_provided@")
  file(INSTALL ${_found} DESTINATION ${_prefix}/lib/dtrain/bundled FOLLOW_SYMLINK_CHAIN)
  execute_process(COMMAND ${CMAKE_COMMAND} -DDIRECTORY=${_prefix}/share/doc/dtrain/licenses
    "-DLIBRARIES=${_found}" -P @DTRAIN_LICENSE_SCRIPT@ COMMAND_ERROR_IS_FATAL ANY)
  # Archives of wheels hold no links, so each library has only the name that is loaded.
  file(GLOB _files ${_prefix}/lib/dtrain/bundled/*)
  foreach(_file IN LISTS _files)
    if(IS_SYMLINK ${_file})
      file(REAL_PATH ${_file} _real)
      file(REMOVE ${_file})
      file(RENAME ${_real} ${_file})
    endif()
  endforeach()
]] _bundle @ONLY)
install(CODE "${_bundle}" COMPONENT bundled)
# Libraries that are part of the programs or of the live page.
string(REGEX MATCH "^[0-9]+" _gcc ${CMAKE_CXX_COMPILER_VERSION})
set(_linked libcli11-dev libevent-dev libre2-dev libsqlite3-dev libsqlitecpp-dev
  libstdc++-${_gcc}-dev libyaml-cpp-dev node-d3 nlohmann-json3-dev
  zlib1g-dev)
string(CONFIGURE [[
  set(_prefix "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}")
  execute_process(COMMAND ${CMAKE_COMMAND} -DDIRECTORY=${_prefix}/share/doc/dtrain/licenses
    "-DPACKAGES=@_linked@" -P @DTRAIN_LICENSE_SCRIPT@ COMMAND_ERROR_IS_FATAL ANY)
]] _license @ONLY)
install(CODE "${_license}")

install(PROGRAMS scripts/fetch_libtorch DESTINATION bin RENAME dtrain-fetch-libtorch
  COMPONENT fetch)

set(CPACK_PACKAGE_NAME dtrain)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "dtrain <dtrain@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY
  "Training experiments and hyperparameter searches from one YAML file")
set(CPACK_PACKAGE_FILE_NAME dtrain-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
# LICENCE: CPACK_RESOURCE_FILE_LICENSE, and share/doc/dtrain/copyright in the .deb, once the
# owner has decided.
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${LibTorch_LIB_DIR}
  ${LibTorch_PREFIX}/../nvidia/cu13/lib ${PROJECT_BINARY_DIR}/lib)
# Opened by name (engine/os/sha256.cc).
set(CPACK_DEBIAN_PACKAGE_DEPENDS libssl3)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "python3-pip, unzip")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS g++)
include(CPack)
